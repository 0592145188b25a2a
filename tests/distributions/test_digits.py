"""Log probabilities, CDFs, quantiles and entropies against mpmath, over the range of parameters, in both precisions.

A CDF may be off by what a rounding of its argument makes of it, a quantile by what a rounding of its probability does.
"""

import math

import mpmath
import torch

import likely
from likely.distributions import (
    AsymmetricLaplace,
    Bernoulli,
    Gamma,
    Laplace,
    LogNormal,
    Robust,
    SkewStudentT,
    StudentT,
    ZeroInflatedPoisson,
)
from pairwise import together

in_both = together("dtype", [torch.float32, torch.float64])
EPS = {torch.float32: 2.0**-23, torch.float64: 2.0**-52}
mp = mpmath.mpf


def exactly(tensor):
    return mp(tensor.item())


def assert_close(found, exact, dtype, rounding=8, at_least=0.0):
    """A number is right to some roundings of itself, or of what cannot be told from zero beside it."""
    with mpmath.workdps(60):
        error = abs(mp(found.item()) - exact)
        assert error <= rounding * EPS[dtype] * max(abs(exact), mp(at_least)), (found.item(), float(exact))


@in_both
@together("logit", [0.0, 1e-6, 0.5, -3.0, 14.0, -30.0, 80.0, 300.0])
def test_the_entropy_of_a_bernoulli(logit, dtype):
    with mpmath.workdps(200):
        if logit > 90 and dtype == torch.float32:
            return  # its entropy is below the smallest float
        odds = mpmath.exp(-abs(exactly(torch.tensor(logit, dtype=dtype))))
        exact = mpmath.log1p(odds) - odds / (1 + odds) * mpmath.log(odds)
    assert_close(Bernoulli(logits=torch.tensor(logit, dtype=dtype)).entropy(), exact, dtype)


@in_both
@together("p", [1e-30, 1e-12, 1e-6, 0.3, 0.5, 0.7, 1 - 1e-6])
def test_quantiles_and_probabilities_of_a_laplace(p, dtype):
    level = torch.tensor(p, dtype=dtype)
    d = Laplace(torch.zeros((), dtype=dtype), torch.ones((), dtype=dtype))
    with mpmath.workdps(60):
        q = exactly(level)
        exact = mpmath.log(2 * q) if q < 0.5 else -mpmath.log(2 * (1 - q))
    z = d.icdf(level)
    assert_close(z, exact, dtype)
    assert_close(d.cdf(z), q, dtype, 4 + 2 * abs(float(exact)))


@in_both
@together("quantile", [1e-6, 0.3, 1 - 1e-6])
def test_an_asymmetric_laplace_of_any_level(quantile, dtype):
    d = AsymmetricLaplace(torch.tensor(quantile, dtype=dtype), 0.0, 1.0)
    with mpmath.workdps(60):
        q = exactly(d.quantile)
        for size in (-1e6, -3.0, 0.0, 1e-3, 2.0, 1e6):
            z = torch.tensor(size, dtype=dtype)
            side = exactly(z)
            exact = q * mpmath.exp((1 - q) * side) if side < 0 else 1 - (1 - q) * mpmath.exp(-q * side)
            if exact > mp(torch.finfo(dtype).tiny):
                assert_close(d.cdf(z), exact, dtype)
        for p in (1e-12, 1e-3, 0.5, 1 - 1e-6):
            level = torch.tensor(p, dtype=dtype)
            x = exactly(level)
            exact = mpmath.log(x / q) / (1 - q) if x < q else mpmath.log((1 - q) / (1 - x)) / q
            assert_close(d.icdf(level), exact, dtype)


@together("loc", [-10.0, 0.0, 15.0])
@together("scale", [1e-6, 1e-3, 1.0])
def test_a_narrow_log_normal_in_single_precision(loc, scale):
    d = LogNormal(torch.tensor(loc), torch.tensor(scale))
    for z in (-6.0, 0.0, 2.0):
        y = torch.tensor(math.exp(loc + scale * z))
        with mpmath.workdps(60):
            u = (mpmath.log(exactly(y)) - exactly(d.loc)) / exactly(d.scale)
            log_density = -u * u / 2 - mpmath.log(exactly(d.scale) * exactly(y)) - mpmath.log(2 * mpmath.pi) / 2
            below = mpmath.ncdf(u)
        assert_close(d.log_prob(y), log_density, torch.float32, at_least=1.0)
        assert_close(d.cdf(y), below, torch.float32)


@together("shape", [1e5, 1e6, 1e8])
def test_a_gamma_of_large_shape_in_single_precision(shape):
    a = torch.tensor(shape)
    d = Gamma(a, torch.ones_like(a))
    for z in (-12.0, -5.0, -2.0, 3.0):
        x = (a + z * a.sqrt()).round()
        with mpmath.workdps(40):
            s, y = exactly(a), exactly(x)
            log_density = (s - 1) * mpmath.log(y) - y - mpmath.loggamma(s)
            assert_close(d.log_prob(x), log_density, torch.float32, at_least=1.0)


def test_quantiles_of_inflated_counts_near_one_in_single_precision():
    p = torch.tensor([1 - 2**-20, 1 - 2**-23, 1.0])
    single = ZeroInflatedPoisson(torch.tensor(1000.0), torch.tensor(0.25))
    double = ZeroInflatedPoisson(torch.tensor(1000.0, dtype=torch.float64), 0.25)
    assert single.icdf(p).tolist() == double.icdf(p.double()).tolist()


@in_both
@together("largest", [1e8, 1e30, 3e38])
def test_classes_beside_large_logits(largest, dtype):
    x = torch.tensor([[largest, largest, 0.0]], dtype=dtype)
    d = likely.SoftmaxLoss(temperature=0.5).distribution(x)
    assert_close(d.log_prob(torch.tensor([1])), -mpmath.log(2), dtype)
    assert_close(d.entropy(), mpmath.log(2), dtype)


@together("df", [0.3, 1.0, 3.5, 1e6])
@together("z", [1e-12, 1e-8, 1e-3, 0.3, 0.99, 1.01])
def test_a_student_t_just_below_its_centre(df, z):
    d = StudentT(torch.tensor(df, dtype=torch.float64))
    z = torch.tensor(z, dtype=torch.float64)
    with mpmath.workdps(40):
        ratio = exactly(z) ** 2 / (exactly(d.df) + exactly(z) ** 2)
        exact = (1 - mpmath.betainc(mp(0.5), exactly(d.df) / 2, 0, ratio, regularized=True)) / 2
    assert_close(d.cdf(-z), exact, torch.float64)


@in_both
@together("skew", [0.3, 2.0, 5.0, 10.0])
def test_a_skew_student_t_rises_through_its_mode(skew, dtype):
    d = SkewStudentT(torch.tensor(3.0, dtype=dtype), skew, 0.0, 1.0)
    below = torch.sigmoid(torch.tensor(-2 * skew, dtype=dtype))
    steps = d.cdf(torch.tensor([-1e-6, 0.0, 1e-6, 1e-3, 1.0, 1e3], dtype=dtype))
    assert (steps.diff() >= 0).all()
    torch.testing.assert_close(steps[1], below, rtol=0, atol=EPS[dtype])


def tail_of_a_robust_distribution(alpha, z):
    """Beyond z: that of a Cauchy, of the density exp(1 - √(1 + x²)) / 2eK₁(1), or of a normal."""
    if alpha == 0:
        return mpmath.atan(mpmath.sqrt(2) / z) / mpmath.pi
    if alpha == 2:
        return mpmath.erfc(z / mpmath.sqrt(2)) / 2
    part = mpmath.quad(lambda x: mpmath.exp(1 - mpmath.sqrt(1 + x * x)), [z + step for step in (0, 1, 3, 10, 30, 100)])
    return part / (2 * mpmath.e * mpmath.besselk(1, 1))


@in_both
@together("alpha", [0.0, 1.0, 2.0])
@together("z", [0.01, 0.7, 3.0, 8.0, 12.0])
def test_the_tail_of_a_robust_distribution(alpha, z, dtype):
    z = torch.tensor(z, dtype=dtype)
    d = Robust(torch.tensor(alpha, dtype=dtype), 0.0, 1.0)
    with mpmath.workdps(25):
        exact = tail_of_a_robust_distribution(alpha, exactly(z))
    found = d.cdf(-z)
    assert_close(found, exact, dtype, rounding=4 if dtype == torch.float32 else 1e5)
    if z > 1:
        torch.testing.assert_close(d.icdf(found), -z, rtol=1e-5, atol=0)


def test_a_robust_distribution_ends_at_infinity():
    d = Robust(torch.tensor([0.0, 1e-6, 1.0, 2.0, 8.0]), 0.0, 1.0)
    for end in (3e38, math.inf):
        assert (d.cdf(torch.tensor(-end)) < 1e-18).all()
        assert (d.cdf(torch.tensor(end)) == 1).all()
    assert (d.icdf(torch.tensor(0.0)) == -math.inf).all()
    assert (d.icdf(torch.tensor(0.5)) == 0).all()
