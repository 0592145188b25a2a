"""Every linear model, and small tables that ask awkward questions of it."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

from likely.linear import (
    DynamicLasso,
    DynamicLogisticRegression,
    DynamicRegression,
    DynamicRidge,
    MultiLasso,
    MultiRidge,
    RobustLinearRegression,
    RobustLogisticRegression,
    RobustPCA,
    SpikeSlabRegression,
)

SELF_TUNING = [
    DynamicRidge(),
    DynamicRidge(prior_mean="learned"),
    MultiRidge(),
    DynamicLasso(),
    MultiLasso(),
    SpikeSlabRegression(),
    DynamicRegression(),
]
ROBUST = [
    RobustLinearRegression(random_state=0),
    RobustLinearRegression("predicted"),
    RobustLinearRegression("predicted_xy"),
    RobustLinearRegression("data", "student_t"),
]
CLASSIFIERS = [DynamicLogisticRegression(), DynamicLogisticRegression("laplace"), RobustLogisticRegression()]
MODELS: list[Any] = [*SELF_TUNING, *ROBUST, *CLASSIFIERS, RobustPCA(2)]


def problem(n: int = 90, d: int = 8, seed: int = 0) -> tuple[Any, Any]:
    """Three of the columns matter; noise is half a deviation."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.linspace(1, 2, d)
    return X, X[:, :3] @ [2.0, -1.0, 1.0] + 3 + 0.5 * rng.normal(size=n)


def tables(seed: int) -> dict[str, tuple[Any, Any]]:
    """Tables by what is awkward about them."""
    rng = np.random.default_rng(seed)
    X, y = problem(seed=seed)
    correlated = 0.1 * X + rng.normal(size=(len(y), 1))
    again = np.column_stack([X, X[:, 0], 2 - 3 * X[:, 1], np.full(len(y), 7.0), X[:, 5], np.zeros(len(y))])
    wide, few = rng.normal(size=(15, 30)), rng.integers(0, 15, 45)
    binary = (X > 0).astype(float)
    outliers = y.copy()
    outliers[::6] += 20
    return {
        "plain": (X, y),
        "correlated columns": (correlated, correlated[:, :3].sum(1) + 0.5 * rng.normal(size=len(y))),
        "repeated and constant columns": (again, y),
        "repeated rows, more columns than rows": (wide[few], rng.integers(0, 3, 15)[few].astype(float)),
        "binary columns and their complements": (np.column_stack([binary, 1 - binary[:, 0]]), np.rint(y)),
        "noise": (X, rng.normal(size=len(y))),
        "outliers": (X, outliers),
    }


def target_of(model: Any, y: Any) -> Any:
    """The target, in two classes for a classifier."""
    return (y > np.median(y)).astype(int) if model in CLASSIFIERS else y


def answer(model: Any, X: Any) -> Any:
    """What a fitted model says of rows."""
    if hasattr(model, "predict_proba"):
        return model.predict_proba(X)
    return model.predict(X) if hasattr(model, "predict") else model.inverse_transform(model.transform(X))


def coefficients(model: Any) -> Any:
    """One row per line, one column per column of X."""
    return np.atleast_2d(model.coef_) if hasattr(model, "coef_") else model.components_


def largest_change(before: Any, after: Any) -> float:
    """Relative to the largest number."""
    return float(np.abs(np.asarray(after) - before).max() / max(np.abs(before).max(), 1e-3))


def wider_by(rows: int, coefficients: int) -> float:
    """By how much the interval of a new row is wider than the noise around a line that was estimated."""
    left = rows - coefficients
    return float(np.sqrt(rows / left) * stats.t(left).ppf(0.95) / stats.t(rows).ppf(0.95))
