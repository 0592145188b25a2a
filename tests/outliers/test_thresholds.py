"""Thresholds hold on rows that the detector has not seen, and outliers are still found."""

import numpy as np
import pytest
from sklearn.base import clone

from likely.outliers import (
    LikelihoodDetector,
    ScaledAutoencoderDetector,
    ScaledPCADetector,
    ScatterDetector,
)
from likely.outliers._columns import RowGroups
from likely.outliers._left_out import as_of_all, left_out, weights_without
from likely.outliers.threshold import shortened, threshold
from pairwise import together

DETECTORS = {
    "scatter": ScatterDetector(),
    "likelihood": LikelihoodDetector(random_state=0),
    "pca": ScaledPCADetector(random_state=0),
    "autoencoder": ScaledAutoencoderDetector(random_state=0),
}


def drawn(kind: str, rows: int, columns: int, rng: np.random.Generator) -> np.ndarray:
    if kind == "normal":
        return rng.normal(size=(rows, columns))
    if kind == "factors":
        return rng.normal(size=(rows, 5)) @ np.sin(np.arange(5 * columns).reshape(5, -1)) + drawn(
            "normal", rows, columns, rng
        )
    if kind == "copies":
        some = rng.normal(size=(rows, -(-columns // 2)))
        return np.hstack([some, 1e9 * some])[:, :columns]
    if kind == "heavy columns":
        return rng.standard_t(3, size=(rows, columns))
    return rng.normal(size=(rows, columns)) / np.sqrt(rng.chisquare(3, size=(rows, 1)) / 3)


def shares(detector, kind: str, rows: int, columns: int, seed: int) -> tuple[float, float]:
    """Of fresh rows: called outliers with a contamination of a tenth, and by the automatic threshold."""
    rng = np.random.default_rng([seed, rows, columns])
    X, fresh = drawn(kind, rows, columns, rng), drawn(kind, 3000, columns, rng)
    detector = clone(detector)
    scores, found = detector._fit(X, None), []
    for contamination in (0.1, "auto"):  # two thresholds for one fit
        detector.set_params(contamination=contamination)._set_offset(*scores)
        found.append((detector.predict(fresh) < 0).mean())
    return found[0], found[1]


@together("kind", ["normal", "heavy columns", "heavy rows"])
@together(("rows", "columns"), [(100, 2), (100, 50), (200, 30), (1000, 10), (3000, 50)])
@pytest.mark.parametrize("name", ["scatter", "likelihood"])
def test_fresh_rows_are_flagged_as_often_as_asked(name: str, rows: int, columns: int, kind: str) -> None:
    found = np.mean([shares(DETECTORS[name], kind, rows, columns, seed) for seed in range(20, 23)], axis=0)
    assert 0.05 <= found[0] <= 0.2
    assert found[1] <= 0.05


@together(
    ("kind", "rows", "columns"),
    [("normal", 15, 45), ("heavy columns", 30, 30), ("factors", 30, 90), ("copies", 60, 60), ("normal", 100, 50)],
)
@pytest.mark.parametrize("name", ["scatter", "likelihood"])
def test_fresh_clean_rows_of_wide_tables_are_not_outliers(name: str, rows: int, columns: int, kind: str) -> None:
    found = np.mean([shares(DETECTORS[name], kind, rows, columns, seed) for seed in range(50, 53)], axis=0)
    assert found[0] <= 0.2, f"{found[0]:.2f} of fresh clean rows are called outliers, where 0.1 is asked for"
    assert found[0] >= 0.033 or rows < 100, "hardly any row is called an outlier"
    assert found[1] <= 0.08 or rows < 20, f"{found[1]:.2f} of fresh clean rows are called outliers by themselves"


@pytest.mark.parametrize("name", ["scatter", "likelihood"])
def test_tables_of_three_times_as_many_columns_as_rows(name: str) -> None:
    tenth, automatic = shares(DETECTORS[name], "normal", 100, 300, 60)
    assert 0.033 <= tenth <= 0.2, f"{tenth:.2f} of fresh clean rows are called outliers, where 0.1 is asked for"
    assert automatic <= 0.08


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("name", "kind", "rows", "columns"),
    [("pca", "normal", 200, 30), ("autoencoder", "normal", 200, 30)],
)
def test_fresh_rows_are_flagged_as_often_as_asked_by_networks(name: str, kind: str, rows: int, columns: int) -> None:
    seeds = range(30, 34)
    tenth, automatic = np.mean([shares(DETECTORS[name], kind, rows, columns, seed) for seed in seeds], axis=0)
    assert 0.05 <= tenth <= 0.2
    assert automatic <= 0.05


@pytest.mark.parametrize("name", ["scatter", "likelihood"])
def test_planted_rows_are_found_among_training_and_fresh_ones(name: str) -> None:
    rng = np.random.default_rng(40)
    X, fresh = rng.normal(size=(1000, 5)), rng.normal(size=(1000, 5))
    for table in (X, fresh):
        table[:10, :2] += 5 * np.sign(table[:10, :2])
    detector = clone(DETECTORS[name]).fit(X)
    for table in (X, fresh):
        found = detector.predict(table) < 0
        assert found[:10].mean() >= 0.8
        assert found[10:].mean() <= 0.02


def test_leaving_a_row_out_by_formula_is_leaving_it_out() -> None:
    X = np.random.default_rng(0).normal(size=(60, 8))
    detector = ScatterDetector(tol=1e-9, max_iter=500)
    _, unseen, _ = detector._fit(X, None)
    again = [ScatterDetector(tol=1e-9).fit(np.delete(X, i, 0)).outlier_score(X[i : i + 1])[0] for i in range(60)]
    fitted = detector._scores(X)
    # The fit to the other rows has units of its own, so what is compared is how much higher than usual a row is.
    assert np.abs(unseen - again).mean() < 0.3 * np.abs(fitted - again).mean()


def test_the_share_of_training_rows_is_exact_where_unseen_ones_agree() -> None:
    scores = np.random.default_rng(0).normal(size=1000)
    assert (scores > threshold(scores, scores + 0.01, None, 0.1)).sum() == 100
    assert (scores + 1 > threshold(scores, scores + 1, None, 0.1)).sum() == 100


def test_scores_that_are_unknown_are_left_out() -> None:
    scores = np.random.default_rng(0).normal(size=1000)
    some = np.where(np.arange(1000) < 500, scores + 1, np.nan)
    assert threshold(scores, some, None, 0.1) == threshold(scores[:500], scores[:500] + 1, None, 0.1)


def test_equal_rows_are_left_out_together() -> None:
    X = np.repeat(np.random.default_rng(0).normal(size=(50, 3)), 2, axis=0)
    X[:40] = 0.0
    rows = RowGroups.learn(X, None)
    out = left_out(rows, 300, np.random.RandomState(0))
    assert (out[:, ::2] == out[:, 1::2]).all()
    assert (out.sum(0) == 1).all()
    weight = weights_without(rows, out)
    assert (weight[:, 40:][out[:, 40:]] == 0).all()
    assert (weight[:, :40] > 0.8 * rows.weight[:40]).all()  # many equal rows are never all left out


def test_fits_to_fewer_rows_are_put_right() -> None:
    rng = np.random.default_rng(0)
    out = np.arange(1000) % 10 == np.arange(10)[:, None]
    scores = np.where(out, 1.0, 0.0) + rng.normal(size=(10, 1000))
    found = as_of_all(scores, out, scores[0] + 5, 1.0)
    assert np.mean(found) == pytest.approx(5.9, abs=0.15)
    assert np.isnan(as_of_all(scores[:3], out[:3], scores[0], 1.0)).sum() == 700


def test_a_normal_tail_is_left_alone() -> None:
    scores = np.random.default_rng(3).uniform(size=1000)
    np.testing.assert_array_equal(shortened(scores, None), scores)
    long = np.exp(scores * 8)
    assert (np.argsort(shortened(long, None)) == np.argsort(long)).all()


def test_rows_that_are_odd_alike_do_not_make_each_other_usual() -> None:
    found = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X, away = rng.normal(size=(200, 3)), rng.normal(size=(16, 3))
        X[:16] += 8 * away / np.linalg.norm(away, axis=1, keepdims=True)
        found.append((LikelihoodDetector(random_state=0).fit(X).predict(X)[:16] < 0).mean())
    assert np.mean(found) > 0.88  # .82 if all rows count alike
