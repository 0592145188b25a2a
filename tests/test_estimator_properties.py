"""What holds of a quick estimator whatever the table: drawn by Hypothesis, the same ones each time.

Few rows, columns in any unit, constant, duplicated, of two values or heavy-tailed, targets that repeat themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from likely import calibration, linear, outliers

pytestmark = pytest.mark.filterwarnings("ignore")
REGRESSORS = [
    linear.DynamicRidge(),
    linear.DynamicLasso(),
    linear.DynamicRegression(),
    linear.MultiRidge(),
    linear.MultiLasso(),
    linear.SpikeSlabRegression(),
]
DETECTORS = [outliers.LikelihoodDetector(random_state=0), outliers.ScatterDetector()]
CALIBRATORS = [
    calibration.GlobalTemperature(),
    calibration.VectorScaling(),
    calibration.PlattScaling(),
    calibration.IsotonicCalibration(),
    calibration.StructuredMatrixScaling(),
]
COLUMNS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "heavy": lambda rng, n: rng.standard_t(1.5, size=n),
    "two values": lambda rng, n: (rng.random(n) < 0.3) * 1.0,
    "constant": lambda rng, n: np.full(n, 7.0),
    "rounded": lambda rng, n: np.round(rng.normal(size=n)),
    "mass at zero": lambda rng, n: np.maximum(rng.normal(size=n), 0.0),
}
column = st.tuples(st.sampled_from(sorted(COLUMNS)), st.integers(-9, 9))


@st.composite
def tables(draw: Any, least: int = 5) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    """Rows, a target, and the generator that drew them."""
    rng = np.random.default_rng(draw(st.integers(0, 2**16), label="seed"))
    n = draw(st.integers(least, 40), label="rows")
    kinds = draw(st.lists(column, min_size=1, max_size=6), label="columns")
    X = np.column_stack([COLUMNS[kind](rng, n) * 10.0**unit for kind, unit in kinds])
    if draw(st.booleans(), label="a column twice"):
        X = np.column_stack([X, X[:, 0]])
    kind, unit = draw(column, label="target")
    signal = X[:, 0] / np.abs(X[:, 0]).max() if draw(st.booleans(), label="signal") and X[:, 0].any() else 0.0
    return X, (COLUMNS[kind](rng, n) + signal) * 10.0**unit, rng


def asked_of(models: list[Any], rows: Any, examples: int) -> Callable[[Any], Any]:
    """Ask a question of every model, about as many examples of rows."""

    def decorated(test: Any) -> Any:
        drawn = given(rows)(settings(max_examples=examples)(test))
        return pytest.mark.parametrize("model", models, ids=lambda model: type(model).__name__)(drawn)

    return decorated


def near(a: np.ndarray, b: np.ndarray, tolerance: float, what: str) -> None:
    scale = np.ptp(b) + np.abs(b).max()
    assert np.abs(a - b).max() <= tolerance * scale + 1e-300, what


@asked_of(REGRESSORS, tables(), 12)
def test_a_line_follows_units_and_order(model: Any, table: Any) -> None:
    X, y, rng = table
    fitted = model.fit(X, y).predict(X)
    assert np.isfinite(fitted).all(), "a prediction is not finite"
    width = np.asarray(model.predict_dist(X).stddev) if hasattr(model, "predict_dist") else np.zeros(1)
    assert np.isfinite(width).all(), "a spread is not finite"
    assert (width >= 0).all(), "a spread is negative"
    order = rng.permutation(len(y))
    near(model.fit(X[order], y[order]).predict(X), fitted, 1e-3, "the order of rows changes predictions")
    near(model.fit(X, 1e6 * y).predict(X) / 1e6, fitted, 1e-3, "the unit of the target changes predictions")
    near(model.fit(1e6 * X, y).predict(1e6 * X), fitted, 1e-3, "the unit of the columns changes predictions")


@asked_of(DETECTORS, tables(), 8)
def test_scores_follow_units_and_order(model: Any, table: Any) -> None:
    X, _, rng = table
    scores = model.fit(X).outlier_score(X)
    assert (np.abs(scores) < 1e6).all(), "a score is beyond what a few rows can say"
    order = rng.permutation(len(X))
    near(model.fit(X[order]).outlier_score(X), scores, 1e-3, "the order of rows changes scores")
    if isinstance(model, outliers.ScatterDetector):  # the other draws rows by what they hold
        near(model.fit(1e6 * X).outlier_score(1e6 * X), scores, 1e-3, "the unit of the columns changes scores")


@st.composite
def logits(draw: Any) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    """Logits of a few classes, too sharp or too flat, and labels; some classes may be absent."""
    rng = np.random.default_rng(draw(st.integers(0, 2**16), label="seed"))
    n, classes = draw(st.integers(4, 60), label="rows"), draw(st.integers(2, 6), label="classes")
    z = rng.normal(size=(n, classes)) * 10.0 ** draw(st.integers(-3, 3), label="sharpness")
    noise = 10.0 ** draw(st.integers(-2, 2), label="noise") * rng.gumbel(size=z.shape)
    return z, np.argmax(z / np.abs(z).max() + noise, 1), rng


@asked_of(CALIBRATORS, logits(), 12)
def test_calibrated_probabilities_are_probabilities(model: Any, drawn: Any) -> None:
    z, y, rng = drawn
    proba = np.asarray(model.fit(z, y).predict_proba(z))
    assert (proba >= 0).all(), "a probability is not one"
    assert np.allclose(proba.sum(1), 1, atol=1e-6), "probabilities do not sum to one"
    assert (proba[np.arange(len(y)), y] > 0).all(), "a class that occurs has no probability"
    order = rng.permutation(len(y))
    assert np.abs(model.fit(z[order], y[order]).predict_proba(z) - proba).max() < 1e-3, "the order of rows matters"
