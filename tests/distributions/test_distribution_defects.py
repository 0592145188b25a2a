"""Distributions keep the digits of their losses, and cdf and icdf have the slopes in every parameter."""

import math

import mpmath
import numpy as np
import pytest
import torch
from scipy import stats

import likely
from likely._numerics.special import log_minus_digamma
from likely.distributions import (
    Beta,
    Gamma,
    NegativeBinomial,
    Ordinal,
    Poisson,
    SkewStudentT,
    StudentT,
    VonMises,
    ZeroInflatedNegativeBinomial,
    ZeroInflatedPoisson,
)
from pairwise import together

PRECISIONS = [(torch.float32, 3e-6), (torch.float64, 1e-14)]
in_both = together(("dtype", "tolerance"), PRECISIONS)


def double(value):
    return torch.tensor(value, dtype=torch.float64)


def numbers(*tensors):
    return [mpmath.mpf(tensor.item()) for tensor in tensors]


@in_both
@together("df", [0.3, 4.0, 1e4, 1e6, 1e7, 1e12])
def test_students_t_keeps_its_digits(df, dtype, tolerance):
    x, y = torch.zeros((), dtype=dtype), torch.tensor(1.5, dtype=dtype)
    d = likely.StudentTLoss(df=df, scale=2.0).distribution(x)
    with mpmath.workdps(60):
        (v,) = numbers(d.df)
        norm = mpmath.loggamma(v / 2) - mpmath.loggamma((v + 1) / 2) + mpmath.log(v * mpmath.pi) / 2 + mpmath.log(2)
        log_prob = -(v + 1) / 2 * mpmath.log1p(mpmath.mpf(0.75) ** 2 / v) - norm
        entropy = (v + 1) / 2 * (mpmath.digamma((v + 1) / 2) - mpmath.digamma(v / 2)) + norm
    assert d.log_prob(y).item() == pytest.approx(float(log_prob), rel=tolerance)
    assert d.entropy().item() == pytest.approx(float(entropy), rel=tolerance)


@in_both
@together("size", [0.3, 1e5, 1e7, 1e12])
def test_the_negative_binomial_keeps_its_digits(size, dtype, tolerance):
    loss_fn = likely.NegativeBinomialLoss(dispersion=1 / size, log_input=False)
    d = loss_fn.distribution(torch.tensor(3.0, dtype=dtype))
    with mpmath.workdps(60):
        n, mean = mpmath.mpf(size), mpmath.mpf(3)
        mass = mpmath.rf(n, 4) / 24 * (n / (n + mean)) ** n * (mean / (n + mean)) ** 4
    assert d.log_prob(torch.tensor(4.0, dtype=dtype)).item() == pytest.approx(float(mpmath.log(mass)), rel=tolerance)


@in_both
@together("a", [0.01, 0.7, 9.0, 1e4, 1e8])
def test_entropies_of_gamma_and_beta_keep_their_digits(a, dtype, tolerance):
    shape, other, rate = (torch.tensor(value, dtype=dtype) for value in (a, 50 * a, 2.0))
    with mpmath.workdps(60):
        a, b = numbers(shape, other)
        n, log_gamma, psi = a + b, mpmath.loggamma, mpmath.digamma
        gamma = a - mpmath.log(2) + log_gamma(a) + (1 - a) * psi(a)
        beta = log_gamma(a) + log_gamma(b) - log_gamma(n) - (a - 1) * psi(a) - (b - 1) * psi(b) + (n - 2) * psi(n)
        step = mpmath.log(a) - psi(a)
    assert Gamma(shape, rate).entropy().item() == pytest.approx(float(gamma), rel=tolerance, abs=tolerance)
    assert Beta(shape, other).entropy().item() == pytest.approx(float(beta), rel=tolerance, abs=tolerance)
    assert log_minus_digamma(shape).item() == pytest.approx(float(step), rel=tolerance)


def part(a, b, x):
    return mpmath.betainc(a, b, 0, x, regularized=True)


def student_cdf(x, df, skew=0):
    side = skew if x > 0 else -skew
    z = abs(x) * mpmath.exp(-side)
    tail = part(df / 2, mpmath.mpf(0.5), df / (df + z * z)) / (1 + mpmath.exp(-2 * side))
    return tail if x < 0 else 1 - tail


def von_mises_cdf(x, k):
    total = 2 * mpmath.pi * mpmath.besseli(0, k)
    return mpmath.quad(lambda t: mpmath.exp(k * mpmath.cos(t)), [-mpmath.pi, x]) / total


def poisson_cdf(x, rate):
    return mpmath.gammainc(mpmath.floor(x) + 1, rate, regularized=True)


def count_cdf(x, n, logits):
    return part(n, mpmath.floor(x) + 1, 1 / (1 + mpmath.exp(logits)))


CDFS = {
    "student_t": (StudentT, student_cdf, [(0.6,), (3.0,), (400.0,)], [-30.0, -0.4, 0.0, 2.0]),
    "skew_student_t": (lambda v, a: SkewStudentT(v, a, 0.0, 1.0), student_cdf, [(3.0, 0.7)], [-2.0, -0.1, 0.3, 9.0]),
    "gamma": (
        lambda a, r: Gamma(a, r),
        lambda x, a, r: mpmath.gammainc(a, 0, r * x, regularized=True),
        [(0.3, 2.0), (40.0, 9.0)],
        [0.05, 3.0, 5.0],
    ),
    "beta": (Beta, lambda x, a, b: part(a, b, x), [(0.4, 0.7), (60.0, 90.0)], [0.1, 0.38, 0.5]),
    "von_mises": (lambda k: VonMises(torch.zeros_like(k), k), von_mises_cdf, [(0.5,), (8.0,)], [-3.0, -0.3, 1.0]),
    "poisson": (Poisson, poisson_cdf, [(0.4,), (30.0,)], [0.0, 1.5, 25.0]),
    "negative_binomial": (
        lambda n, logits: NegativeBinomial(n, logits=logits),
        count_cdf,
        [(2.0, 0.5), (500.0, -4.0)],
        [0.0, 4.0, 9.5],
    ),
    "zero_inflated_poisson": (
        ZeroInflatedPoisson,
        lambda x, rate, share: share + (1 - share) * poisson_cdf(x, rate),
        [(3.0, 0.2)],
        [0.0, 5.0],
    ),
    "zero_inflated_negative_binomial": (
        ZeroInflatedNegativeBinomial,
        lambda x, n, logits, share: share + (1 - share) * count_cdf(x, n, logits),
        [(2.0, 0.5, 0.2)],
        [0.0, 5.0],
    ),
}
CONTINUOUS = ["student_t", "skew_student_t", "gamma", "beta", "von_mises"]


@together("name", CDFS)
def test_the_cdf_has_the_slope_in_every_parameter(name):
    make, exact, cases, values = CDFS[name]
    for parameters in cases:
        for x in values:
            leaves = [double(value).requires_grad_() for value in parameters]
            found = make(*leaves).cdf(double(x))
            slopes = torch.autograd.grad(found, leaves)
            with mpmath.workdps(40):
                given = [mpmath.mpf(value) for value in parameters]
                assert found.item() == pytest.approx(float(exact(mpmath.mpf(x), *given)), rel=1e-10)
                for place, slope in enumerate(slopes):

                    def along(value, place=place, given=given, x=x):
                        return exact(mpmath.mpf(x), *given[:place], value, *given[place + 1 :])

                    expected = mpmath.diff(along, given[place], h=mpmath.mpf(10) ** -12)
                    assert slope.item() == pytest.approx(float(expected), rel=1e-6, abs=1e-11)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_quantiles_have_the_slope_in_every_parameter(name):
    make, _, cases, _ = CDFS[name]
    for parameters in cases:
        leaves = [double(value).requires_grad_() for value in (0.3, *parameters)]
        assert torch.autograd.gradcheck(lambda p, *rest: make(*rest).icdf(p), leaves, rtol=1e-4)


def test_slopes_are_those_of_single_precision_too():
    for name, (make, _, cases, values) in CDFS.items():
        slopes = []
        for dtype in (torch.float32, torch.float64):
            leaves = [torch.tensor(value, dtype=dtype, requires_grad=True) for value in cases[-1]]
            found = make(*leaves).cdf(torch.tensor(values[-1], dtype=dtype))
            assert found.dtype == dtype, name
            slopes.append(torch.autograd.grad(found, leaves))
        torch.testing.assert_close(*slopes, rtol=1e-4, atol=1e-7, check_dtype=False)


def test_at_the_mode_the_slope_of_the_cdf_is_the_density():
    for d in (StudentT(double(3.0)), SkewStudentT(double(3.0), double(1.0), double(0.0), double(1.0))):
        x = double(0.0).requires_grad_()
        (slope,) = torch.autograd.grad(d.cdf(x), x)
        assert slope.item() == pytest.approx(d.log_prob(x).exp().item(), rel=1e-12)


def test_no_slope_is_nan_at_the_ends():
    ends = double([0.0, 1.0])
    for make, parameters in (
        (StudentT, [3.0]),
        (Beta, [0.5, 2.0]),
        (Beta, [2.0, 0.5]),
        (lambda k: VonMises(double(0.0), k), [2.0]),
    ):
        leaves = [double(value).requires_grad_() for value in parameters]
        slopes = torch.autograd.grad(make(*leaves).icdf(ends.clone().requires_grad_()).sum(), leaves)
        assert [slope.item() for slope in slopes] == [0.0] * len(leaves)
    leaves = [double(value).requires_grad_() for value in (0.5, 2.0)]
    slopes = torch.autograd.grad(Gamma(*leaves).cdf(double([-1.0, 0.0])).sum(), leaves)
    assert [slope.item() for slope in slopes] == [0.0, 0.0]
    rate = double(0.0).requires_grad_()
    (slope,) = torch.autograd.grad(Poisson(rate).cdf(double(0.0)), rate)
    assert slope.item() == -1.0


def test_a_second_derivative_of_the_cdf_is_an_error_and_not_zero():
    df = double(3.0).requires_grad_()
    (slope,) = torch.autograd.grad(StudentT(df).cdf(double(1.0)) ** 2, df, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        slope.backward()


@together("dtype", [torch.float32, torch.float64])
@together("skew", [-4.0, -1.0, 0.0, 4.0])
def test_quantiles_invert_the_skewed_cdf_up_to_its_rounding(skew, dtype):
    """Where the density is small, one step between two floats near 1 is a long way."""
    d = SkewStudentT(torch.tensor(3.0, dtype=dtype), skew, 0.0, 1.0)
    x = torch.logspace(-3, 3, 25, dtype=dtype)
    p = d.cdf(x)
    x, p = x[p < 1], p[p < 1]
    rounding = torch.finfo(dtype).eps * (1 / d.log_prob(x).exp() + 4 * x)
    assert ((d.icdf(p) - x).abs() <= rounding).all()


@together("dtype", [torch.float32, torch.float64])
@together(("mean", "dispersion"), [(1e-4, 1e-8), (3.0, 1e-12), (1e6, 2.0), (0.0, 1.0)])
def test_variances_of_counts_are_exact(mean, dispersion, dtype):
    x, rounding = torch.tensor(mean, dtype=dtype), 2.5 * torch.finfo(dtype).eps
    d = likely.NegativeBinomialLoss(dispersion=dispersion, log_input=False).distribution(x)
    assert d.mean.item() == pytest.approx(mean, rel=rounding)
    assert d.variance.item() == pytest.approx(mean + dispersion * mean**2, rel=2 * rounding if mean > 1e3 else rounding)
    loss_fn = likely.losses.ZeroInflatedNegativeBinomialLoss(dispersion=dispersion, inflation=0.25, log_input=False)
    expected = 0.75 * (mean + (dispersion + 0.25) * mean**2)
    assert loss_fn.distribution(x).variance.item() == pytest.approx(expected, rel=2 * rounding)


def test_counts_without_events():
    for d in (
        NegativeBinomial(double(0.0), logits=double(1.0)),
        likely.NegativeBinomialLoss(log_input=False).distribution(double(0.0)),
    ):
        assert d.log_prob(double([0.0, 1.0])).tolist() == [0.0, -math.inf]
        assert d.cdf(double([-1.0, 0.0, 3.0])).tolist() == [0.0, 1.0, 1.0]
        assert d.icdf(double(0.5)).item() == 0.0


def test_the_negative_binomial_is_scipys_in_single_precision():
    for mean, dispersion, p in ((1e6, 1.0, 1e-3), (3.0, 1e-7, 0.4)):
        d = likely.NegativeBinomialLoss(dispersion=dispersion, log_input=False).distribution(torch.tensor(mean))
        reference = stats.nbinom(1 / dispersion, 1 / (1 + mean * dispersion))
        x = reference.ppf(p)
        assert d.cdf(torch.tensor(float(x))).item() == pytest.approx(reference.cdf(x), rel=2e-6)
        assert d.icdf(torch.tensor(p)).item() == pytest.approx(x, rel=1e-5)


def test_the_cdf_takes_whole_counts_as_integers():
    for d in (Poisson(torch.tensor(3.0)), NegativeBinomial(torch.tensor(2.0), logits=torch.tensor(0.5))):
        torch.testing.assert_close(d.cdf(torch.tensor([0, 2])), d.cdf(torch.tensor([0.0, 2.0])))


def test_ordinal_enumerates_its_classes():
    d = Ordinal(torch.tensor([0.0, 1.0]), torch.tensor([-1.0, 0.5, 2.0]))
    classes = d.enumerate_support()
    assert d.has_enumerate_support
    assert classes.tolist() == [[k, k] for k in range(4)]
    assert d.enumerate_support(expand=False).shape == (4, 1)
    torch.testing.assert_close(d.log_prob(classes).exp().sum(0), torch.ones(2))
    np.testing.assert_allclose((d.log_prob(classes).exp() * classes).sum(0), d.mean, rtol=1e-6)
    assert Ordinal(torch.tensor(0.0), torch.tensor([0.0])).enumerate_support().tolist() == [0.0, 1.0]


@together("name", ["normal", "huber"])
def test_far_quantiles_and_their_probabilities_keep_their_digits_in_single_precision(name):
    make = {"normal": lambda: likely.NormalLoss(scale=1.0), "huber": lambda: likely.HuberLoss(delta=15.0, scale=1.0)}
    d = make[name]().distribution(torch.tensor(0.0))
    for p in (1e-30, 1e-12, 1e-6, 0.3):
        z = d.icdf(torch.tensor(p))
        assert z.item() == pytest.approx(stats.norm.ppf(torch.tensor(p).item()), rel=1e-6)
        assert d.cdf(z).item() == pytest.approx(p, rel=2e-4 if p < 1e-20 else 2e-5)


@together("scale", [1e-30, 1e-24, 1e20, 1e30])
def test_the_normal_has_the_density_of_its_loss_at_any_scale(scale):
    loss_fn = likely.NormalLoss(scale=scale)
    x, y = torch.tensor(0.0), torch.tensor(2.0) * scale
    exact = -2 - math.log(scale) - 0.5 * math.log(2 * math.pi)
    assert loss_fn.distribution(x).log_prob(y).item() == pytest.approx(exact, rel=1e-6)
    assert loss_fn(x, y).item() == pytest.approx(-exact, rel=1e-6)


@together("mean", [1e6, 1e8])
def test_counts_of_millions_keep_their_log_probability_in_single_precision(mean):
    x, y = torch.tensor(mean), torch.tensor(mean + 2 * mean**0.5)
    poisson = likely.PoissonLoss(log_input=False).distribution(x)
    assert poisson.log_prob(y).item() == pytest.approx(stats.poisson.logpmf(y.item(), mean), rel=1e-6)
    inflated = ZeroInflatedPoisson(x, 0.25)
    assert inflated.log_prob(y).item() == pytest.approx(math.log(0.75) + stats.poisson.logpmf(y.item(), mean), rel=1e-6)
    d = likely.NegativeBinomialLoss(dispersion=1.0, log_input=False).distribution(x)
    assert d.log_prob(y).item() == pytest.approx(stats.nbinom.logpmf(y.item(), 1.0, 1 / (1 + mean)), rel=1e-6)
