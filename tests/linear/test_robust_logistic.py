"""Robust logistic regression: plain where labels are clean, and above the fray where they are not."""

import numpy as np
import pytest
import torch
from scipy.optimize import check_grad
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score

from experiments.benchmarks._robust_linear import mislabelled
from experiments.paper.robust_classification import labelled
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


def test_a_tenth_of_wrong_labels_does_not_turn_the_boundary() -> None:
    """On these rows the evidence rejected slopes of the temperature whose gain on held-out rows was significant."""
    X, y, bad = labelled("far cluster, 10%", 3000)
    model = RobustLogisticRegression().fit(X, y)
    assert model.score(X[~bad], y[~bad]) > 0.98


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
    problem = _Problem(rng.normal(size=(30, 3)), np.arange(30) % classes, rng.uniform(0, 2, 30), classes, 200, 1e-5)
    point = rng.normal(size=problem.size + 3)
    value, _ = problem.loss(point, problem.weight, 2.0)
    assert np.isfinite(value)
    terms = [lambda p, place=place: problem.loss(p, problem.weight, 2.0)[place] for place in (0, 1)]
    assert check_grad(*terms, point) < 1e-4


@pytest.mark.parametrize("noise", [0.5, 1.5])
def test_the_learned_strength_has_the_highest_evidence(noise: float) -> None:
    """Against Laplace's approximation by scikit-learn's fits, over a grid of strengths."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(120, 6))
    y = (X[:, 0] + X[:, 1] + noise * rng.logistic(size=120) > 0).astype(int)
    middle, spread = middle_and_spread(X, np.ones(120))
    x = (X - middle) / spread

    def evidence(C: float) -> float:
        fit = LogisticRegression(C=C, tol=1e-8, max_iter=1000).fit(x, y)
        p, columns = fit.predict_proba(x), np.column_stack([x, np.ones(120)])
        hessian = (columns.T * p.prod(1)) @ columns + np.diag([1 / C] * 6 + [0])
        prior = -0.5 * (fit.coef_**2).sum() / C - 3 * np.log(C)
        return np.log(p[np.arange(120), y]).sum() + prior - 0.5 * np.linalg.slogdet(hessian)[1]

    strengths = np.logspace(-3, 2, 51)
    best = strengths[np.argmax([evidence(C) for C in strengths])]
    model = RobustLogisticRegression().fit(X, y)
    assert abs(np.log(model.C_ / best)) < 0.25


@pytest.mark.parametrize("rows", [30, 100])
def test_noise_has_the_shares_of_the_classes(rows: int) -> None:
    """With a strength of one the NLL of five classes was 1.76 to 1.90, where log 5 = 1.61 is possible."""
    rng = np.random.default_rng(rows)
    X, y, new = rng.normal(size=(rows, 4)), np.arange(rows) % 5, rng.normal(size=(1000, 4))
    proba = RobustLogisticRegression().fit(X, y).predict_proba(new)
    assert -np.log(proba).mean(0).max() < np.log(5) + 0.03


def test_rare_classes_of_few_rows_cost_no_more_than_their_shares() -> None:
    rng = np.random.default_rng(8)
    X, y = rng.normal(size=(30, 10)), np.repeat([0, 1, 2], [26, 3, 1])
    model = RobustLogisticRegression().fit(X, y)
    logs = np.log(model.predict_proba(rng.normal(size=(1000, 10))))
    assert -(logs @ [0.9, 0.09, 0.01]).mean() < 0.4


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


@pytest.mark.parametrize("size", [1e6, 1e12])
def test_a_distant_row_with_a_wrong_label_does_not_hide_the_slopes(size: float) -> None:
    """Searched from its largest curvature down, the strength of the ridge was that of the distant row alone."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    y = (X[:, 0] + 0.5 * rng.logistic(size=200) > 0).astype(int)
    model = RobustLogisticRegression().fit(np.vstack([X, np.full(4, size)]), np.append(y, 0))
    assert model.score(X, y) > 0.7
    assert model.C_ > 0.1
