"""Calibrators stay calm: logits without spread, labels that are noise, no error at all, -∞ and huge numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from likely.calibration import (
    AutoCalibrator,
    CalibratedClassifier,
    DeepTemperature,
    FeatureTemperature,
    GlobalTemperature,
    IsotonicCalibration,
    LinearTemperature,
    PlattScaling,
    StructuredMatrixScaling,
    VectorScaling,
    compose,
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
    "deep": lambda: DeepTemperature(max_iter=20),
    "composed": lambda: compose(VectorScaling(), LinearTemperature()),
    "auto": AutoCalibrator,
}
everyone = pytest.mark.parametrize("name", CALIBRATORS)


def nll(proba: np.ndarray, y: np.ndarray) -> float:
    return float(-np.log(proba[np.arange(len(y)), y]).mean())


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


@everyone
@together("n", [1, 3, 50])
@together("constant", [[0.1, 0.1, 0.1], [2.0, 0.0, -1.0]])
def test_logits_that_do_not_differ_leave_fresh_rows_no_worse(name: str, n: int, constant: list[float]) -> None:
    rng = np.random.default_rng(n)
    logits, y = np.tile(constant, (n, 1)), rng.integers(0, 3, n)
    fresh, labels = 3 * rng.normal(size=(500, 3)), rng.integers(0, 3, 500)
    proba = CALIBRATORS[name]().fit(logits, y).predict_proba(fresh)
    assert (proba > 0).all()
    assert nll(proba, labels) < nll(softmax(fresh), labels) + 0.05


def test_a_temperature_without_evidence_is_one() -> None:
    assert GlobalTemperature().fit(np.full((50, 4), 0.1), np.arange(50) % 4).temperature_ == 1


@everyone
@together("n", [10, 100, 1000])
def test_labels_that_are_noise_cost_no_more_than_their_shares(name: str, n: int) -> None:
    rng = np.random.default_rng(n)
    logits, y = 3 * rng.normal(size=(n, 3)), rng.integers(0, 3, n)
    fresh, labels = 3 * rng.normal(size=(2000, 3)), rng.integers(0, 3, 2000)
    assert nll(CALIBRATORS[name]().fit(logits, y).predict_proba(fresh), labels) < np.log(3) + (0.5 if n < 50 else 0.1)


@everyone
@together("n", [1, 5, 200])
def test_rows_without_an_error_do_not_rule_errors_out(name: str, n: int) -> None:
    y = np.arange(n) % 3
    proba = CALIBRATORS[name]().fit(5 * np.eye(3)[y], y).predict_proba(np.array([[5.0, 0.0, 0.0]]))
    assert 1e-5 / n < proba.min() < 0.6
    assert proba[0].argmax() == 0 or n < 5


@pytest.mark.parametrize("n", [10, 300])
def test_without_an_error_there_is_half_of_one_in_as_many_rows_and_one(n: int) -> None:
    y = np.arange(n) % 2
    fitted = GlobalTemperature().fit(7 * np.eye(2)[y], y)
    assert fitted.predict_proba(7 * np.eye(2))[0, 1] == pytest.approx(0.5 / (n + 1), rel=1e-6)


@everyone
@together("n", [20, 300])
def test_minus_infinity_rules_a_class_out_and_nothing_else(name: str, n: int) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, n)
    logits = 2 * (np.eye(3)[y] + rng.normal(size=(n, 3)))
    y[::2] = np.maximum(y[::2], 1)
    logits[::2, 0] = -np.inf
    y[0] = 0  # a class that was ruled out and came all the same: no temperature could have helped
    proba = CALIBRATORS[name]().fit(logits, y).predict_proba(logits)
    assert np.isfinite(proba).all()
    if name not in ("platt", "isotonic"):
        assert (proba[::2, 0] == 0).all()
    assert nll(proba[1:], y[1:]) < 1.1


@everyone
@together("factor", [2.0**996, 2.0**-996])  # exactly: rows that are rounded are dealt to other folds
def test_the_size_of_logits_does_not_matter(name: str, factor: float) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 200)
    logits = 2 * (np.eye(3)[y] + rng.normal(size=(200, 3)))
    if name in ("platt", "isotonic") and factor < 1:
        return  # they read log odds, which are zero there
    proba = CALIBRATORS[name]().fit(factor * logits, y).predict_proba(factor * logits)
    if name in ("platt", "isotonic"):
        assert np.isfinite(proba).all()
        return
    np.testing.assert_allclose(proba, CALIBRATORS[name]().fit(logits, y).predict_proba(logits), atol=2e-3)


@everyone
def test_a_row_that_says_nothing_is_refused_by_its_number(name: str) -> None:
    logits = np.random.default_rng(0).normal(size=(30, 3))
    y = np.arange(30) % 3
    fitted = CALIBRATORS[name]().fit(logits, y)
    before = fitted.predict_proba(logits)
    for bad in (np.nan, np.inf, -np.inf):
        broken = logits.copy()
        broken[17] = bad
        with pytest.raises(ValueError, match=r"logits.*row 17"):
            fitted.fit(broken, y)
        with pytest.raises(ValueError, match=r"logits.*row 17"):
            fitted.predict_proba(broken)
        np.testing.assert_array_equal(fitted.predict_proba(logits), before)


@pytest.mark.parametrize("n", [100, 1000])
@pytest.mark.parametrize("kind", [LogisticRegression, lambda: DecisionTreeClassifier(random_state=0)])
def test_a_classifier_of_random_labels_does_no_worse_than_their_shares(kind: Callable[[], object], n: int) -> None:
    rng = np.random.default_rng(n)
    X, y = rng.normal(size=(n, 5)), (rng.random(n) < 0.2).astype(int)
    Z, labels = rng.normal(size=(3000, 5)), (rng.random(3000) < 0.2).astype(int)
    shares = nll(np.tile([0.8, 0.2], (3000, 1)), labels)
    assert nll(CalibratedClassifier(kind()).fit(X, y).predict_proba(Z), labels) < shares + 0.1


def test_features_do_not_undo_a_perfect_fit() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    fitted = FeatureTemperature().fit(5 * np.eye(3)[y], y, rng.normal(size=(60, 4)))
    assert fitted.precision_ == np.inf
