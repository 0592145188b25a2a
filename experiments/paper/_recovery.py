"""How well known weights are recovered, and by the best strength that could have been chosen."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import lasso_path

from experiments.data import LinearProblem

Array = NDArray[np.float64]


def recovery_error(problem: LinearProblem, coef: Array) -> float:
    """The distance of weights from the true ones, over the length of those."""
    return float(np.linalg.norm(coef - problem.coef) / np.linalg.norm(problem.coef))


def ridge_errors(problem: LinearProblem, strengths: Array) -> Array:
    """The error of ridge regression at each strength λ of |y - Xw|²/2 + λ|w|²/2."""
    x, y = problem.X - problem.X.mean(0), problem.y - problem.y.mean()
    left, values, right = linalg.svd(x, full_matrices=False)
    response = values * (left.T @ y)
    return np.array([recovery_error(problem, right.T @ (response / (values**2 + s))) for s in strengths])


def lasso_errors(problem: LinearProblem, strengths: Array) -> Array:
    """The error of the lasso at each strength λ of |y - Xw|²/2 + λ|w|₁, from the largest down."""
    x, y = np.asfortranarray(problem.X - problem.X.mean(0)), problem.y - problem.y.mean()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # at strengths too small to be the best
        _, path, _ = lasso_path(
            x, y, alphas=strengths / len(y), precompute=x.T @ x, Xy=x.T @ y, tol=1e-6, max_iter=1000, check_input=False
        )
    return np.array([recovery_error(problem, path[:, k]) for k in range(len(strengths))])


def oracle_ridge(problem: LinearProblem) -> float:
    """The lowest error of any strength."""
    size = float((problem.X**2).sum()) / problem.X.shape[1]
    return float(ridge_errors(problem, size * np.logspace(-8, 4, 241)).min())


def oracle_lasso(problem: LinearProblem) -> float:
    """The lowest error of any strength."""
    x = problem.X - problem.X.mean(0)
    top = float(np.abs(x.T @ (problem.y - problem.y.mean())).max())
    return float(lasso_errors(problem, top * np.logspace(0, -4, 65)).min())


def known_support(problem: LinearProblem) -> float:
    """The error of least squares on the columns that matter, which nobody knows."""
    active = np.flatnonzero(problem.coef)
    x, y = problem.X[:, active] - problem.X[:, active].mean(0), problem.y - problem.y.mean()
    coef = np.zeros(len(problem.coef))
    coef[active] = linalg.lstsq(x, y)[0]
    return recovery_error(problem, coef)
