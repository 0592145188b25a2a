"""Calibrators of few rows, many classes and noise cost no more than one temperature; odd labels and targets."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import LeaveOneOut
from sklearn.tree import DecisionTreeRegressor

from likely.calibration import (
    CalibratedClassifier,
    CalibratedRegressor,
    GlobalTemperature,
    IsotonicCalibration,
    LinearTemperature,
    PlattScaling,
    StructuredMatrixScaling,
    VectorScaling,
)
from likely.calibration._calibrator import Calibrator
from pairwise import together

CALIBRATORS: dict[str, Callable[[], Calibrator]] = {
    "global": GlobalTemperature,
    "linear": LinearTemperature,
    "vector": VectorScaling,
    "matrix": StructuredMatrixScaling,
    "platt": PlattScaling,
    "isotonic": IsotonicCalibration,
}


def nll(proba: np.ndarray, y: np.ndarray) -> float:
    return float(-np.log(proba[np.arange(len(y)), y]).mean())


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def drawn(kind: str, rows: int, classes: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    y = rng.integers(0, classes, rows)
    noise = rng.normal(size=(rows, classes))
    return (2 * noise if kind == "noise" else 3 * np.eye(classes)[y] + 1.5 * noise), y


@pytest.mark.parametrize("name", CALIBRATORS)
@together("kind", ["right", "noise"])
@together(("rows", "classes"), [(20, 2), (20, 10), (60, 20), (300, 10)])
def test_few_rows_cost_no_more_than_one_temperature_or_none(name: str, rows: int, classes: int, kind: str) -> None:
    losses = []
    for seed in range(3):
        rng = np.random.default_rng([seed, rows, classes])
        (logits, y), (fresh, labels) = drawn(kind, rows, classes, rng), drawn(kind, 2000, classes, rng)
        fits = CALIBRATORS[name](), GlobalTemperature()
        losses.append([nll(fit.fit(logits, y).predict_proba(fresh), labels) for fit in fits])
        losses[-1].append(nll(softmax(fresh), labels))
    calibrated, one_temperature, as_they_are = np.mean(losses, axis=0)
    assert calibrated < one_temperature + 0.05, f"{calibrated:.2f} nats, one temperature {one_temperature:.2f}"
    assert calibrated < as_they_are + (0.15 if rows < 60 else 0.05)


def test_many_rows_leave_platts_sigmoids_as_they_are() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 5000)
    logits = 3 * np.eye(3)[y] + 1.5 * rng.normal(size=(5000, 3)) + [3.0, 0.0, -1.0]
    assert PlattScaling().fit(logits, y).share_ > 0.9


@together("method", ["platt", "isotonic"])
def test_leaving_one_row_out_is_not_chance(method: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    y = (X[:, 0] + 0.3 * rng.normal(size=40) > 0).astype(int)
    fitted = CalibratedClassifier(LogisticRegression(), method, cv=LeaveOneOut()).fit(X, y)
    assert nll(fitted.predict_proba(X), y) < 0.4


def test_booleans_are_no_labels_of_more_than_two_classes() -> None:
    logits, y = drawn("right", 100, 4, np.random.default_rng(0))
    model = LogisticRegression().fit(logits, y)
    for fit in (GlobalTemperature().fit, CalibratedClassifier(model, "global", cv="prefit").fit):
        with pytest.raises(ValueError, match="y holds booleans, but there are 4 classes"):
            fit(logits, y > 0)
    two = GlobalTemperature().fit(logits[:, :2], y > 1).temperature_
    assert two == GlobalTemperature().fit(logits[:, :2], (y > 1).astype(int)).temperature_


@together("method", ["global", "linear", "isotonic"])
@together("constant", [0.0, 1 / 3, -7.3, 1e-9, 1e9 + 0.1])
@together("kind", [LinearRegression, DecisionTreeRegressor])
def test_intervals_of_a_constant_target_hold_it(method: str, constant: float, kind: Callable[[], object]) -> None:
    X = np.random.default_rng(0).normal(size=(40, 3))
    model = CalibratedRegressor(kind(), method).fit(X, np.full(40, constant))
    lower, upper = model.predict_interval(X, coverage=0.9)
    assert (lower <= constant).all()
    assert (constant <= upper).all()
    assert (lower < upper).all()
