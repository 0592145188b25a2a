"""Sets made on the spot."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state


class Heteroscedastic(NamedTuple):
    """Inputs, targets, and the scale of the noise in each target."""

    X: NDArray[np.float64]
    y: NDArray[np.float64]
    scale: NDArray[np.float64]


def make_heteroscedastic(
    n_samples: int = 1000, n_features: int = 4, *, random_state: int | np.random.RandomState | None = None
) -> Heteroscedastic:
    r"""A curve whose noise depends on where you are: :math:`y = \sin(2 x_1) + x_2 / 2 + \sigma(x) \epsilon`.

    Inputs are standard normal and :math:`\sigma(x) = 0.4\, e^{0.7 x_1}`, so the noise varies tenfold over the rows and
    is log-linear in the first input; features from the third on say nothing.

    >>> from experiments.data import make_heteroscedastic
    >>> X, y, scale = make_heteroscedastic(500, random_state=0)
    >>> X.shape, bool(scale.max() > 10 * scale.min())
    ((500, 4), True)
    """
    if n_features < 2:
        raise ValueError(f"n_features must be 2 or more, got {n_features}")
    rng = check_random_state(random_state)
    X = rng.normal(size=(n_samples, n_features))
    scale = 0.4 * np.exp(0.7 * X[:, 0])
    y = np.sin(2 * X[:, 0]) + X[:, 1] / 2 + scale * rng.normal(size=n_samples)
    return Heteroscedastic(X, y, scale)
