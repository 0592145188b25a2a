"""Tables on a CUDA device. Run there: pytest -m gpu"""

import numpy as np
import pytest

from likely.tabular import LikelihoodClassifier, LikelihoodRegressor

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("model", ["kernel", "network", "auto"])
def test_a_regressor_says_there_what_it_says_here(model: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 4))
    y = np.sin(2 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=1500)
    here, there = (LikelihoodRegressor(model, device=device, random_state=0).fit(X, y) for device in (None, "cuda"))
    fresh = rng.normal(size=(500, 4))
    mean, std = here.predict(fresh, return_std=True)
    far, far_std = there.predict(fresh, return_std=True)
    assert np.sqrt(np.mean(np.square(far - mean))) < 0.5 * std.mean()
    assert 0.8 < far_std.mean() / std.mean() < 1.25


def test_so_does_a_classifier() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    y = (np.sin(2 * X[:, 0]) + X[:, 1] > 0).astype(int)
    models = ["kernel", "network"]
    here, there = (LikelihoodClassifier(models, device=device, random_state=0).fit(X, y) for device in (None, "cuda"))
    assert np.abs(here.predict_proba(X) - there.predict_proba(X)).mean() < 0.05
