"""A fit is a function of the set of rows: not of their order, layout or precision, nor of repeats against weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.utils.estimator_checks import (
    check_sample_weight_equivalence_on_dense_data,
    check_sample_weight_equivalence_on_sparse_data,
)
from tests.calibration.test_nothing_to_learn import CALIBRATORS

from likely._rows.contents import row_keys
from likely.calibration import (
    AutoScale,
    CalibratedClassifier,
    CalibratedRegressor,
    DeepScale,
    GlobalScale,
    IsotonicScale,
    LinearScale,
    compose,
)
from likely.calibration._choice import METHODS

SCALES = {
    "global": GlobalScale,
    "linear": LinearScale,
    "isotonic": IsotonicScale,
    "deep": lambda: DeepScale(max_iter=30),
    "composed": lambda: compose(LinearScale(), IsotonicScale()),
    "auto": lambda: AutoScale(candidates=["global", "isotonic", "linear"], cv=2),
}
# A network is trained in single precision, and rounding grows over its steps.
CLOSE = {"deep": 1e-3}


def classified(n: int = 120) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, n)
    return 3 * np.eye(3)[y] + 2 * rng.normal(size=(n, 3)) + [2, 0, 0], y


def measured(n: int = 120) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(n, 2))
    return {
        "mean": x[:, 0],
        "scale": np.exp(x[:, 1] / 4),
        "y": x[:, 0] + np.exp(x[:, 1]) * rng.normal(size=n),
        "features": x,
    }


@pytest.mark.parametrize("name", CALIBRATORS)
class TestClassifiers:
    def test_the_order_of_rows(self, name: str) -> None:
        logits, y = classified()
        order = np.random.default_rng(0).permutation(len(y))
        one, other = CALIBRATORS[name]().fit(logits, y), CALIBRATORS[name]().fit(logits[order], y[order])
        np.testing.assert_allclose(other.predict_proba(logits), one.predict_proba(logits), atol=CLOSE.get(name, 1e-6))

    def test_the_order_of_classes(self, name: str) -> None:
        logits, y = classified()
        order = np.array([2, 0, 1])
        one, other = CALIBRATORS[name]().fit(logits, y), CALIBRATORS[name]().fit(logits[:, order], order.argsort()[y])
        if name == "deep":
            return  # its first layer is drawn at random, one row per class
        np.testing.assert_allclose(
            other.predict_proba(logits[:, order]), one.predict_proba(logits)[:, order], atol=1e-6
        )

    def test_weights_are_repeats_and_nothing_is_no_row(self, name: str) -> None:
        logits, y = classified()
        count = np.random.default_rng(3).integers(0, 4, len(y))
        weighted = CALIBRATORS[name]().fit(logits, y, sample_weight=count)
        repeated = CALIBRATORS[name]().fit(np.repeat(logits, count, 0), np.repeat(y, count))
        expected = repeated.predict_proba(logits)
        np.testing.assert_allclose(weighted.predict_proba(logits), expected, atol=CLOSE.get(name, 1e-6))

    def test_the_scale_of_weights_that_are_no_counts(self, name: str) -> None:
        logits, y = classified()
        weight = np.random.default_rng(3).uniform(0.5, 1.5, len(y))
        one = CALIBRATORS[name]().fit(logits, y, sample_weight=weight)
        for factor in (1e3, 1e-3, 1e300, 1e-300):
            with pytest.warns(UserWarning, match="sample_weight"):
                other = CALIBRATORS[name]().fit(logits, y, sample_weight=factor * weight)
            atol = CLOSE.get(name, 1e-6)
            np.testing.assert_allclose(other.predict_proba(logits), one.predict_proba(logits), atol=atol)

    def test_layouts_and_kinds(self, name: str) -> None:
        logits, y = classified()
        logits = logits.astype(np.float32).astype(np.float64)  # so that both precisions hold the same numbers
        expected = CALIBRATORS[name]().fit(logits, y).predict_proba(logits)
        wide = np.zeros((2 * len(y), 6))
        wide[::2, ::2] = logits
        for kind in (np.asfortranarray(logits), wide[::2, ::2], logits.astype(np.float32), torch.as_tensor(logits)):
            fitted = CALIBRATORS[name]().fit(kind, y)
            np.testing.assert_allclose(
                np.asarray(fitted.predict_proba(kind)), expected, atol=1e-3 if name == "deep" else 2e-5
            )

    def test_a_row_alone(self, name: str) -> None:
        logits, y = classified()
        fitted = CALIBRATORS[name]().fit(logits, y)
        alone = np.vstack([fitted.predict_proba(logits[k : k + 1]) for k in range(10)])
        np.testing.assert_allclose(alone, fitted.predict_proba(logits)[:10], atol=1e-7)


@pytest.mark.parametrize("name", SCALES)
class TestScales:
    def test_the_order_of_rows(self, name: str) -> None:
        rows = measured()
        order = np.random.default_rng(0).permutation(120)
        new = {key: rows[key] for key in ("mean", "scale", "features")}
        one = SCALES[name]().fit(**rows).predict_interval(**new)[0]
        other = SCALES[name]().fit(**{key: value[order] for key, value in rows.items()}).predict_interval(**new)[0]
        np.testing.assert_allclose(other, one, atol=CLOSE.get(name, 1e-6))

    def test_weights_are_repeats(self, name: str) -> None:
        rows = measured()
        count = np.random.default_rng(3).integers(0, 4, 120)
        new = {key: rows[key] for key in ("mean", "scale", "features")}
        weighted = SCALES[name]().fit(**rows, sample_weight=count).predict_interval(**new)[0]
        repeated = SCALES[name]().fit(**{key: np.repeat(value, count, 0) for key, value in rows.items()})
        np.testing.assert_allclose(weighted, repeated.predict_interval(**new)[0], atol=CLOSE.get(name, 1e-6))

    def test_with_nothing_to_learn_the_scale_is_that_of_the_noise(self, name: str) -> None:
        rng = np.random.default_rng(5)
        x, y = rng.normal(size=(300, 3)), rng.normal(size=300)
        fitted = SCALES[name]().fit(np.zeros(300), None, y, features=x)
        scale = fitted.predict_scale(np.zeros(2000), None, features=rng.normal(size=(2000, 3)))
        assert (np.abs(np.log(scale)) < 0.25).all()

    def test_a_refused_fit_leaves_the_earlier_one(self, name: str) -> None:
        rows = measured()
        new = {key: rows[key] for key in ("mean", "scale", "features")}
        fitted = SCALES[name]().fit(**rows)
        before = fitted.predict_scale(**new)
        with pytest.raises(ValueError, match="y holds NaN"):
            fitted.fit(**{**rows, "y": np.full(120, np.nan)})
        np.testing.assert_array_equal(fitted.predict_scale(**new), before)


@pytest.mark.parametrize("method", [name for name in METHODS if name != "feature"])
def test_a_calibrated_classifier_counts_weights(method: str) -> None:
    model = CalibratedClassifier(LogisticRegression(tol=1e-10, max_iter=1000), method)
    check_sample_weight_equivalence_on_dense_data("CalibratedClassifier", model)
    check_sample_weight_equivalence_on_sparse_data("CalibratedClassifier", model)


@pytest.mark.parametrize("method", ["global", "linear", "isotonic", "deep"])
def test_a_calibrated_regressor_counts_weights(method: str) -> None:
    model = CalibratedRegressor(LinearRegression(), method)
    check_sample_weight_equivalence_on_dense_data("CalibratedRegressor", model)


def test_the_order_of_rows_does_not_matter_to_a_classifier() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 4))
    y = (X[:, 0] + rng.normal(size=150) > 0).astype(int)
    order = rng.permutation(150)
    solver = {"tol": 1e-10, "max_iter": 1000}
    one = CalibratedClassifier(LogisticRegression(**solver)).fit(X, y).predict_proba(X)
    other = CalibratedClassifier(LogisticRegression(**solver)).fit(X[order], y[order]).predict_proba(X)
    np.testing.assert_allclose(other, one, atol=1e-6)


def test_rows_of_any_kind_have_their_number() -> None:
    from scipy import sparse

    table = np.round(np.random.default_rng(0).normal(size=(50, 6)) * (np.arange(6) < 3), 2)
    assert len(set(row_keys(table).tolist())) == 50
    np.testing.assert_array_equal(row_keys(sparse.csr_array(table)), row_keys(table))
    np.testing.assert_array_equal(row_keys(table.astype(np.float32)), row_keys(table))
    words = row_keys(["a", "b", "a"])
    assert words[0] == words[2] != words[1]
