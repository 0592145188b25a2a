"""Linear models as distributions: what ``predict_dist`` returns agrees with predictions, deviations and densities."""

import numpy as np
import pytest
import torch
from sklearn.base import clone

from likely.distributions import StudentT
from likely.linear import DynamicRidge, MultiRidge, RobustLinearRegression
from linear_models import SELF_TUNING, problem, wider_by

LIKELIHOODS = ["normal", "laplace", "student_t", "robust"]


@pytest.mark.parametrize("model", SELF_TUNING, ids=str)
def test_self_tuning_models_predict_a_normal(model) -> None:
    X, y = problem()
    fitted = clone(model).fit(X, y)
    distribution = fitted.predict_dist(X)
    mean, std = fitted.predict(X, return_std=True)
    np.testing.assert_array_equal(distribution.mean, mean)
    np.testing.assert_allclose(distribution.stddev, std)
    covered = distribution.cdf(torch.from_numpy(y))
    assert 0.7 < ((covered > 0.05) & (covered < 0.95)).double().mean() <= 1


@pytest.mark.parametrize("model", SELF_TUNING, ids=str)
def test_a_constant_target_has_a_narrow_distribution(model) -> None:
    X, y = problem()
    distribution = clone(model).fit(X, np.full(len(y), 3.0)).predict_dist(X)
    np.testing.assert_allclose(distribution.icdf(torch.tensor(0.9)), 3.0, atol=1e-6)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_a_predicted_scale_is_that_of_the_distribution(likelihood: str) -> None:
    X, y = problem()
    model = RobustLinearRegression("predicted", likelihood).fit(X, y)
    distribution = model.predict_dist(X)
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(distribution.icdf(torch.tensor(0.5)), mean, atol=1e-6)
    np.testing.assert_allclose(distribution.stddev, std, rtol=1e-6)
    nll = model.density_.nll(y - mean, wider_by(len(y), X.shape[1] + 1) * model._scales(X))
    np.testing.assert_allclose(-distribution.log_prob(torch.from_numpy(y)), nll, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_the_mixture_is_that_of_both_scales(likelihood: str) -> None:
    X, y = problem()
    y[::6] += 20
    model = RobustLinearRegression(likelihood=likelihood, random_state=0).fit(X, y)
    distribution = model.predict_dist(X)
    assert distribution.batch_shape == y.shape
    residuals, scales = y - model.predict(X), wider_by(len(y), X.shape[1] + 1) * model._scales(X)
    inlier = np.log(model.inlier_share_) - model.density_.nll(residuals, scales)
    far = scales * model.outlier_scale_ / model.scale_
    outlier = np.log1p(-model.inlier_share_) - model.density_.nll(residuals, far)
    expected = np.logaddexp(inlier, outlier)
    np.testing.assert_allclose(distribution.log_prob(torch.from_numpy(y)), expected, rtol=1e-6, atol=1e-9)
    trusted = -model.outlier_score(X, y)
    assert expected.mean() > trusted.mean()  # rows that are outliers have a density


def test_data_scales_are_a_students_t() -> None:
    X, y = problem()
    y[::6] += 20
    model = RobustLinearRegression("data").fit(X, y)
    distribution = model.predict_dist(X)
    assert isinstance(distribution, StudentT)
    assert distribution.df[0] == model.df_
    np.testing.assert_allclose(distribution.scale, wider_by(len(y), X.shape[1] + 1) * model.scale_)
    plain = DynamicRidge().fit(X, y).predict_dist(X)
    target = torch.from_numpy(y)
    assert distribution.log_prob(target).mean() > plain.log_prob(target).mean()


def test_data_scales_of_another_likelihood_are_those_of_a_trusted_row() -> None:
    X, y = problem()
    model = RobustLinearRegression("data", "laplace").fit(X, y)
    residual, wide = y - model.predict(X), wider_by(len(y), X.shape[1] + 1) * model.scale_
    np.testing.assert_allclose(model.density_.nll(residual, model.scale_), model.outlier_score(X, y))
    nll = -model.predict_dist(X).log_prob(torch.from_numpy(y))
    np.testing.assert_allclose(nll, model.density_.nll(residual, wide))


def test_scales_that_read_the_target_have_no_distribution() -> None:
    X, y = problem()
    with pytest.raises(ValueError, match="use 'predicted'"):
        RobustLinearRegression("predicted_xy").fit(X, y).predict_dist(X)


def test_a_forecast_is_surest_at_the_mean_of_the_columns_wherever_that_is() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal([1000.0, -50.0, 3.0], size=(60, 3))
    y = X @ [1.0, -2.0, 0.5] + rng.normal(size=60)
    model = DynamicRidge().fit(X, y)
    centre, *away = X.mean(0) + np.array([[0.0, 0, 0], [4, 0, 0], [0, -4, 0], [40, 40, 40]])
    at_centre, *further = model.predict_dist(np.stack([centre, *away])).stddev.tolist()
    assert at_centre == pytest.approx(model.predict_dist(X).stddev.min().item(), rel=0.05)
    assert sorted([at_centre, *further]) == [at_centre, *further]
    assert further[0] < 1.5 * at_centre < further[-1]


SMALL = [(15, 15), (15, 45), (30, 25), (30, 90)]


@pytest.mark.parametrize("model", SELF_TUNING, ids=str)
def test_intervals_cover_new_rows_where_columns_are_as_many_as_rows(model) -> None:
    """90% intervals: at least .8 on average, never below .4, and no worse than the marginal, signal or noise."""
    covered, worse = [], []
    for seed, ((n, d), signal) in enumerate([(shape, signal) for shape in SMALL for signal in (0.0, 1.0)]):
        rng = np.random.default_rng(700 + seed)
        X = rng.normal(size=(n + 300, d))
        y = signal * X @ np.where(rng.random(d) < 0.3, rng.normal(size=d), 0.0) + rng.normal(size=n + 300)
        fresh, scale = torch.from_numpy(y[n:]), 1e9 if seed % 2 else 1e-9
        fitted = clone(model).fit(scale * X[:n], scale * y[:n]).predict_dist(scale * X[n:])
        inside = fitted.cdf(scale * fresh)
        covered.append(((inside > 0.05) & (inside < 0.95)).double().mean().item())
        marginal = torch.distributions.Normal(scale * y[:n].mean(), scale * y[:n].std())
        worse.append((marginal.log_prob(scale * fresh) - fitted.log_prob(scale * fresh)).mean().item())
    assert np.mean(covered) > 0.8, f"coverage on new rows {np.round(covered, 2)}"
    assert min(covered) > 0.4, f"coverage on new rows {np.round(covered, 2)}"
    assert np.mean(worse) < 0.05, f"NLL above that of the marginal {np.round(worse, 2)}"


def test_noise_keeps_no_columns_and_many_rows_change_nothing() -> None:
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(30, 100)), rng.normal(size=30)
    assert MultiRidge().fit(X, y).sigma_ > 0.3, "MultiRidge explains noise by many scales"
    X, y = rng.normal(size=(3000, 5)), rng.normal(size=3000)
    y += X @ [1.0, 2.0, 0.0, 0.0, 0.5]
    for model in SELF_TUNING:
        fitted = clone(model).fit(X, y)
        assert fitted.predict(X.mean(0)[None], return_std=True)[1][0] == pytest.approx(fitted.sigma_, rel=2e-3), model
