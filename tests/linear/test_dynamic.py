"""The self-tuning linear models: native to scikit-learn, free of units, right where the answer is known."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.linear_model import LassoCV, LassoLarsCV, LinearRegression

from likely import linear
from likely.linear import (
    DynamicLasso,
    DynamicLogisticRegression,
    DynamicRegression,
    DynamicRidge,
    MultiLasso,
    MultiRidge,
    SpikeSlabRegression,
)
from linear_models import SELF_TUNING as REGRESSORS
from pairwise import together
from scikit_learn_checks import meets_all_checks

CLASSIFIERS = [DynamicLogisticRegression(), DynamicLogisticRegression(prior="laplace")]


@pytest.mark.parametrize("name", sorted({type(model).__name__ for model in [*REGRESSORS, *CLASSIFIERS]}))
def test_scikit_learn(name):
    meets_all_checks(getattr(linear, name)())


def rows(n=120, d=20, nonzero=5, noise=0.5, seed=0):
    rng = np.random.default_rng(seed)
    X, w = rng.normal(size=(n, d)), np.zeros(d)
    w[:nonzero] = rng.uniform(1, 2, nonzero) * rng.choice([-1, 1], nonzero)
    return X, X @ w + 3 + noise * rng.normal(size=n), w


def tight(estimator):
    return clone(estimator).set_params(tol=1e-8) if "tol" in estimator.get_params() else clone(estimator)


@pytest.mark.parametrize("model", REGRESSORS, ids=str)
class TestEveryRegressor:
    def test_units(self, model):
        X, y, _ = rows()
        units = 10.0 ** np.random.default_rng(1).uniform(-6, 6, X.shape[1])
        one = tight(model).fit(X, y)
        other = tight(model).fit(X * units + 5 * units, 1e4 * y - 7)
        np.testing.assert_allclose(
            other.coef_ * units, 1e4 * one.coef_, rtol=1e-4, atol=1e-4 * 1e4 * abs(one.coef_).max()
        )
        assert other.sigma_ == pytest.approx(1e4 * one.sigma_, rel=1e-4)
        np.testing.assert_allclose(other.predict(X * units + 5 * units), 1e4 * one.predict(X) - 7, rtol=1e-5)

    def test_weights_count_rows(self, model):
        X, y, _ = rows(60, 10)
        weight = np.random.default_rng(0).integers(0, 4, len(y))
        weighted = tight(model).fit(X, y, sample_weight=weight)
        repeated = tight(model).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
        np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-4, atol=1e-5)
        assert weighted.sigma_ == pytest.approx(repeated.sigma_, rel=1e-4)

    def test_recovers_the_weights_and_the_noise(self, model):
        X, y, w = rows(400)
        fitted = clone(model).fit(X, y)
        assert np.abs(fitted.coef_ - w).max() < 0.12
        assert fitted.intercept_ == pytest.approx(3, abs=0.15)
        assert fitted.sigma_ == pytest.approx(0.5, rel=0.12)

    def test_constant_and_repeated_columns(self, model):
        X, y, _ = rows()
        X = np.column_stack([X, np.full(len(y), 7.0), X[:, 0]])
        fitted = clone(model).fit(X, y)
        assert fitted.coef_[20] == 0
        assert np.isfinite(fitted.coef_).all()
        mean, std = fitted.predict(X, return_std=True)
        assert np.corrcoef(mean, y)[0, 1] > 0.95
        assert np.isfinite(std).all()

    def test_predictive_intervals_cover(self, model):
        X, y, w = rows(200, 50, 10, noise=1.0)
        fresh = np.random.default_rng(5).normal(size=(2000, 50))
        target = fresh @ w + 3 + np.random.default_rng(6).normal(size=2000)
        mean, std = clone(model).fit(X, y).predict(fresh, return_std=True)
        assert 0.92 < (np.abs(target - mean) < 1.96 * std).mean() < 0.985

    def test_a_constant_target(self, model):
        X, _, _ = rows()
        fitted = clone(model).fit(X, np.full(len(X), 2.5))
        np.testing.assert_allclose(fitted.coef_, 0, atol=1e-12)
        np.testing.assert_allclose(fitted.predict(X), 2.5)

    def test_no_signal(self, model):
        rng = np.random.default_rng(3)
        X, y = rng.normal(size=(200, 30)), rng.normal(size=200)
        fitted = clone(model).fit(X, y)
        assert np.linalg.norm(fitted.coef_) < 0.7 * np.linalg.norm(LinearRegression().fit(X, y).coef_)

    def test_no_intercept(self, model):
        X, y, w = rows(400)
        fitted = clone(model).set_params(fit_intercept=False).fit(X, y - 3)
        assert fitted.intercept_ == 0
        assert np.abs(fitted.coef_ - w).max() < 0.12

    def test_columns_without_a_penalty(self, model):
        X, y, _ = rows(60, 40, noise=3.0)
        fitted = clone(model).set_params(penalty_weights=np.r_[0.0, np.ones(39)]).fit(X, y)
        # Least squares of what the others leave, on what the others do not explain of the first column.
        left = y - X[:, 1:] @ fitted.coef_[1:]
        centred = X[:, 0] - X[:, 0].mean()
        assert fitted.coef_[0] == pytest.approx(centred @ left / (centred @ centred), rel=1e-6)

    def test_penalty_weights_are_checked(self, model):
        X, y, _ = rows()
        with pytest.raises(ValueError, match="penalty_weights must hold a finite weight"):
            clone(model).set_params(penalty_weights=[1.0, 2.0]).fit(X, y)

    def test_weights_of_nothing(self, model):
        X, y, _ = rows()
        with pytest.raises(ValueError, match="at least one non-zero"):
            clone(model).fit(X, y, sample_weight=np.zeros(len(y)))

    def test_any_size(self, model):
        X, y, _ = rows(60, 5)
        one = tight(model).fit(X, y)
        units = np.array([1e70, 1e-70, 1, 1e60, 1e-5])
        other = tight(model).fit(X * units, 1e70 * y)
        shown = np.abs(one.coef_) > 1e-3 * np.abs(one.coef_).max()
        np.testing.assert_allclose((other.coef_ / 1e70 * units)[shown], one.coef_[shown], rtol=1e-3)
        with pytest.raises(ValueError, match="give y in other units"):
            clone(model).fit(X, 1e300 * y)

    def test_more_columns_than_rows(self, model):
        X, y, _ = rows(60, 200, 5, noise=0.1)
        fitted = pickle.loads(pickle.dumps(clone(model).fit(X, y)))
        assert np.isfinite(fitted.predict(X, return_std=True)).all()


def test_ridge_evidence_is_the_density_of_the_target():
    X, y, _ = rows(40, 5)
    ridge = DynamicRidge(fit_intercept=False).fit(X, y)
    scaled = X / np.sqrt((X**2).mean(0))
    covariance = ridge.sigma_**2 * np.eye(40) + ridge.prior_scale_**2 * scaled @ scaled.T
    assert ridge.evidence_ == pytest.approx(multivariate_normal(np.zeros(40), covariance).logpdf(y), rel=1e-9)


@pytest.mark.parametrize("shape", [(40, 5), (20, 50), (30, 1), (30, 2), (30, 3)])
def test_ridge_has_the_most_evidence_and_solves_its_own_equations(shape):
    X, y, _ = rows(*shape, nonzero=1)
    ridge = DynamicRidge(fit_intercept=False).fit(X, y)
    units = np.sqrt((X**2).mean(0))
    scaled = X / units
    direct = np.linalg.solve(scaled.T @ scaled + ridge.penalty_ * np.eye(shape[1]), scaled.T @ y) / units
    np.testing.assert_allclose(ridge.coef_, direct, rtol=1e-6, atol=1e-8)

    def evidence(penalty):
        kernel = scaled @ scaled.T / penalty + np.eye(len(y))
        noise = y @ np.linalg.solve(kernel, y) / len(y)
        return multivariate_normal(np.zeros(len(y)), noise * kernel).logpdf(y)

    assert evidence(ridge.penalty_) == pytest.approx(ridge.evidence_, rel=1e-7)
    assert all(evidence(ridge.penalty_ * factor) <= ridge.evidence_ + 1e-6 for factor in (0.2, 0.9, 1.1, 5))


def test_a_learned_mean_finds_weights_of_one_size():
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(100, 100)), rng.uniform(1, 2, 100)
    y = X @ w + rng.normal(size=100)
    zero, learned = DynamicRidge().fit(X, y), DynamicRidge(prior_mean="learned").fit(X, y)
    assert learned.prior_mean_ == pytest.approx(1.5, abs=0.15)
    assert np.linalg.norm(learned.coef_ - w) < 0.6 * np.linalg.norm(zero.coef_ - w)


def test_lasso_satisfies_its_own_conditions():
    X, y, _ = rows(100, 50)
    lasso = DynamicLasso(tol=1e-6).fit(X, y)
    scaled = (X - X.mean(0)) / X.std(0)
    pull = scaled.T @ (y - lasso.predict(X))
    active = lasso.coef_ != 0
    np.testing.assert_allclose(pull[active], lasso.penalty_ * np.sign(lasso.coef_[active]), rtol=1e-3)
    assert np.abs(pull[~active]).max() <= lasso.penalty_ * 1.001


def test_lasso_is_as_good_as_cross_validation():
    ratios = []
    for seed in range(5):
        X, y, w = rows(150, 150, 20, noise=1.0, seed=seed)
        ours, theirs = DynamicLasso().fit(X, y), LassoCV().fit(X, y)
        ratios.append(np.linalg.norm(ours.coef_ - w) / np.linalg.norm(theirs.coef_ - w))
    assert np.median(ratios) < 1.1


@pytest.mark.parametrize("model", [DynamicLasso(tol=1e-6), MultiLasso(tol=1e-6)], ids=str)
def test_sparse_tables(model):
    X, y, _ = rows(100, 50)
    X[np.abs(X) < 1] = 0
    weight = np.random.default_rng(0).integers(1, 3, len(y))
    dense, thin = clone(model).fit(X, y, weight), clone(model).fit(sparse.csr_array(X), y, weight)
    np.testing.assert_allclose(thin.coef_, dense.coef_, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(
        thin.predict(sparse.csc_array(X), return_std=True), dense.predict(X, return_std=True), rtol=1e-3, atol=1e-3
    )


def test_a_wide_sparse_table():
    rng = np.random.default_rng(0)
    X = sparse.random_array((300, 50_000), density=0.03, rng=rng, format="csr")
    w = np.zeros(50_000)
    w[:5] = 20
    lasso = DynamicLasso().fit(X, X @ w + 0.1 * rng.normal(size=300))
    assert lasso.coef_[:5].min() > 5 * np.abs(lasso.coef_[5:]).max()


def test_multi_lasso_hardly_shrinks():
    X, y, w = rows(200, 100, 5)
    one, each = DynamicLasso().fit(X, y), MultiLasso().fit(X, y)
    assert np.linalg.norm(each.coef_ - w) < 0.6 * np.linalg.norm(one.coef_ - w)
    assert each.prior_scale_[:5].min() > 5 * each.prior_scale_[5:].max()


def test_spike_and_slab_below_the_phase_transition_of_the_lasso():
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(125, 250)), np.zeros(250)
    w[rng.choice(250, 60, replace=False)] = rng.uniform(1, 2, 60)
    model = SpikeSlabRegression().fit(X, X @ w + 0.1 * rng.normal(size=125))
    assert np.linalg.norm(model.coef_ - w) < 0.02 * np.linalg.norm(w)
    assert model.sigma_ == pytest.approx(0.1, rel=0.3)
    assert model.prior_positive_ > 0.95
    assert ((model.inclusion_ > 0.5) == (w != 0)).all()


def test_few_weights_in_much_noise_are_found_as_well_as_by_cross_validation():
    ratios = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = np.sqrt(0.3) * rng.normal(size=(200, 100)) + np.sqrt(0.7) * rng.normal(size=(200, 1))
        w = np.concatenate([rng.normal(size=5), np.zeros(95)])
        y = X @ w + 3 * rng.normal(size=200)
        ours, theirs = (np.linalg.norm(model.fit(X, y).coef_ - w) for model in (DynamicRegression(), LassoLarsCV()))
        ratios.append(ours / theirs)
    assert np.median(ratios) < 1, f"errors over LassoLarsCV's {np.round(ratios, 2)}"


def test_spike_and_slab_evidence_is_exact_when_it_is_dense():
    """With no spike and one hump at zero the model is Dynamic Ridge, whose evidence is known."""
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(300, 30)), rng.normal(size=30)
    y = X @ w + 2 * rng.normal(size=300)
    model, ridge = SpikeSlabRegression().fit(X, y), DynamicRidge().fit(X, y)
    assert model.evidence_ == pytest.approx(ridge.evidence_, abs=6)  # the slab has three parameters more to gain by
    np.testing.assert_allclose(model.coef_, ridge.coef_, atol=0.15)


def test_groups_share_a_scale():
    X, y, _ = rows(200, 20, 5)
    groups = np.repeat(["first", "second", "third", "fourth"], 5)
    model = MultiRidge(groups=groups).fit(X, y)
    assert (model.prior_scale_[:5] == model.prior_scale_[0]).all()
    assert (model.coef_[5:] == 0).all()
    with pytest.raises(ValueError, match="groups must have shape"):
        MultiRidge(groups=["a"]).fit(X, y)


def test_names_that_are_not_there():
    X, y, _ = rows()
    with pytest.raises(ValueError, match="prior_mean must be"):
        DynamicRidge(prior_mean="some").fit(X, y)
    with pytest.raises(ValueError, match="prior must be 'auto' or one of"):
        DynamicRegression(prior="horseshoe").fit(X, y)
    with pytest.raises(ValueError, match="concentration must be positive"):
        MultiLasso(concentration=0).fit(X, y)
    with pytest.raises(ValueError, match="prior must be 'normal' or 'laplace'"):
        DynamicLogisticRegression(prior="cauchy").fit(X, y > 0)


class TestLogistic:
    def test_normal_prior_is_the_laplace_approximation(self):
        rng = np.random.default_rng(0)
        X, w = rng.normal(size=(500, 10)), rng.normal(size=10)
        y = rng.random(500) < 1 / (1 + np.exp(-X @ w))
        model = DynamicLogisticRegression().fit(X, y)
        units = X.std(0)
        # The slope of the log posterior is zero.
        p = model.predict_proba(X)[:, 1]
        slope = (X / units).T @ (y - p) - model.coef_[0] * units / model.prior_scale_[0] ** 2
        assert np.abs(slope).max() < 0.05
        assert abs((y - p).sum()) < 0.05
        assert np.linalg.norm(model.coef_[0] - w) < 0.4 * np.linalg.norm(w)

    def test_laplace_prior_leaves_noise_at_zero(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(400, 100))
        y = rng.random(400) < 1 / (1 + np.exp(-3 * X[:, 0] + 3 * X[:, 1]))
        model = DynamicLogisticRegression(prior="laplace").fit(X, y)
        assert (model.coef_ == 0).mean() > 0.6
        assert np.abs(model.coef_[0, :2]).min() > 1

    @together("prior", ["normal", "laplace"])
    def test_no_intercept(self, prior):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(300, 5))
        y = X[:, 0] + 1 + 0.5 * rng.logistic(size=300) > 0
        model = DynamicLogisticRegression(prior, fit_intercept=False).fit(X, y)
        assert model.intercept_[0] == 0
        np.testing.assert_allclose(model.predict_proba(np.zeros((1, 5))), 0.5)

    @together("prior", ["normal", "laplace"])
    def test_weights_count_rows(self, prior):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(150, 5))
        y = X[:, 0] + rng.logistic(size=150) > 0
        weight = rng.integers(0, 4, 150)
        weighted = DynamicLogisticRegression(prior).fit(X, y, weight)
        repeated = DynamicLogisticRegression(prior).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
        np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-3, atol=1e-4)

    def test_three_classes(self):
        rng = np.random.default_rng(0)
        y = rng.integers(0, 3, 300)
        X = np.eye(3)[y] * 3 + rng.normal(size=(300, 3))
        model = DynamicLogisticRegression().fit(X, np.array(["a", "b", "c"])[y])
        assert model.score(X, np.array(["a", "b", "c"])[y]) > 0.85
        np.testing.assert_allclose(model.predict_proba(X).sum(1), 1)
        np.testing.assert_allclose(model.predict_proba(1e6 * X[:3]).sum(1), 1)

    def test_one_class(self):
        with pytest.raises(ValueError, match="one class only"):
            DynamicLogisticRegression().fit(np.eye(3), [1, 1, 1])


def test_equal_columns_share_one_weight_wherever_they_stand() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 6))
    y = X @ [3.0, 0.0, -2.0, 1.0, 0.0, 0.5] + 0.3 * rng.normal(size=200)
    plain = DynamicLasso().fit(X, y)
    twice = DynamicLasso().fit(np.column_stack([X, X[:, 2], -X[:, 3], X[:, 3]]), y)
    once = twice.coef_[:6].copy()
    once[2] += twice.coef_[6]
    once[3] += twice.coef_[8] - twice.coef_[7]
    assert twice.coef_[2] == pytest.approx(twice.coef_[6])
    assert twice.coef_[3] == pytest.approx(twice.coef_[8])
    assert twice.coef_[3] == pytest.approx(-twice.coef_[7])
    np.testing.assert_allclose(once, plain.coef_, atol=0.02)
