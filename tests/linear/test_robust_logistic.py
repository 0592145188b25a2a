"""Robust logistic regression: plain where labels are clean, and above the fray where they are not."""

import numpy as np
import pytest
import torch
from scipy.optimize import check_grad
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score

from experiments.benchmarks._robust_linear import mislabelled
from likely._rows.columns import middle_and_spread
from likely.functional import softmax_nll
from likely.linear._robust_logistic import RobustLogisticRegression, _Problem


@pytest.fixture(scope="module")
def fitted():
    X, y, bad = mislabelled(3)
    return X, y, bad, RobustLogisticRegression().fit(X, y)


def test_a_far_cluster_does_not_turn_the_boundary(fitted) -> None:
    X, y, bad, model = fitted
    assert LogisticRegression().fit(X, y).score(X[~bad], y[~bad]) < 0.8
    assert model.score(X[~bad], y[~bad]) > 0.98
    assert np.median(model.temperature(X[~bad])) < 0.05 * np.median(model.temperature(X[bad]))
    assert model.weights_[bad].max() < 0.1
    assert roc_auc_score(bad, model.outlier_score(X, y)) > 0.99


def test_the_median_row_has_temperature_one(fitted) -> None:
    X, _, _, model = fitted
    heat = model.temperature(X)
    assert np.sort(heat)[len(heat) // 2 - 1] == pytest.approx(1, rel=1e-6)
    np.testing.assert_allclose(model.weights_, 1 / heat)
    line = X @ model.temperature_coef_ + model.temperature_intercept_
    np.testing.assert_allclose(np.log(heat), np.maximum(line, 0), atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_random_labels_leave_nobody_certain(seed: int) -> None:
    """A temperature that varies fits noise, and made rows far out certain of one class."""
    rng = np.random.default_rng(seed)
    X, y, new, truth = (
        rng.normal(size=(240, 4)),
        rng.integers(0, 3, 240),
        rng.normal(size=(500, 4)),
        rng.integers(0, 3, 500),
    )
    model = RobustLogisticRegression().fit(X, y)
    plain = LogisticRegression().fit(X, y).predict_proba(new)
    assert log_loss(truth, model.predict_proba(new)) < log_loss(truth, plain) + 0.01


def test_probabilities_are_the_softmax_at_the_temperature(fitted) -> None:
    X, y, _, model = fitted
    logit = X @ model.coef_[0] + model.intercept_[0]
    np.testing.assert_allclose(model.decision_function(X), logit / model.temperature(X))
    nll = softmax_nll(
        torch.from_numpy(np.column_stack([0 * logit, logit])),
        torch.from_numpy(y),
        temperature=torch.from_numpy(model.temperature(X)),
        reduction="none",
    )
    np.testing.assert_allclose(-np.log(model.predict_proba(X)[np.arange(len(y)), y]), nll, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("classes", [2, 3])
def test_clean_labels_leave_plain_logistic_regression(classes: int) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, classes, 400)
    X = 1.2 * np.eye(3)[y] + rng.normal(size=(400, 3))
    model = RobustLogisticRegression(C=0.7, tol=1e-7).fit(X, y)
    assert (model.temperature_coef_ == 0).all()
    middle, spread = middle_and_spread(X, np.ones(400))
    plain = LogisticRegression(C=0.7, tol=1e-8, max_iter=1000).fit((X - middle) / spread, y)
    np.testing.assert_allclose(model.predict_proba(X), plain.predict_proba((X - middle) / spread), atol=1e-4)


def test_three_classes_and_names() -> None:
    rng = np.random.default_rng(1)
    centres = np.array([[3.0, 0], [-1.5, 2.6], [-1.5, -2.6]])
    truth = rng.integers(0, 3, 500)
    X = centres[truth] + rng.normal(size=(500, 2))
    bad = np.arange(500) < 110
    X[bad] = rng.normal(size=(110, 2)) - 9
    y = np.array(["ant", "bee", "cow"])[np.where(bad, 0, truth)]
    model = RobustLogisticRegression().fit(X, y)
    assert model.score(X[~bad], y[~bad]) > 0.97
    assert LogisticRegression().fit(X, y).score(X[~bad], y[~bad]) < 0.85
    assert model.coef_.shape == (3, 2)
    assert model.decision_function(X).shape == (500, 3)
    assert roc_auc_score(bad, model.outlier_score(X, y)) > 0.95


@pytest.mark.parametrize("classes", [2, 4])
def test_the_slope_of_the_loss_is_right(classes: int) -> None:
    rng = np.random.default_rng(2)
    problem = _Problem(rng.normal(size=(30, 3)), np.arange(30) % classes, rng.uniform(0, 2, 30), classes, 0.5)
    point = rng.normal(size=problem.size + 3)
    value, _ = problem.loss(point, problem.weight)
    assert np.isfinite(value)
    assert (
        check_grad(lambda p: problem.loss(p, problem.weight)[0], lambda p: problem.loss(p, problem.weight)[1], point)
        < 1e-4
    )


def test_units_do_not_matter(fitted) -> None:
    X, y, _, model = fitted
    units = np.array([1e-3, 1e4])
    other = RobustLogisticRegression().fit(X * units + [7, -3], y)
    np.testing.assert_allclose(other.predict_proba(X * units + [7, -3]), model.predict_proba(X), atol=1e-4)
    np.testing.assert_allclose(other.temperature_coef_ * units, model.temperature_coef_, rtol=1e-3)


def test_rows_of_no_weight_are_not_there(fitted) -> None:
    X, y, bad, _ = fitted
    weighted = RobustLogisticRegression().fit(X, y, sample_weight=np.where(bad, 0.0, 1.0))
    without = RobustLogisticRegression().fit(X[~bad], y[~bad])
    np.testing.assert_allclose(weighted.coef_, without.coef_, rtol=1e-8)
    assert weighted.weights_.shape == y.shape


def test_errors_are_scikit_learns() -> None:
    X, y = np.random.default_rng(0).normal(size=(20, 2)), np.arange(20) % 2
    with pytest.raises(ValueError, match="at least 2 classes"):
        RobustLogisticRegression().fit(X, np.zeros(20))
    with pytest.raises(ValueError, match="at least 2 classes"):
        RobustLogisticRegression().fit(X, y, sample_weight=y)
    with pytest.raises(ValueError, match="C must be positive"):
        RobustLogisticRegression(C=0).fit(X, y)
    with pytest.raises(ValueError, match="one of the classes"):
        RobustLogisticRegression().fit(X, y).outlier_score(X, y + 1)
