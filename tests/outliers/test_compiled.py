"""The compiled views and scores against NumPy's, on every kind of table; and the sample that a fit draws."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest

from likely.outliers import LikelihoodDetector, ScatterDetector, _compiled as compiled
from likely.outliers._row_scores import Nearest
from pairwise import together

needs_library = pytest.mark.skipif(compiled._library() is None, reason="built without a C++ compiler")
RNG = np.random.default_rng(0)
NORMAL = RNG.normal(size=(6000, 5)) @ RNG.normal(size=(5, 5))
GAPS = np.where(RNG.random(NORMAL.shape) < 0.2, np.nan, NORMAL)
GAPS[:3] = np.nan
CONSTANT = np.column_stack([NORMAL, np.full(6000, 0.1), np.where(np.arange(6000) < 50, 2.0, 7.0)])
TABLES = {
    "normal": NORMAL,
    "few rows": NORMAL[:300],  # whose centres are in double precision
    "one column": NORMAL[:, :1],
    "wide": RNG.normal(size=(6000, 33)),
    "float32": NORMAL.astype(np.float32),
    "columns in one piece": np.asfortranarray(NORMAL),
    "every other row and column, backwards": np.repeat(np.repeat(NORMAL, 2, axis=0), 2, axis=1)[::-2, ::-2],
    "gaps": GAPS,
    "gaps in float32": GAPS.astype(np.float32),
    "constant columns": CONSTANT,
    "heavy tails": RNG.standard_cauchy(size=(6000, 6)),
    "far rows": np.concatenate([NORMAL, 1e9 * NORMAL[:20]]),
    "whole numbers": RNG.integers(0, 3, size=(6000, 4)).astype(float),
    "huge": 1e300 * NORMAL,
    "tiny": 1e-310 * NORMAL,
}


def both(detector: LikelihoodDetector, table: np.ndarray) -> tuple[np.ndarray, ...]:
    """Views and scores by compiled code, and by NumPy with distances in double precision."""
    assert detector._compiled is not None
    plain = copy.copy(detector)
    plain._compiled, plain._nearest = None, Nearest(detector._nearest.centres.astype(np.float64))
    return detector._views(table), detector._scores(table), plain._views(table), plain._scores(table)


@needs_library
@together("name", TABLES)
def test_it_computes_what_numpy_does(name: str) -> None:
    table = TABLES[name]
    detector = LikelihoodDetector(random_state=0).fit(table)
    views, scores, expected, expected_scores = both(detector, table)
    np.testing.assert_allclose(views, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(scores, expected_scores, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(detector.outlier_score(table), scores)


@needs_library
def test_new_rows_may_be_anywhere() -> None:
    detector = LikelihoodDetector(random_state=0).fit(NORMAL)
    rows = np.array([[0.0] * 5, [1e30] * 5, [-1e300, 0, 0, 0, 1e300], [np.nan, 40, 0, 0, 0], [np.nan] * 5])
    views, scores, expected, expected_scores = both(detector, rows)
    np.testing.assert_allclose(views, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(scores, expected_scores, rtol=1e-9)


@needs_library
@pytest.mark.parametrize("name", ["normal", "gaps"])
def test_a_row_has_its_score_whatever_stands_beside_it(name: str) -> None:
    table = TABLES[name]
    detector = LikelihoodDetector(random_state=0).fit(table)
    scores = detector.outlier_score(table)
    for rows in (slice(1), slice(7, 8), slice(3, 68), slice(64, 129)):
        np.testing.assert_array_equal(detector.outlier_score(table[rows]), scores[rows])
    assert detector._compiled.views(table[:0], None).shape == (0, 5)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(detector)).outlier_score(table), scores)


@needs_library
def test_levels_count_as_with_numpy() -> None:
    frame = pd.DataFrame(GAPS, columns=list("abcde"))
    frame.insert(2, "kind", RNG.choice(["x", "y", "z"], len(frame), p=[0.6, 0.399, 0.001]))
    frame.loc[::50, "kind"] = None
    detector = LikelihoodDetector(random_state=0).fit(frame)
    table = detector._table(frame)
    views, scores, expected, expected_scores = both(detector, table)
    np.testing.assert_allclose(views, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(scores, expected_scores, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(detector.explain(frame).sum(axis=1), scores, atol=1e-9)


@needs_library
def test_what_the_compiled_code_does_not_take_goes_to_numpy() -> None:
    wide = RNG.normal(size=(300, 129))
    detector = LikelihoodDetector(random_state=0).fit(wide)
    assert detector._compiled is None
    assert np.isfinite(detector.outlier_score(wide)).all()
    words = pd.DataFrame({"kind": RNG.choice(["x", "y"], 300)})
    assert LikelihoodDetector(random_state=0).fit(words)._compiled is None


def test_infinity_is_refused_in_arrays_and_frames() -> None:
    detector = LikelihoodDetector(random_state=0).fit(NORMAL)
    named = LikelihoodDetector(random_state=0).fit(pd.DataFrame(NORMAL, columns=list("abcde")))
    for dtype in (np.float32, np.float64):
        table = np.where(np.arange(6000)[:, None] == 9, np.inf, NORMAL).astype(dtype)
        with pytest.raises(ValueError, match="infinity"):
            detector.outlier_score(table)
        with pytest.raises(ValueError, match="infinity"):
            named.outlier_score(pd.DataFrame(table, columns=list("abcde")))


def test_a_frame_of_floats_is_read_as_its_numbers() -> None:
    frame = pd.DataFrame(NORMAL, columns=list("abcde")).astype({"a": np.float32})
    scores = LikelihoodDetector(random_state=0).fit(frame).outlier_score(frame)
    array = frame.astype(np.float64).to_numpy()
    np.testing.assert_array_equal(LikelihoodDetector(random_state=0).fit(array).outlier_score(array), scores)


@pytest.mark.parametrize("as_frame", [False, True])
def test_what_recurs_is_sampled_as_often_as_it_is_there(as_frame: bool) -> None:
    X = np.random.default_rng(0).normal(size=(5 * (1 << 15), 2))
    X[::5] += 100  # of every fifth row on the sample would be nothing else
    detector = ScatterDetector().fit(pd.DataFrame(X, columns=["a", "b"]) if as_frame else X)
    centre = detector.columns_.centre / detector.columns_.unit
    np.testing.assert_allclose(centre, 20, atol=1)
