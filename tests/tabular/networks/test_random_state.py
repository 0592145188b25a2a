"""Same seed, same model: in threads, in processes, and whatever else draws random numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import joblib
import numpy as np
import pytest
import torch
from torch import nn

from likely.tabular import NetworkClassifier, NetworkRegressor
from likely.tabular.networks.estimator import NetworkEstimator

rng = np.random.default_rng(0)
X = rng.normal(size=(100, 3))
y = X[:, 0] + np.exp(X[:, 1] / 2) * rng.normal(size=100)


def with_dropout(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, outputs))


def fitted(kind: Callable[..., NetworkEstimator], model: object) -> np.ndarray:
    estimator = kind(model, max_steps=20, random_state=0)
    if isinstance(estimator, NetworkClassifier):
        return estimator.fit(X, y > 0).predict_proba(X)
    return estimator.fit(X, y).predict(X)


@pytest.mark.usefixtures("few_steps")
@pytest.mark.parametrize("model", [None, with_dropout], ids=["mlp", "own"])
@pytest.mark.parametrize("kind", [NetworkRegressor, NetworkClassifier])
def test_threads_give_what_one_fit_gives(kind: type[NetworkEstimator], model: object) -> None:
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    alone = fitted(kind, model)
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert (np.random.get_state()[1] == numpy_state).all()  # noqa: NPY002
    torch.manual_seed(99)
    for other in joblib.Parallel(2, backend="threading")(joblib.delayed(fitted)(kind, model) for _ in range(2)):
        np.testing.assert_array_equal(other, alone)


@pytest.mark.heavy
def test_a_process_gives_what_this_one_gives() -> None:
    one_stage = partial(NetworkRegressor, objective="joint")  # no fixture shortens the second stage in a process
    (other,) = joblib.Parallel(2)([joblib.delayed(fitted)(one_stage, None)])
    np.testing.assert_allclose(other, fitted(one_stage, None), rtol=1e-6)


@pytest.mark.usefixtures("few_steps")
@pytest.mark.parametrize("kind", [NetworkRegressor, NetworkClassifier])
def test_the_order_of_rows_does_not_matter(kind: type[NetworkEstimator]) -> None:
    order = np.random.default_rng(1).permutation(100)
    target = y if kind is NetworkRegressor else y > 0
    one, other = (kind(max_steps=20, random_state=0) for _ in range(2))  # type: ignore[call-arg]
    one.fit(X, target)
    other.fit(X[order], target[order])
    np.testing.assert_allclose(other.outlier_scores_, one.outlier_scores_[order], rtol=1e-12)
    np.testing.assert_allclose(other.out_of_fold_, one.out_of_fold_[order], rtol=1e-12)
    ask = "predict" if kind is NetworkRegressor else "predict_proba"
    np.testing.assert_allclose(getattr(other, ask)(X), getattr(one, ask)(X), rtol=1e-12)


@pytest.mark.usefixtures("few_steps")
@pytest.mark.parametrize("kind", [NetworkRegressor, NetworkClassifier])
def test_layouts_agree_a_row_alone_too_and_a_refused_fit_changes_nothing(kind: type[NetworkEstimator]) -> None:
    single = X.astype(np.float32).astype(np.float64)
    target = y if kind is NetworkRegressor else y > 0
    ask = "predict" if kind is NetworkRegressor else "predict_proba"
    fitted = kind(max_steps=20, random_state=0).fit(single, target)  # type: ignore[call-arg]
    expected = getattr(fitted, ask)(single)
    for table in (np.asfortranarray(single), np.repeat(single, 2, 0)[::2], single.astype(np.float32)):
        again = kind(max_steps=20, random_state=0).fit(table, target)  # type: ignore[call-arg]
        np.testing.assert_allclose(getattr(again, ask)(table), expected, atol=1e-4)
    alone = np.concatenate([getattr(fitted, ask)(single[k : k + 1]) for k in range(5)])
    np.testing.assert_allclose(alone, expected[:5], atol=1e-5)
    with pytest.raises(ValueError, match="NaN"):
        fitted.fit(np.full_like(single, np.nan), target)
    with pytest.raises(ValueError, match="NaN"):
        getattr(fitted, ask)(np.full_like(single, np.nan))
    np.testing.assert_array_equal(getattr(fitted, ask)(single), expected)
