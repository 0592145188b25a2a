"""Categories are scored by how surprising a level is: many levels hide no odd row and make none."""

import numpy as np
import pandas as pd
import pytest

from likely.outliers import LikelihoodDetector, ScaledPCADetector, ScatterDetector
from pairwise import together

DETECTORS = [ScatterDetector(), LikelihoodDetector(random_state=0)]


def table(levels: int, slope: float, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(2000, 5)), columns=list("abcde"))
    share = 1 / np.arange(1, levels + 1) ** slope
    frame["state"] = [f"s{k}" for k in rng.choice(levels, 2000, p=share / share.sum())]
    return frame


@together("levels", [5, 50, 500])
@together("slope", [0, 1], ids=["uniform", "Zipf"])
@pytest.mark.parametrize("detector", DETECTORS, ids=lambda own: type(own).__name__)
def test_many_levels_hide_no_odd_row_and_make_none(detector, levels: int, slope: float) -> None:
    X = table(levels, slope, seed=5)
    assert (detector.fit(X).predict(X) < 0).mean() <= 0.005
    X.loc[7, "a"], X.loc[8, "b"] = 1e6, 50.0
    found = set(np.flatnonzero(detector.fit(X).predict(X) < 0))
    assert found >= {7, 8}
    assert len(found) <= 2 + 0.01 * len(X)


@pytest.mark.parametrize("detector", DETECTORS, ids=lambda own: type(own).__name__)
def test_a_rare_level_is_odd_only_where_rare_levels_are_rare(detector) -> None:
    X = table(2, 0, seed=6)
    X.loc[3, "state"] = "once"
    scores = detector.fit(X).outlier_score(X)
    assert (scores < scores[3]).mean() > 0.95
    many = table(2, 0, seed=6)
    many["state"] = [f"s{k % 1500}" for k in range(2000)]  # a thousand levels are there once
    assert detector.fit(many).explain(many).iloc[3, 5] < 1
    # And where every level is a new one, another is no news.
    new = many.assign(state="new")
    assert np.abs(detector.outlier_score(new) - detector.outlier_score(many)).max() < 1


def test_levels_are_weighed_and_their_order_does_not_matter() -> None:
    X = table(5, 1, seed=7)[:300]
    weight = np.random.default_rng(0).integers(0, 3, size=300)
    for detector in DETECTORS:
        weighted = detector.fit(X, sample_weight=weight).decision_function(X)
        repeated = X.loc[np.repeat(np.arange(300), weight)].sample(frac=1, random_state=0)
        np.testing.assert_allclose(detector.fit(repeated).decision_function(X), weighted, atol=1e-7)


def test_a_table_of_categories_only() -> None:
    X = pd.DataFrame({"kind": ["a", "b"] * 100, "flag": [True] * 199 + [False]})
    for detector in (*DETECTORS, ScaledPCADetector(max_steps=5, random_state=0)):
        scores = detector.fit(X).outlier_score(X)
        assert np.isfinite(scores).all()
        assert detector.explain(X).shape == (200, 2)
    assert DETECTORS[0].outlier_score(X).argmax() == 199


def test_what_explains_a_frame_is_a_frame_with_its_names() -> None:
    X = table(2, 0, seed=6).set_index(np.arange(2000)[::-1])
    for detector in DETECTORS:
        parts = detector.fit(X).explain(X)
        assert isinstance(parts, pd.DataFrame)
        assert parts.columns.equals(X.columns)
        assert parts.index.equals(X.index)
        np.testing.assert_array_equal(parts.iloc[:5], detector.explain(X.iloc[:5]))
