"""The scatter detector: its likelihood, missing values, categories, thresholds and what it says of features."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal, multivariate_t
from sklearn.metrics import roc_auc_score

from likely.outliers import ScatterDetector
from likely.outliers._scatter import fill
from likely.outliers.threshold import threshold

RNG = np.random.default_rng(0)
MIX = np.array([[1.0, 0.8, 0.0], [0.0, 0.6, 0.5], [0.0, 0.0, 1.0]])
CLEAN = RNG.normal(size=(2000, 3)) @ MIX


def spoiled(seed: int = 0) -> np.ndarray:
    X = CLEAN.copy()
    X[:100] += 8 * np.random.default_rng(seed).normal(size=(100, 3))
    return X


def test_it_is_the_likeliest_multivariate_t() -> None:
    rng = np.random.default_rng(1)
    X = multivariate_t(shape=MIX.T @ MIX, df=3, seed=0).rvs(500)
    detector = ScatterDetector(df=3.0, shrinkage=1e-9, tol=1e-9, max_iter=500).fit(X)
    z = detector.columns_.standard(X)
    # Undo what makes the median row as far as a normal one: the fixed point has weights of mean one.
    delta = np.square(np.linalg.solve(np.linalg.cholesky(detector.covariance_), (z - detector.location_).T)).sum(0)
    factors = np.linspace(0.2, 3, 200)
    shape = detector.covariance_ * factors[np.argmin([abs(((3 + 3) / (3 + delta / f)).mean() - 1) for f in factors])]

    def likelihood(mean, covariance) -> float:
        return multivariate_t(mean, covariance, df=3).logpdf(z).sum()

    best = likelihood(detector.location_, shape)
    for _ in range(20):
        turn = 0.05 * rng.normal(size=(3, 3))
        assert likelihood(detector.location_ + 0.05 * rng.normal(size=3), shape) < best
        assert likelihood(detector.location_, (np.eye(3) + turn) @ shape @ (np.eye(3) + turn).T) < best


def test_outliers_hardly_move_it() -> None:
    clean, spoilt = ScatterDetector().fit(CLEAN), ScatterDetector().fit(spoiled())
    np.testing.assert_allclose(clean.outlier_score(CLEAN)[200:], spoilt.outlier_score(CLEAN)[200:], atol=0.15)
    assert roc_auc_score(np.arange(2000) < 100, spoilt.outlier_score(spoiled())) > 0.95


def test_units_do_not_matter() -> None:
    X = spoiled()
    one, other = ScatterDetector().fit(X), ScatterDetector().fit(X * [1e-3, 5, 1e6] + [3, -1e4, 0])
    np.testing.assert_allclose(one.outlier_score(X), other.outlier_score(X * [1e-3, 5, 1e6] + [3, -1e4, 0]), atol=1e-6)


def test_scales_of_ordinary_rows_are_about_one() -> None:
    scale = ScatterDetector().fit(CLEAN).scale(CLEAN)
    assert 0.8 < np.median(scale) < 1.2


def test_contributions_add_up_to_the_distance_and_name_the_culprit() -> None:
    X = CLEAN.copy()
    X[0, 2] += 9
    detector = ScatterDetector().fit(X)
    parts = detector.explain(X)
    squared = np.exp(2 * detector.outlier_score(X)) * (detector.df + 3) - detector.df
    np.testing.assert_allclose(parts.sum(1), squared, rtol=1e-6)
    assert parts[0].argmax() == 2
    assert 0.7 < parts[1:].mean() < 1.6


def test_missing_values_are_left_out_of_the_likelihood() -> None:
    rng = np.random.default_rng(1)
    covariance = MIX.T @ MIX
    rows = CLEAN[:50].copy()
    lost = rng.random(rows.shape) < 0.4
    rows[lost] = np.nan
    filled = rows.copy()
    seen, _ = fill(filled, np.linalg.inv(covariance), np.ones(50))
    np.testing.assert_array_equal(seen, 3 - lost.sum(1))
    distance = np.einsum("ni,ij,nj->n", filled, np.linalg.inv(covariance), filled)
    for row, missing, found in zip(rows, lost, distance, strict=True):
        there = np.flatnonzero(~missing)
        expected = 0.0
        if len(there):
            part = multivariate_normal(np.zeros(len(there)), covariance[np.ix_(there, there)])
            expected = -2 * (part.logpdf(row[there]) - part.logpdf(np.zeros(len(there))))
        assert found == pytest.approx(expected, abs=1e-9)


def test_missing_values_do_not_bias_the_covariance() -> None:
    rng = np.random.default_rng(1)
    whole = ScatterDetector().fit(CLEAN)
    X = np.where(rng.random(CLEAN.shape) < 0.3, np.nan, CLEAN)
    holed = ScatterDetector().fit(X)
    correlation = [
        d.covariance_ / np.sqrt(np.outer(d.covariance_.diagonal(), d.covariance_.diagonal())) for d in (whole, holed)
    ]
    np.testing.assert_allclose(*correlation, atol=0.05)
    assert (holed.explain(X)[np.isnan(X)] == 0).all()


def frame(library: str):
    columns = {
        "size": [float(x) for x in CLEAN[:300, 0]],
        "twice": [float(2 * x) for x in CLEAN[:300, 0] + 0.01 * CLEAN[:300, 1]],
        "kind": [["cat", "dog", None][k % 3] for k in range(300)],
        "flag": [k % 2 == 0 for k in range(300)],
    }
    columns["kind"][0] = "okapi"
    return pytest.importorskip(library).DataFrame(columns)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_with_categories(library: str) -> None:
    X = frame(library)
    detector = ScatterDetector().fit(X)
    assert list(detector.feature_names_in_) == ["size", "twice", "kind", "flag"]
    scores = detector.outlier_score(X)
    assert np.isfinite(scores).all()
    assert (scores < scores[0]).mean() > 0.9
    explained = detector.explain(X)
    assert type(explained) is type(X)
    assert list(explained.columns) == list(X.columns)
    parts = explained.to_numpy()
    assert parts.shape == (300, 4)
    assert parts[0].argmax() == 2
    # Another library's frame with the same columns is the same table; an unseen level is as odd as a rare one.
    unseen = frame("pandas").assign(kind="emu")
    assert (detector.outlier_score(unseen) > np.median(scores)).all()
    np.testing.assert_allclose(detector.explain(unseen).iloc[0], parts[0])


def test_a_level_that_was_never_seen_is_news() -> None:
    X = pd.DataFrame({"x": CLEAN[:300, 0], "kind": ["a", "b", "c"] * 100})
    detector = ScatterDetector().fit(X)
    assert detector.outlier_score(X.assign(kind="d")).min() > np.quantile(detector.outlier_score(X), 0.98)


def test_dates_and_nullable_numbers_are_numbers() -> None:
    X = pd.DataFrame(
        {
            "day": pd.date_range("2020-01-01", periods=100).to_series(index=range(100)),
            "count": pd.array([None, *range(99)], dtype="Int64"),
            "code": pd.Categorical([1, 2] * 50),
        }
    )
    detector = ScatterDetector().fit(X)
    assert [own is None for own in detector.columns_.levels] == [True, True, False]
    X.loc[3, "day"] = pd.Timestamp("2035-01-01")
    assert detector.outlier_score(X).argmax() == 3


def test_a_column_that_changes_its_type_is_refused() -> None:
    X = pd.DataFrame({"x": CLEAN[:50, 0], "y": CLEAN[:50, 1]})
    detector = ScatterDetector().fit(X)
    with pytest.raises(ValueError, match="'y' held numbers"):
        detector.outlier_score(X.assign(y="a lot"))
    with pytest.raises(ValueError, match="infinity"):
        ScatterDetector().fit(X.assign(y=np.inf))


def test_clean_rows_raise_few_alarms_and_spoiled_ones_many() -> None:
    assert (ScatterDetector().fit(CLEAN).predict(CLEAN) < 0).mean() < 0.005
    X = spoiled()
    found = ScatterDetector().fit(X).predict(X) < 0
    assert found[:100].mean() > 0.8
    assert found[100:].mean() < 0.01


def test_a_few_odd_rows_among_equal_ones_are_found() -> None:
    rng = np.random.default_rng(1)
    X = np.ones((500, 3))
    X[:4] += rng.normal(size=(4, 3))
    assert np.flatnonzero(ScatterDetector().fit(X).predict(X) < 0).tolist() == [0, 1, 2, 3]
    assert (ScatterDetector().fit(X[4:]).predict(X[4:]) == 1).all()


def test_too_many_columns_are_refused_with_a_remedy() -> None:
    with pytest.raises(ValueError, match="up to 4096: leave some out"):
        ScatterDetector().fit(np.zeros((3, 5000)))


def test_contamination_is_the_share_of_outliers() -> None:
    for share in (0.01, 0.1, 0.5):
        assert (ScatterDetector(contamination=share).fit(CLEAN).predict(CLEAN) < 0).sum() == round(2000 * share)


def test_the_threshold_counts_weights_as_rows() -> None:
    rng = np.random.default_rng(1)
    scores, weight = rng.normal(size=200), rng.integers(0, 4, size=200).astype(float)
    repeated = np.repeat(scores, weight.astype(int))
    for contamination in ("auto", 0.2):
        assert threshold(scores, scores, weight, contamination) == threshold(repeated, repeated, None, contamination)


def test_long_tables_are_sampled_and_read_in_blocks(tmp_path) -> None:
    rows = np.tile(CLEAN.astype(np.float32), (50, 1))
    np.save(tmp_path / "rows.npy", rows)
    stored = np.load(tmp_path / "rows.npy", mmap_mode="r")
    on_disk, in_memory = ScatterDetector().fit(stored), ScatterDetector().fit(rows)
    np.testing.assert_array_equal(on_disk.outlier_score(stored), in_memory.outlier_score(rows))
    named = pd.DataFrame(rows, columns=list("abc"))
    np.testing.assert_allclose(ScatterDetector().fit(named).outlier_score(named), in_memory.outlier_score(rows))
    few = ScatterDetector().fit(CLEAN)
    np.testing.assert_allclose(few.outlier_score(CLEAN), in_memory.outlier_score(CLEAN), atol=0.02)
