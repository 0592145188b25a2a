"""Linear problems whose weights are known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class LinearProblem:
    """Rows, targets, and the weights that made them.

    >>> from experiments.data import make_linear
    >>> make_linear(100, 50, share=0.1).coef.nonzero()[0].size
    5
    """

    X: NDArray[np.float64]
    y: NDArray[np.float64]
    coef: NDArray[np.float64]


def make_linear(
    n: int = 500,
    d: int = 500,
    *,
    share: float = 1.0,
    noise: float = 1.0,
    weights: str = "positive",
    correlation: float = 0.0,
    seed: int = 0,
) -> LinearProblem:
    """Normal columns through a linear map with normal noise, as in the paper's study of adaptive priors.

    A ``share`` of the weights is not zero: ``"positive"`` draws them from Uniform[1, 2] as the paper does, ``"signed"``
    gives these either sign, ``"normal"`` draws them from N(0, 1). ``correlation`` is that of neighbouring columns.

    >>> from experiments.data import make_linear
    >>> problem = make_linear(100, 20, noise=0.1)
    >>> problem.X.shape, problem.y.shape, bool(problem.coef.min() >= 1)
    ((100, 20), (100,), True)
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    for j in range(1, d if correlation else 0):
        X[:, j] = correlation * X[:, j - 1] + np.sqrt(1 - correlation**2) * X[:, j]
    k = max(1, round(share * d))
    if weights == "normal":
        values = rng.normal(size=k)
    elif weights in ("positive", "signed"):
        values = rng.uniform(1, 2, k)
        if weights == "signed":
            values *= rng.choice([-1, 1], k)
    else:
        raise ValueError(f"weights must be 'positive', 'signed' or 'normal', got {weights!r}")
    coef = np.zeros(d)
    coef[rng.choice(d, k, replace=False)] = values
    return LinearProblem(X, X @ coef + noise * rng.normal(size=n), coef)
