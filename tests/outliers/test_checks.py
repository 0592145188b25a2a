"""scikit-learn's own checks of the detectors, tables that are hard to take, and saving."""

import pickle

import joblib
import numpy as np
import pytest
from sklearn.base import clone

from likely.outliers import (
    LikelihoodDetector,
    ScaledAutoencoderDetector,
    ScaledPCADetector,
    ScatterDetector,
)
from pairwise import together
from scikit_learn_checks import meets_all_checks

FEW = {"max_steps": 5, "random_state": 0}
DETECTORS = [
    ScatterDetector(),
    LikelihoodDetector(random_state=0),
    ScaledPCADetector(**FEW),
    ScaledPCADetector(likelihood="robust", dimension="row", score_by="scale", **FEW),
    ScaledAutoencoderDetector(likelihood="student_t", **FEW),
]
SAMPLED = "rows are drawn by their number, so that a row twice is not a row of weight two"


def expected(estimator) -> dict[str, str]:
    known = {}
    if estimator.contamination == "auto" and not isinstance(estimator, ScaledPCADetector):
        clean = "these are three clean blobs, in which an automatic threshold finds no outlier"
        known |= dict.fromkeys(("check_outliers_train", "check_outliers_fit_predict"), clean)
    if not isinstance(estimator, ScatterDetector | LikelihoodDetector):
        known["check_sample_weight_equivalence_on_dense_data"] = SAMPLED
    return known


@pytest.mark.parametrize(
    "estimator",
    [
        ScatterDetector(contamination=0.1),
        LikelihoodDetector(random_state=0),
        ScaledPCADetector(**FEW),
        ScaledAutoencoderDetector(likelihood="student_t", **FEW),
    ],
    ids=lambda own: type(own).__name__,
)
def test_scikit_learn_checks(estimator) -> None:
    meets_all_checks(estimator, expected(estimator))


RNG = np.random.default_rng(0)
PLAIN = RNG.normal(size=(60, 3))
TABLES = {
    "constant": np.column_stack([PLAIN, np.full(60, 7.0)]),
    "all constant": np.ones((20, 3)),
    "collinear": np.column_stack([PLAIN, PLAIN.sum(1), -PLAIN[:, 0]]),
    "duplicated rows": np.repeat(PLAIN[:6], 10, axis=0),
    "two rows only": np.repeat(PLAIN[:2], 20, axis=0),
    "huge": PLAIN * [1e300, 1.0, 1e-300],
    "one huge value": np.vstack([PLAIN, [1e300, 0.0, 0.0]]),
    "near the largest float": np.vstack([PLAIN, [1.7e308, -1.7e308, 0.0]]),
    "tiny": PLAIN * 1e-310,
    "integers": RNG.integers(0, 3, size=(60, 4)),
    "bits": RNG.integers(0, 2, size=(60, 4)).astype(bool),
    "three rows": PLAIN[:3],
    "more columns than rows": RNG.normal(size=(10, 40)),
    "one column": PLAIN[:, :1],
    "missing": np.where(RNG.random((60, 3)) < 0.2, np.nan, PLAIN),
    "a column missing": np.column_stack([PLAIN, np.full(60, np.nan)]),
    "a row missing": np.vstack([PLAIN, np.full(3, np.nan)]),
}


@pytest.mark.parametrize("detector", DETECTORS, ids=lambda own: str(own)[:40])
@together("name", TABLES)
def test_hard_tables_get_finite_scores(detector, name: str) -> None:
    X = TABLES[name]
    fitted = clone(detector).fit(X)
    for found in (fitted.outlier_score(X), fitted.scale(X), fitted.explain(X), fitted.decision_function(X)):
        assert np.isfinite(found).all()
    assert fitted.explain(X).shape == X.shape
    # Rows from elsewhere are scored too.
    assert np.isfinite(fitted.outlier_score(np.full((2, X.shape[1]), 3.0))).all()


@pytest.mark.parametrize("detector", DETECTORS[:3], ids=lambda own: type(own).__name__)
def test_a_huge_value_is_the_worst(detector) -> None:
    X = TABLES["one huge value"]
    assert clone(detector).fit(X).outlier_score(X).argmax() == 60


@pytest.mark.parametrize("detector", DETECTORS, ids=lambda own: str(own)[:40])
def test_saved_detectors_score_alike(detector, tmp_path) -> None:
    X = TABLES["missing"]
    fitted = clone(detector).fit(X)
    joblib.dump(fitted, tmp_path / "detector.joblib")
    for again in (pickle.loads(pickle.dumps(fitted)), joblib.load(tmp_path / "detector.joblib")):
        np.testing.assert_array_equal(again.outlier_score(X), fitted.outlier_score(X))
        assert again.offset_ == fitted.offset_


@pytest.mark.parametrize(
    ("detector", "words"),
    [
        (ScatterDetector(contamination=0.6), "contamination"),
        (ScatterDetector(df=0), "df"),
        (ScatterDetector(shrinkage=-1), "shrinkage"),
        (ScaledPCADetector(likelihood="cauchy"), "likelihood"),
        (ScaledPCADetector(dimension="pixel"), "dimension"),
        (ScaledPCADetector(score_by="loss"), "score_by"),
        (ScaledPCADetector(0), "n_components"),
    ],
)
def test_bad_arguments_are_named(detector, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        detector.fit(PLAIN)
