"""scikit-learn's own checks of the robust linear models, and what they say to input that cannot be fitted."""

import numpy as np
import pytest

from likely.linear._robust_logistic import RobustLogisticRegression
from likely.linear._robust_pca import RobustPCA
from likely.linear._robust_regression import SCALES, RobustLinearRegression
from pairwise import together
from scikit_learn_checks import meets_all_checks


@pytest.mark.parametrize("estimator", [RobustLinearRegression(), RobustLogisticRegression(), RobustPCA()], ids=str)
def test_scikit_learn_checks(estimator) -> None:
    meets_all_checks(estimator)


ESTIMATORS = [*(RobustLinearRegression(scale) for scale in SCALES), RobustLogisticRegression(), RobustPCA(1)]
X, Y = np.random.default_rng(0).normal(size=(30, 2)), np.arange(30) % 2


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
@together(
    ("rows", "words"),
    [
        (np.where(X > 1, np.nan, X), "NaN"),
        (np.where(X > 1, np.inf, X), "infinity"),
        (X[:1], "minimum of 2"),
        (X[:, :0], "0 feature"),
        (X[:, 0], "Expected 2D array"),
    ],
)
def test_bad_tables_get_scikit_learns_errors(estimator, rows, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        estimator.fit(rows, Y[: len(rows)])


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
@together("weight", [np.zeros(30), -np.ones(30), np.ones(29)])
def test_bad_weights_are_refused(estimator, weight) -> None:
    with pytest.raises(ValueError, match="weight"):
        estimator.fit(X, Y, sample_weight=weight)
