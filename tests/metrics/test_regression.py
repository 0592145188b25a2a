import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import distributions as td

from likely import metrics
from likely.distributions import Huber, Robust, StudentT
from metrics.examples import forecasts
from pairwise import together


def double(value):
    return torch.tensor(value, dtype=torch.float64)


def many(rows=4000):
    """Distributions of every family, with parameters that differ from row to row."""
    draw = torch.Generator().manual_seed(0)
    loc = torch.randn(rows, generator=draw, dtype=torch.float64)
    scale = 0.2 + torch.rand(rows, generator=draw, dtype=torch.float64)
    shape = 0.5 + 2 * torch.rand(rows, generator=draw, dtype=torch.float64)
    mixture = td.Categorical(torch.ones(rows, 2, dtype=torch.float64))
    parts = td.Normal(torch.stack([loc, loc + 1], 1), torch.stack([scale, shape], 1))
    return {
        "normal": td.Normal(loc, scale),
        "laplace": td.Laplace(loc, scale),
        "student": StudentT(1 + shape, loc, scale),
        "torch's student": td.StudentT(1 + shape, loc, scale),
        "huber": Huber(shape, loc, scale),
        "robust": Robust(shape, loc, scale),
        "gamma": td.Gamma(shape, scale),
        "log-normal": td.LogNormal(loc, scale),
        "mixture": td.MixtureSameFamily(mixture, parts),
        "poisson": td.Poisson(loc.exp()),
        "negative binomial": td.NegativeBinomial(shape, logits=loc),
    }


@together("name", many(2))
def test_the_truth_is_calibrated(name):
    d = many()[name]
    torch.manual_seed(1)
    y = d.sample()
    levels = metrics.pit_values(y, d)
    assert stats.kstest(levels, "uniform").pvalue > 1e-3
    assert metrics.quantile_calibration_error(y, d) < 3e-3
    assert metrics.miscalibration_area(y, d) < 0.02
    coverage = metrics.interval_coverage(y, d, coverage=0.8)
    if name in ("poisson", "negative binomial"):
        assert 0.8 <= coverage < 0.97
    else:
        assert coverage == pytest.approx(0.8, abs=0.025)


def test_peers_agree():
    y, mean, scale = forecasts()
    normal = {"mean": mean, "scale": scale}
    # uncertainty-toolbox 0.1.1 with num_bins=20001; its default of 100 gives 0.17537.
    assert metrics.miscalibration_area(y, **normal) == pytest.approx(0.17638341, abs=1e-5)
    assert metrics.sharpness(**normal) == pytest.approx(0.7139030954227004, abs=1e-14)
    # scoringrules 0.10.0: interval_score with alpha=0.1.
    interval = (mean - 1.5 * scale, mean + 1.5 * scale)
    assert metrics.interval_score(y, interval=interval, coverage=0.9) == pytest.approx(2.945313119155766, abs=1e-13)


def test_cal_is_the_sum_of_squares():
    y, mean, scale = forecasts()
    levels = stats.norm.cdf(y, mean, scale)
    expected = sum((p - np.mean(levels <= p)) ** 2 for p in (0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1))
    assert metrics.quantile_calibration_error(y, mean=mean, scale=scale) == pytest.approx(expected, abs=1e-15)
    # σ = 1 with tiny residuals, half of them on each side.
    tiny = np.array([-1e-6, 1e-6] * 10)
    assert metrics.quantile_calibration_error(tiny, mean=0 * tiny, scale=1.0) == pytest.approx(0.6)
    # All beyond every forecast: Σ p².
    assert metrics.quantile_calibration_error([99.0], mean=[0.0], scale=[1.0]) == pytest.approx(2.85)


def test_area_by_hand():
    # Levels ¼ and ¾: both are at the end of the central half: ∫|[p ≥ ½] - p|.
    y = stats.norm.ppf([0.25, 0.75])
    assert metrics.miscalibration_area(y, mean=[0, 0], scale=1.0) == pytest.approx(0.25)
    levels = np.random.default_rng(0).random(30)
    distance = stats.wasserstein_distance(np.abs(2 * levels - 1), (np.arange(100_000) + 0.5) / 100_000)
    area = metrics.miscalibration_area(stats.norm.ppf(levels), mean=np.zeros(30), scale=1.0)
    assert area == pytest.approx(distance, abs=1e-6)


def test_intervals_by_hand():
    y, interval = [0.0, 3.0, -2.0], ([-1, -1, -1], [1, 1, 2])
    assert metrics.interval_coverage(y, interval=interval) == pytest.approx(1 / 3)
    assert metrics.interval_width(interval=interval) == pytest.approx(7 / 3)
    score = metrics.interval_score(y, interval=interval, coverage=0.8, reduction="none")
    np.testing.assert_allclose(score, [2, 2 + 10 * 2, 3 + 10 * 1])


def test_intervals_are_the_central_quantiles():
    d = td.Gamma(double([2.0, 3.0]), double([1.0, 2.0]))  # torch knows its cdf only
    lower, upper = stats.gamma.ppf([[0.05], [0.95]], [2.0, 3.0], scale=[1.0, 0.5])
    np.testing.assert_allclose(metrics.interval_width(d, reduction="none"), upper - lower, rtol=1e-12)
    d = td.Poisson(double([0.0, 4.0]), validate_args=False)
    np.testing.assert_allclose(metrics.interval_width(d, reduction="none"), [0, 7])
    d = td.NegativeBinomial(double([2.5]), double([0.6]))
    assert metrics.interval_width(d) == np.diff(stats.nbinom.ppf([0.05, 0.95], 2.5, 0.4))


def test_levels_of_counts():
    poisson, binomial = td.Poisson(double([4.0])), td.NegativeBinomial(double([2.5]), double([0.6]))
    for k in range(8):
        level = metrics.pit_values([float(k)], poisson)[0]
        assert stats.poisson.cdf(k - 1, 4.0) <= level <= stats.poisson.cdf(k, 4.0)
        level = metrics.pit_values([float(k)], binomial)[0]
        assert stats.nbinom.cdf(k - 1, 2.5, 0.4) <= level <= stats.nbinom.cdf(k, 2.5, 0.4)


def test_likelihood_of_distributions():
    y, mean, scale = forecasts()
    expected = -stats.norm.logpdf(y, mean, scale)
    np.testing.assert_allclose(
        metrics.negative_log_likelihood(y, mean=mean, scale=scale, reduction="none"), expected, rtol=1e-12
    )
    assert metrics.negative_log_likelihood(y, td.Normal(double(mean), double(scale))) == pytest.approx(expected.mean())
    for name, d in many(50).items():
        sample = d.sample()
        assert metrics.negative_log_likelihood(sample, d) == pytest.approx(-d.log_prob(sample).mean().item()), name
    independent = td.Independent(td.Normal(torch.zeros(3, 2), torch.ones(3, 2)), 1)
    rows = metrics.negative_log_likelihood(torch.zeros(3, 2), independent, reduction="none")
    np.testing.assert_allclose(rows, [math.log(2 * math.pi)] * 3)
    categorical = td.Categorical(probs=double([[0.2, 0.8], [0.5, 0.5]]))
    assert metrics.negative_log_likelihood([1, 0], categorical) == pytest.approx(
        metrics.negative_log_likelihood([1, 0], [0.8, 0.5])
    )


def test_single_precision_and_gradients_come_along():
    y, mean, scale = forecasts()
    low = td.Normal(torch.tensor(mean).float().requires_grad_(), torch.tensor(scale).float().requires_grad_())
    for metric in (metrics.crps, metrics.quantile_calibration_error, metrics.interval_score):
        assert metric(torch.tensor(y).float(), low) == pytest.approx(metric(y, mean=mean, scale=scale), abs=1e-5)
    assert metrics.sharpness(low) == pytest.approx(metrics.sharpness(mean=mean, scale=scale), abs=1e-6)


def test_several_numbers_a_row():
    y, mean, scale = (x.reshape(25, 2) for x in forecasts())
    flat = {"mean": mean.ravel(), "scale": scale.ravel()}
    both = td.Independent(td.Normal(double(mean), double(scale)), 1)
    weight = np.arange(25.0)
    for metric in (
        metrics.crps,
        metrics.quantile_calibration_error,
        metrics.miscalibration_area,
        metrics.interval_score,
    ):
        expected = metric(y.ravel(), **flat, sample_weight=np.repeat(weight, 2))
        assert metric(y, both, sample_weight=weight) == pytest.approx(expected)
    assert metrics.pit_values(y, both).shape == (25, 2)


def test_one_row_and_one_distribution_for_all():
    assert metrics.crps([1.0], mean=[1.0], scale=1.0) == pytest.approx((math.sqrt(2) - 1) / math.sqrt(math.pi))
    common = td.Normal(0.0, 2.0)
    assert metrics.crps([1.0, -1.0], common) == pytest.approx(metrics.crps([1.0, -1.0], mean=[0, 0], scale=2.0))
    assert metrics.pit_values([0.0, 0.0], common).tolist() == [0.5, 0.5]
    assert metrics.sharpness(common) == 2
    assert metrics.interval_width(common, coverage=0.9) == pytest.approx(4 * 1.6448536269514722)
    assert metrics.interval_coverage([0.0, 9.0], common) == 0.5


def test_heavy_tails():
    cauchy = StudentT(double([1.0]), double([0.0]), double([1.0]))
    assert not math.isfinite(metrics.sharpness(cauchy))
    assert metrics.interval_width(cauchy, coverage=0.5) == pytest.approx(2)
