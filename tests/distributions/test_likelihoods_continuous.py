"""Logistic, asymmetric Laplace, Gamma and log-normal: distributions, scores, digits, and what they are for."""

import math
from itertools import pairwise

import mpmath
import numpy as np
import pytest
import torch
from scipy import integrate, stats

import likely
from likely import functional as F
from likely._numerics.special import exp_remainder, log_gamma_remainder
from likely.distributions import AsymmetricLaplace, Gamma, Logistic, LogNormal
from likely.likelihoods import LIKELIHOODS
from likely.losses import AsymmetricLaplaceLoss, GammaLoss, LogisticLoss, LogNormalLoss
from likely.metrics import crps, crps_from_samples
from pairwise import together


def double(value):
    return torch.tensor(value, dtype=torch.float64)


def skewed(q, loc, scale):
    return stats.laplace_asymmetric(math.sqrt(q / (1 - q)), loc, scale / math.sqrt(q * (1 - q)))


# Name -> the distribution, and SciPy's.
CASES = {
    "logistic": (Logistic(double([0.3]), double([0.7])), stats.logistic(0.3, 0.7)),
    **{
        f"asymmetric_laplace {q}": (AsymmetricLaplace(double([q]), double([0.3]), double([0.7])), skewed(q, 0.3, 0.7))
        for q in (0.02, 0.5, 0.9)
    },
    **{
        f"gamma {a}": (Gamma(double([a]), double([0.7])), stats.gamma(a, scale=1 / 0.7)) for a in (0.3, 1.0, 2.5, 400.0)
    },
    **{
        f"log_normal {s}": (LogNormal(double([0.3]), double([s])), stats.lognorm(s, scale=math.exp(0.3)))
        for s in (0.01, 0.7, 2.0)
    },
}
every = together(("d", "reference"), CASES.values(), ids=CASES)


@every
def test_is_scipys(d, reference):
    p = double([1e-9, 0.01, 0.3, 0.5, 0.8, 0.999])
    x = torch.as_tensor(reference.ppf(p.numpy()))
    np.testing.assert_allclose(d.icdf(p), x, rtol=1e-9)
    np.testing.assert_allclose(d.cdf(x), reference.cdf(x), rtol=1e-9)
    np.testing.assert_allclose(d.log_prob(x), reference.logpdf(x), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(d.mean, reference.mean(), rtol=1e-10)
    np.testing.assert_allclose(d.variance, reference.var(), rtol=1e-10)


@every
def test_the_cdf_is_the_integral_of_the_density(d, reference):
    low, middle, high = (d.icdf(double([p])).item() for p in (0.05, 0.5, 0.97))
    for a, b in ((low, middle), (middle, high)):
        mass, _ = integrate.quad(
            lambda x: d.log_prob(double([x])).exp().item(), a, b, points=[min(max(0.3, a), b)], epsabs=1e-12
        )
        assert mass == pytest.approx((d.cdf(double([b])) - d.cdf(double([a]))).item(), abs=1e-9)


@every
def test_quantiles_invert_the_cdf(d, reference):
    p = double([1e-6, 1e-3, 0.1, 0.5, 0.75, 0.999, 1 - 1e-6])
    torch.testing.assert_close(d.cdf(d.icdf(p)), p, rtol=1e-9, atol=1e-13)
    below, above = d.support.lower_bound if hasattr(d.support, "lower_bound") else -math.inf, math.inf
    assert d.icdf(double([0.0, 1.0])).tolist() == [below, above]
    assert d.cdf(double([-1e300, 1e300])).tolist() == [0.0, 1.0]


@every
def test_gradients_of_cdf_and_quantile(d, reference):
    p = double([0.2, 0.95]).requires_grad_()
    x = d.icdf(p.detach()).requires_grad_()
    assert torch.autograd.gradcheck(d.cdf, x, eps=1e-7 * float(d.stddev), atol=1e-5)
    (slope,) = torch.autograd.grad(d.icdf(p).sum(), p)
    torch.testing.assert_close(slope, torch.exp(-d.log_prob(x.detach())), rtol=1e-8, atol=0)


@every
def test_samples_follow_the_cdf(d, reference):
    torch.manual_seed(1)
    x = d.sample((20_000,)).squeeze(-1)
    assert stats.kstest(x.numpy(), lambda v: d.cdf(torch.as_tensor(v)).numpy()).pvalue > 1e-3
    error = (reference.var() / 20_000) ** 0.5
    assert x.mean().item() == pytest.approx(reference.mean(), abs=5 * error)


@every
def test_the_score_is_the_integral_it_is_defined_by(d, reference):
    ends = reference.ppf([1e-14, 0.01, 0.2, 0.5, 0.9, 0.999]), reference.isf([1e-6, 1e-14, 1e-20])
    knots = np.concatenate([*ends, [0.3]])

    def between(f, a, b):
        edges = np.unique(np.clip(knots, a, b))
        rule = {"epsabs": 1e-13, "epsrel": 1e-12, "limit": 200}
        return sum(integrate.quad(f, u, v, **rule)[0] for u, v in pairwise(edges))

    for y in (*reference.ppf([0.001, 0.5, 0.9]), -0.5):
        with np.errstate(over="ignore"):  # SciPy computes both sides of the asymmetric Laplace everywhere
            below = between(lambda x: reference.cdf(x) ** 2, -math.inf, y)
            above = between(lambda x: reference.sf(x) ** 2, y, math.inf)
        beyond = max(min(knots) - y, 0) + max(y - max(knots), 0)
        assert crps([y], d) == pytest.approx(below + above + beyond, rel=1e-9, abs=1e-10)


@every
def test_the_score_agrees_with_samples(d, reference):
    wide, y = d.expand((3,)), reference.ppf([0.01, 0.6, 0.99])
    assert crps(y, wide, reduction="none")[1] == crps(y[1:2], d)
    torch.manual_seed(2)
    samples = d.sample((100_000,)).squeeze(-1).numpy()
    assert crps(y[1:2], d) == pytest.approx(crps_from_samples(y[1:2], samples[None]), rel=0.05)


def test_scores_of_distributions_in_single_precision_and_of_torch_itself():
    y = [0.5, 2.0]
    ours = crps(y, Gamma(double([2.0, 3.0]), double([1.0, 0.5])))
    again = torch.distributions.Gamma(torch.tensor([2.0, 3.0]), torch.tensor([1.0, 0.5]))
    assert crps(y, again) == pytest.approx(ours, rel=1e-14)
    ours = crps(y, LogNormal(double([0.0, 1.0]), double([1.0, 0.5])))
    assert crps(y, torch.distributions.LogNormal(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 0.5]))) == ours
    used = torch.distributions.LogNormal(double([0.0, 1.0]), double([1.0, 0.5]))
    used.log_prob(double(y))  # whereby its transform keeps its inverse, which refers back to it
    assert crps(y, used) == ours
    inverse = torch.distributions.TransformedDistribution(
        torch.distributions.Normal(double([0.0, 1.0]), double([1.0, 0.5])),
        [
            torch.distributions.ExpTransform(),
            torch.distributions.ExpTransform().inv,
            torch.distributions.ExpTransform(),
        ],
    )
    assert crps(y, inverse) == pytest.approx(ours, rel=1e-6)
    assert math.isfinite(crps([1.0], LogNormal(double([0.0]), double([50.0]))))


def test_logistic_keeps_the_digits_of_its_slope():
    for dtype, tolerance in ((torch.float32, 5e-7), (torch.float64, 1e-15)):
        z = torch.cat([torch.logspace(-12, 3, 100, dtype=dtype), torch.tensor([0.0, 19.99, 20.01], dtype=dtype)])
        for signed in (z, -z):
            leaf = signed.clone().requires_grad_()
            nll = F.logistic_nll(torch.zeros_like(leaf), leaf, scale=1.0, full=False, reduction="none")
            (slope,) = torch.autograd.grad(nll.sum(), leaf, create_graph=True)
            (bend,) = torch.autograd.grad(slope.sum(), leaf)
            half = signed.double() / 2
            torch.testing.assert_close(slope.detach().double(), torch.tanh(half), rtol=tolerance, atol=0)
            torch.testing.assert_close(bend.double(), 0.5 / torch.cosh(half) ** 2, rtol=20 * tolerance, atol=tolerance)
            with mpmath.workdps(60):
                exact = [float(2 * mpmath.log(mpmath.cosh(mpmath.mpf(value.item()) / 2))) for value in signed]
            torch.testing.assert_close(nll.detach().double(), double(exact), rtol=2 * tolerance, atol=1e-24)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 3e-6), (torch.float64, 4e-15)])
def test_special_functions_of_the_gamma(dtype, tolerance):
    x = torch.logspace(-30, 30, 61, dtype=dtype).requires_grad_()
    u = torch.cat([torch.logspace(-18, 1.5, 40, dtype=dtype), -torch.logspace(-18, 4, 40, dtype=dtype)])
    u.requires_grad_()
    with mpmath.workdps(120):
        wide, points = [mpmath.mpf(v.item()) for v in x], [mpmath.mpf(v.item()) for v in u]
        constant = mpmath.log(2 * mpmath.pi) / 2
        value = [float(mpmath.loggamma(v) - v * mpmath.log(v) + v - constant) for v in wide]
        slope = [float(mpmath.digamma(v) - mpmath.log(v)) for v in wide]
        excess = [float(mpmath.expm1(v) - v) for v in points]
        growth = [float(mpmath.expm1(v)) for v in points]
    remainder, above = log_gamma_remainder(x), exp_remainder(u)
    for got, expected, absolute in (
        (remainder, value, tolerance),
        (torch.autograd.grad(remainder.sum(), x)[0], slope, 0),
        (above, excess, 0),
        (torch.autograd.grad(above.sum(), u)[0], growth, 0),
    ):
        torch.testing.assert_close(got.detach().double(), double(expected), rtol=tolerance, atol=absolute)


@pytest.mark.parametrize("concentration", [1e-3, 0.5, 8.0, 1e6, 1e12])
def test_gamma_is_exact_for_any_concentration(concentration):
    """As it grows, log y becomes normal with standard deviation 1/√α."""
    u = double([-2.0, -0.1, 0.0, 0.3, 1.5]) / math.sqrt(max(concentration, 1.0))
    y, eta = u.exp(), torch.zeros(5, dtype=torch.float64)
    with mpmath.workdps(60):
        a = mpmath.mpf(concentration)
        exact = [
            float(mpmath.loggamma(a) - a * mpmath.log(a) + a * v - (a - 1) * mpmath.log(v))
            for v in map(mpmath.mpf, y.tolist())
        ]
    got = F.gamma_nll(eta, y, concentration=concentration, reduction="none")
    # What is left is the rounding of log y itself: a relative error of √α in units of the last place.
    torch.testing.assert_close(got, double(exact), rtol=1e-13, atol=1e-15 * math.sqrt(concentration))
    torch.testing.assert_close(-Gamma(double(concentration), double(concentration)).log_prob(y), got)
    mean = F.gamma_nll(eta.exp(), y, concentration=concentration, log_input=False, reduction="none")
    torch.testing.assert_close(mean, got)


def test_gamma_at_zero_is_what_torch_says():
    a, rate, zero = double([0.5, 1.0, 2.0]), double([2.0] * 3), torch.zeros(3, dtype=torch.float64)
    assert torch.equal(Gamma(a, rate).log_prob(zero), torch.distributions.Gamma(a, rate).log_prob(zero))
    leaves = [a.requires_grad_(), rate.requires_grad_()]
    grads = torch.autograd.grad(Gamma(*leaves).log_prob(double([0.5, 1.0, 2.0])).sum(), leaves)
    assert all(g.isfinite().all() for g in grads)


def test_relatives():
    x, y = torch.zeros(50, dtype=torch.float64), torch.linspace(-6, 6, 50, dtype=torch.float64)
    torch.testing.assert_close(F.asymmetric_laplace_nll(x, y, scale=0.6), F.laplace_nll(x, y, scale=1.2))
    positive = y.exp()
    torch.testing.assert_close(
        F.log_normal_nll(x, positive, scale=0.7), F.normal_nll(x, y, scale=0.7) + y.mean(), rtol=1e-12, atol=0
    )
    exponential = torch.distributions.Exponential(double(1.0))
    torch.testing.assert_close(F.gamma_nll(x, positive, concentration=1.0), -exponential.log_prob(positive).mean())
    # A precise Gamma is a log-normal up to O(1/√α).
    near = torch.exp(y / 1e4)
    torch.testing.assert_close(
        F.gamma_nll(x, near, concentration=1e8), F.log_normal_nll(x, near, scale=1e-4), rtol=0, atol=1e-2
    )


def fit(loss_fn, prediction, target, steps=300):
    optimizer = torch.optim.Adam([prediction, *loss_fn.parameters()], lr=0.05)
    for _ in range(steps):
        optimizer.zero_grad()
        loss_fn(prediction.expand_as(target), target).backward()
        optimizer.step()


def test_the_asymmetric_laplace_predicts_a_quantile():
    y = torch.from_numpy(np.random.default_rng(0).exponential(size=4000))
    prediction = double(0.0).requires_grad_()
    loss_fn = AsymmetricLaplaceLoss(quantile=0.8).double()
    fit(loss_fn, prediction, y)
    assert prediction.item() == pytest.approx(y.quantile(0.8).item(), abs=0.06)
    assert loss_fn.distribution(prediction).cdf(prediction).item() == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("loss_fn", "truth", "learned"),
    [
        (LogisticLoss(), stats.logistic(1.0, 0.5), {"scale": 0.5}),
        (AsymmetricLaplaceLoss(quantile=likely.Global()), skewed(0.25, 1.0, 0.3), {"quantile": 0.25, "scale": 0.3}),
        (GammaLoss(), stats.gamma(3.0, scale=math.e / 3), {"concentration": 3.0}),
        (LogNormalLoss(), stats.lognorm(0.4, scale=math.e), {"scale": 0.4}),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, torch.nn.Module) else "",
)
def test_parameters_are_found_again(loss_fn, truth, learned):
    y = torch.from_numpy(truth.rvs(2000, random_state=np.random.default_rng(1)))
    prediction = double(0.0).requires_grad_()
    fit(loss_fn, prediction, y, steps=300)
    assert prediction.item() == pytest.approx(1.0, abs=0.06)
    for name, value in learned.items():
        assert getattr(loss_fn, name).value.item() == pytest.approx(value, rel=0.1)


@pytest.mark.parametrize("name", ["gamma", "log_normal"])
def test_positive_targets_only(name):
    record = LIKELIHOODS[name]
    for bad in (0.0, -1.0, math.nan):
        with pytest.raises(ValueError, match="target"):
            record.loss()(torch.zeros(2), torch.tensor([1.0, bad]))
    with pytest.raises(ValueError, match=f"the {name} likelihood"):
        record.check_target(np.array([1.0, 0.0]))
    # A whole number, and a number too small for the prediction's precision.
    assert record.loss()(torch.zeros(2, dtype=torch.float64), torch.tensor([1, 3])).dtype == torch.float64
    assert record.loss()(torch.zeros(1), double([1e-50])).isfinite()
    y, weight = np.array([[1.0, 2.0], [4.0, 1e-9]]), np.array([1.0, 3.0])
    repeated = y[[0, 1, 1, 1]]
    expected = np.log(repeated.mean(0)) if name == "gamma" else np.log(repeated).mean(0)
    np.testing.assert_allclose(record.start(y, weight), expected)


def test_levels_lie_between_zero_and_one():
    x = torch.zeros(2)
    for bad in (0.0, 1.0, 1.5, torch.tensor([0.5, 1.0])):
        with pytest.raises(ValueError, match="quantile must be > 0"):
            F.asymmetric_laplace_nll(x, x, scale=1.0, quantile=bad)
    with pytest.raises(ValueError, match="does not reach"):
        AsymmetricLaplaceLoss(quantile=likely.Global(init=1.5))


def test_weights_of_the_logistic_touch_its_loss():
    residuals = LIKELIHOODS["logistic"].residuals
    z = np.linspace(-30, 30, 601)
    slope = np.gradient(residuals.loss(z, 0.0), z, edge_order=2)
    np.testing.assert_allclose(residuals.weight(z, 0.0) * z, slope, atol=2e-3)
    np.testing.assert_allclose(residuals.weight(np.zeros(1), 0.0), 0.5)
    assert residuals.deviation(0.0) == pytest.approx(stats.logistic.std())
