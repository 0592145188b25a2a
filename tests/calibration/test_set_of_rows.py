"""What a fit makes of classes in another order, of tensors and of weights; the rest is in tests/test_promises.py."""

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
    "auto": lambda: AutoScale(
        candidates={"global": GlobalScale(), "linear": LinearScale(), "isotonic": IsotonicScale()}, cv=2
    ),
}
# A network is trained in single precision, and rounding grows over its steps.
CLOSE = {"deep": 1e-3}


def classified(n: int = 120) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, n)
    return 3 * np.eye(3)[y] + 2 * rng.normal(size=(n, 3)) + [2, 0, 0], y


@pytest.mark.parametrize("name", CALIBRATORS)
class TestClassifiers:
    def test_the_order_of_classes(self, name: str) -> None:
        logits, y = classified()
        order = np.array([2, 0, 1])
        one, other = CALIBRATORS[name]().fit(logits, y), CALIBRATORS[name]().fit(logits[:, order], order.argsort()[y])
        if name == "deep":
            return  # its first layer is drawn at random, one row per class
        np.testing.assert_allclose(
            other.predict_proba(logits[:, order]), one.predict_proba(logits)[:, order], atol=1e-6
        )

    def test_the_scale_of_weights_that_are_no_counts(self, name: str) -> None:
        logits, y = classified()
        weight = np.random.default_rng(3).uniform(0.5, 1.5, len(y))
        one = CALIBRATORS[name]().fit(logits, y, sample_weight=weight)
        for factor in (1e3, 1e-3, 1e300, 1e-300):
            with pytest.warns(UserWarning, match="sample_weight"):
                other = CALIBRATORS[name]().fit(logits, y, sample_weight=factor * weight)
            atol = CLOSE.get(name, 1e-6)
            np.testing.assert_allclose(other.predict_proba(logits), one.predict_proba(logits), atol=atol)

    def test_tensors_are_fitted_as_arrays_are(self, name: str) -> None:
        logits, y = classified()
        expected = CALIBRATORS[name]().fit(logits, y).predict_proba(logits)
        tensor = torch.as_tensor(logits)
        found = CALIBRATORS[name]().fit(tensor, y).predict_proba(tensor)
        np.testing.assert_allclose(np.asarray(found), expected, atol=CLOSE.get(name, 1e-6))


@pytest.mark.parametrize("name", SCALES)
class TestScales:
    def test_with_nothing_to_learn_the_scale_is_that_of_the_noise(self, name: str) -> None:
        rng = np.random.default_rng(5)
        x, y = rng.normal(size=(300, 3)), rng.normal(size=300)
        fitted = SCALES[name]().fit(np.zeros(300), None, y, features=x)
        scale = fitted.predict_scale(np.zeros(2000), None, features=rng.normal(size=(2000, 3)))
        assert (np.abs(np.log(scale)) < 0.25).all()


@pytest.mark.parametrize("method", [name for name in METHODS if name != "feature"])
def test_a_calibrated_classifier_counts_weights(method: str) -> None:
    model = CalibratedClassifier(LogisticRegression(tol=1e-10, max_iter=1000), method)
    check_sample_weight_equivalence_on_dense_data("CalibratedClassifier", model)
    check_sample_weight_equivalence_on_sparse_data("CalibratedClassifier", model)


@pytest.mark.parametrize("method", ["global", "linear", "isotonic", "deep"])
def test_a_calibrated_regressor_counts_weights(method: str) -> None:
    model = CalibratedRegressor(LinearRegression(), method)
    check_sample_weight_equivalence_on_dense_data("CalibratedRegressor", model)


def test_rows_of_any_kind_have_their_number() -> None:
    from scipy import sparse

    table = np.round(np.random.default_rng(0).normal(size=(50, 6)) * (np.arange(6) < 3), 2)
    assert len(set(row_keys(table).tolist())) == 50
    np.testing.assert_array_equal(row_keys(sparse.csr_array(table)), row_keys(table))
    np.testing.assert_array_equal(row_keys(table.astype(np.float32)), row_keys(table))
    words = row_keys(["a", "b", "a"])
    assert words[0] == words[2] != words[1]
