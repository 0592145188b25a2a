"""Linear models as distributions: what ``predict_dist`` returns agrees with predictions, deviations and densities."""

import numpy as np
import pytest
import torch
from sklearn.base import clone

from likely.distributions import StudentT
from likely.linear import DynamicRidge, RobustLinearRegression
from linear_models import SELF_TUNING, problem

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
    nll = model.density_.nll(y - mean, model._scales(X))
    np.testing.assert_allclose(-distribution.log_prob(torch.from_numpy(y)), nll, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_the_mixture_is_that_of_both_scales(likelihood: str) -> None:
    X, y = problem()
    y[::6] += 20
    model = RobustLinearRegression(likelihood=likelihood, random_state=0).fit(X, y)
    distribution = model.predict_dist(X)
    assert distribution.batch_shape == y.shape
    residuals, scales = y - model.predict(X), model._scales(X)
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
    np.testing.assert_allclose(distribution.scale, model.scale_)
    plain = DynamicRidge().fit(X, y).predict_dist(X)
    target = torch.from_numpy(y)
    assert distribution.log_prob(target).mean() > plain.log_prob(target).mean()


def test_data_scales_of_another_likelihood_are_those_of_a_trusted_row() -> None:
    X, y = problem()
    model = RobustLinearRegression("data", "laplace").fit(X, y)
    np.testing.assert_allclose(-model.predict_dist(X).log_prob(torch.from_numpy(y)), model.outlier_score(X, y))


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
