"""Same seed, same model: in threads, in processes, and whatever else draws random numbers."""

from __future__ import annotations

import joblib
import numpy as np
import pytest
import torch
from torch import nn

from likely.neural import LikelihoodClassifier, LikelihoodRegressor
from likely.neural._base import LikelihoodModel

rng = np.random.default_rng(0)
X = rng.normal(size=(100, 3))
y = X[:, 0] + np.exp(X[:, 1] / 2) * rng.normal(size=100)


def with_dropout(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, outputs))


def fitted(kind: type[LikelihoodModel], model: object) -> np.ndarray:
    estimator = kind(model, max_steps=20, random_state=0)  # type: ignore[call-arg]
    if isinstance(estimator, LikelihoodClassifier):
        return estimator.fit(X, y > 0).predict_proba(X)
    return estimator.fit(X, y).predict(X)


@pytest.mark.parametrize("model", [None, with_dropout], ids=["mlp", "own"])
@pytest.mark.parametrize("kind", [LikelihoodRegressor, LikelihoodClassifier])
def test_threads_give_what_one_fit_gives(kind: type[LikelihoodModel], model: object) -> None:
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    alone = fitted(kind, model)
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert (np.random.get_state()[1] == numpy_state).all()  # noqa: NPY002
    torch.manual_seed(99)
    for other in joblib.Parallel(4, backend="threading")(joblib.delayed(fitted)(kind, model) for _ in range(4)):
        np.testing.assert_array_equal(other, alone)


def test_a_process_gives_what_this_one_gives() -> None:
    (other,) = joblib.Parallel(2)([joblib.delayed(fitted)(LikelihoodRegressor, None)])
    np.testing.assert_allclose(other, fitted(LikelihoodRegressor, None), rtol=1e-6)
