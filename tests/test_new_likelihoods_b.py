"""Distributions, scores and limits of the zero-inflated, Beta, von Mises and ordinal likelihoods."""

import math

import mpmath
import numpy as np
import pytest
import torch

from likely import functional as F
from likely.distributions import (
    ZeroInflatedNegativeBinomial,
    ZeroInflatedPoisson,
)
from likely.metrics import crps, crps_from_samples


def double(value):
    return torch.tensor(value, dtype=torch.float64)


INFLATED = [
    ZeroInflatedPoisson(double(3.0), 0.3),
    ZeroInflatedPoisson(double(0.2), 0.9),
    ZeroInflatedNegativeBinomial(double(2.0), double(0.5), 0.3),
]


@pytest.mark.parametrize("d", INFLATED)
def test_inflated_counts_sum_to_their_cdf_and_moments(d):
    k = torch.arange(400, dtype=torch.float64)
    mass = d.log_prob(k).exp()
    torch.testing.assert_close(d.cdf(k + 0.5), mass.cumsum(0), rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(d.mean, (k * mass).sum(), rtol=1e-12, atol=0)
    torch.testing.assert_close(d.variance, ((k - d.mean) ** 2 * mass).sum(), rtol=1e-10, atol=0)
    assert d.cdf(double(-1.0)) == 0
    p = torch.cat([d.cdf(k[:8]), double([0.0, 1e-3, 0.5, 0.999])])
    quantile = d.icdf(p)
    assert (d.cdf(quantile) >= p).all()
    assert (d.cdf(quantile - 1) < p)[quantile > 0].all()
    assert d.icdf(double(1.0)) == math.inf


@pytest.mark.parametrize("d", INFLATED)
def test_inflated_samples_have_the_moments(d):
    x = d.expand((2,)).sample((20_000,))
    assert x.shape == (20_000, 2)
    assert (x.mean() - d.mean).abs() < 5 * (d.variance / 40_000).sqrt()
    assert ((x == 0).double().mean() - d.cdf(double(0.0))).abs() < 0.02


@pytest.mark.parametrize("d", INFLATED)
def test_inflated_score_is_its_sum(d):
    k = torch.arange(400, dtype=torch.float64)
    reached = d.cdf(k).numpy()
    for y in (0, 1, 7, 60):
        assert crps([y], d.expand((1,))) == pytest.approx(np.square(reached - (k.numpy() >= y)).sum(), abs=1e-10)
    samples = d.sample((40_000,)).numpy()
    assert crps_from_samples([2.0], samples[None]) == pytest.approx(crps([2.0], d.expand((1,))), abs=0.03)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_inflated_zero_cancels_nowhere(dtype):
    """Values and slopes against mpmath, from no inflation to nothing else, from no count to one beyond all range."""
    eps = torch.finfo(dtype).eps
    for share in (1e-30, 1e-6, 0.3, 0.9, 1 - 2.0**-20):
        for rate in (1e-20, 1e-4, 0.5, 3.0, 40.0, 1e3):
            inflation = torch.tensor(share, dtype=dtype, requires_grad=True)
            prediction = torch.tensor(math.log(rate), dtype=dtype, requires_grad=True)
            nll = F.zero_inflated_poisson_nll(prediction, torch.zeros((), dtype=dtype), inflation=inflation)
            slopes = torch.autograd.grad(nll, [prediction, inflation])
            with mpmath.workdps(60):
                pi, mu = mpmath.mpf(inflation.item()), mpmath.exp(mpmath.mpf(prediction.item()))
                zero = pi + (1 - pi) * mpmath.exp(-mu)
                expected = (-mpmath.log(zero), (1 - pi) * mu * mpmath.exp(-mu) / zero, mpmath.expm1(-mu) / zero)
            for got, exact in zip((nll, *slopes), expected, strict=True):
                error = 40 * max(1.0, rate) * eps  # of the rate's exponential, as of its logarithm
                assert got.item() == pytest.approx(float(exact), rel=error, abs=torch.finfo(dtype).tiny)


def test_no_inflation_is_the_plain_count_and_certain_inflation_is_finite():
    x, y = torch.linspace(-3, 4, 8), torch.arange(8.0)
    for share in (0.0, 1e-30):
        torch.testing.assert_close(
            F.zero_inflated_poisson_nll(x, y, inflation=share, reduction="none"),
            F.poisson_nll(x, y, reduction="none"),
        )
    for end in (0.0, 1.0):
        inflation = torch.tensor(end, requires_grad=True)
        nll = F.zero_inflated_poisson_nll(x, torch.zeros(8), inflation=inflation)
        (slope,) = torch.autograd.grad(nll, inflation)
        assert nll.isfinite()
        assert slope.isfinite()
    with pytest.raises(ValueError, match=r"inflation must lie in \[0, 1\]"):
        F.zero_inflated_poisson_nll(x, y, inflation=1.5)
    with pytest.raises(ValueError, match=r"inflation must lie in \[0, 1\]"):
        F.zero_inflated_negative_binomial_nll(x, y, dispersion=1.0, inflation=torch.tensor(-0.5))
