"""Regressors and classifiers of tables: what scikit-learn asks of them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from likely.tabular import LikelihoodClassifier, LikelihoodRegressor, NetworkClassifier, NetworkRegressor
from scikit_learn_checks import meets_all_checks

QUICK = {"max_steps": 40, "random_state": 0}
BATCHES = (
    "batches are dealt by row: a row of weight two is in one batch, a row twice may be in two; see docs/tabular.md"
)
FOLDS = "folds are dealt by row: a row of weight two is in one fold, a row twice may be in two; see docs/tabular.md"


def expected(estimator: BaseEstimator) -> dict[str, str]:
    model = estimator.get_params().get("model")
    if isinstance(estimator, LikelihoodRegressor if model != "linear" else LikelihoodClassifier):
        return {}  # by chance: these targets are predicted to the last digit, whatever the folds
    reason = BATCHES if isinstance(estimator, NetworkRegressor | NetworkClassifier) else FOLDS
    return {
        "check_sample_weight_equivalence_on_dense_data": reason,
        "check_sample_weight_equivalence_on_sparse_data": reason,
    }


@pytest.mark.usefixtures("few_steps", "quick_stacks")
@pytest.mark.parametrize(
    "estimator",
    [
        pytest.param(NetworkRegressor(hidden=(16,), **QUICK), marks=pytest.mark.heavy),
        pytest.param(NetworkClassifier(hidden=(16,), **QUICK), marks=pytest.mark.heavy),
        LikelihoodRegressor("linear", cv=2, random_state=0),
        LikelihoodClassifier("linear", cv=2, random_state=0),
        pytest.param(LikelihoodRegressor(cv=2, random_state=0), marks=pytest.mark.heavy),
        pytest.param(LikelihoodClassifier(cv=2, random_state=0), marks=pytest.mark.heavy),
    ],
    ids=str,
)
def test_scikit_learn(estimator: BaseEstimator) -> None:
    meets_all_checks(estimator, expected(estimator))


@pytest.mark.usefixtures("few_steps")
def test_missing_values_and_categories_go_through_a_pipeline() -> None:
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(300, 3))
    y = np.sin(2 * X[:, 0]) + rng.normal(size=300) * np.exp(X[:, 1]) / 4
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame.loc[::7, "a"] = np.nan
    frame["kind"] = np.where(X[:, 2] > 0, "warm", "cold")
    columns = make_column_transformer((OneHotEncoder(), ["kind"]), remainder=SimpleImputer())
    model = make_pipeline(columns, NetworkRegressor(**QUICK)).fit(frame, y)
    assert model.predict(frame).shape == (300,)
