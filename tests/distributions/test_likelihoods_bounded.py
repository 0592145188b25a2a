"""Distributions, scores and limits of the zero-inflated, Beta, von Mises and ordinal likelihoods."""

import math

import mpmath
import numpy as np
import pytest
import torch
from scipy import integrate, stats

import likely
from likely import functional as F
from likely.distributions import Beta, Ordinal, VonMises, ZeroInflatedNegativeBinomial, ZeroInflatedPoisson
from likely.likelihoods import LIKELIHOODS
from likely.likelihoods.ordinal import Increasing
from likely.losses import OrdinalLoss
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


SHAPES = [(0.4, 0.7), (2.0, 3.0), (60.0, 9.0), (1e5, 3e5)]


@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_beta_is_scipys(a, b):
    d, reference = Beta(double(a), double(b)), stats.beta(a, b)
    p = double([1e-6, 0.1, 0.5, 0.75, 0.999])
    x = d.icdf(p)
    np.testing.assert_allclose(x, reference.ppf(p), rtol=1e-9)
    np.testing.assert_allclose(d.log_prob(x), reference.logpdf(x), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(d.cdf(x), p, rtol=1e-9, atol=1e-13)
    assert d.cdf(double([-1.0, 0.0, 1.0, 2.0])).tolist() == [0, 0, 1, 1]
    assert d.icdf(double([0.0, 1.0])).tolist() == [0, 1]
    centre, _ = integrate.quad(lambda v: d.log_prob(double(v)).exp().item(), *x[1:3].tolist(), epsabs=1e-13)
    assert centre == pytest.approx(0.4, abs=1e-10)
    if a < 100:
        assert torch.autograd.gradcheck(d.cdf, x[1:4].clone().requires_grad_(), atol=1e-5)
        assert torch.autograd.gradcheck(d.icdf, p[1:4].clone().requires_grad_(), atol=1e-5)


@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_beta_score_is_its_integral(a, b):
    d, reference = Beta(double([a]), double([b])), stats.beta(a, b)
    for y in (reference.mean(), reference.ppf(0.02), 0.9):
        low, high = reference.ppf(1e-17), reference.isf(1e-17)
        points = sorted({*reference.ppf([0.02, 0.1, 0.5, 0.9]), y}) if y < high else reference.ppf([0.1, 0.5, 0.9])
        total, _ = integrate.quad(
            lambda v: (reference.cdf(v) - (v >= y)) ** 2,  # noqa: B023
            low,
            high,
            points=points,
            limit=500,
            epsabs=1e-13,
        )
        assert crps([y], d) == pytest.approx(total + max(0.0, y - high), abs=1e-10)
    samples = d.sample((40_000,)).numpy().T
    assert crps_from_samples([0.4], samples) == pytest.approx(crps([0.4], d), abs=0.01)


def test_beta_density_and_slopes_at_any_concentration():
    for total in (1e-8, 0.01, 1.0, 7.9, 9.0, 40.0, 1e4, 1e8):
        for logit in (-30.0, -3.0, 0.0, 1.0, 25.0):
            for y in (1e-12, 0.01, 0.4, 0.999):
                x, phi = (double(value).requires_grad_() for value in (logit, total))
                nll = F.beta_nll(x, double(y), concentration=phi)
                slopes = torch.autograd.grad(nll, [x, phi])
                with mpmath.workdps(50):
                    mean, share = 1 / (1 + mpmath.exp(-mpmath.mpf(logit))), mpmath.mpf(y)
                    a, b, odds = total * mean, total * (1 - mean), mpmath.log(share) - mpmath.log(1 - share)
                    log_beta = mpmath.loggamma(a) + mpmath.loggamma(b) - mpmath.loggamma(total)
                    expected = (
                        log_beta - (a - 1) * mpmath.log(share) - (b - 1) * mpmath.log(1 - share),
                        total * mean * (1 - mean) * (mpmath.digamma(a) - mpmath.digamma(b) - odds),
                        mean * (mpmath.digamma(a) - mpmath.log(share))
                        + (1 - mean) * (mpmath.digamma(b) - mpmath.log(1 - share))
                        - mpmath.digamma(total),
                    )
                for got, exact in zip((nll, *slopes), expected, strict=True):
                    assert got.item() == pytest.approx(float(exact), rel=1e-12, abs=1e-14)


def test_beta_refuses_the_ends_and_names_a_remedy():
    for y in (0.0, 1.0):
        with pytest.raises(ValueError, match="move all targets inside"):
            F.beta_nll(torch.zeros(2), torch.tensor([0.5, y]), concentration=1.0)
    with pytest.raises(ValueError, match=r"lie in \[0, 1\]"):
        F.beta_nll(torch.zeros(1), torch.tensor([1.5]), concentration=1.0)


CONCENTRATIONS = [1e-6, 0.3, 2.3, 29.9, 30.1, 1e3, 1e6]


def von_mises_tail(angle, k):
    """P(angle ≤ X ≤ π) by mpmath."""
    with mpmath.workdps(30):
        width = min(1 / mpmath.sqrt(k), 1 / (k * mpmath.sin(angle)) if angle else mpmath.inf)
        points = [mpmath.mpf(angle), *(angle + width * 2**j for j in range(9)), mpmath.pi]
        points = [point for point in points if point < mpmath.pi] + [mpmath.pi]
        mass = mpmath.quad(lambda t: mpmath.exp(-2 * k * mpmath.sin(t / 2) ** 2), points)
        return float(mass / (2 * mpmath.pi * mpmath.besseli(0, k) * mpmath.exp(-k)))


@pytest.mark.parametrize("k", CONCENTRATIONS)
def test_von_mises_cdf_is_the_integral_of_the_density(k):
    d = VonMises(double(0.4), double(k))
    for angle in (0.0, 1e-3, 0.3, 1.0, 2.0):
        tail = von_mises_tail(angle, k)
        assert d.cdf(double(0.4 - angle)).item() == pytest.approx(tail, rel=1e-12 * max(1, k * angle), abs=1e-300)
        assert d.cdf(double(0.4 + angle)).item() == pytest.approx(1 - tail, abs=1e-14)
    assert d.cdf(double([-9.0, 9.0])).tolist() == [0, 1]
    p = double([1e-6, 1e-3, 0.1, 0.4999999, 0.5, 0.75, 0.999, 1 - 1e-6])
    torch.testing.assert_close(d.cdf(d.icdf(p)), p, rtol=1e-9, atol=1e-13)
    torch.testing.assert_close(d.icdf(double([0.0, 1.0])), double([0.4 - math.pi, 0.4 + math.pi]))
    x = d.icdf(double([0.2, 0.5, 0.9]))
    torch.testing.assert_close(torch.autograd.grad(d.cdf(x.requires_grad_()).sum(), x)[0], d.log_prob(x).exp().detach())


@pytest.mark.parametrize("k", CONCENTRATIONS)
def test_von_mises_normaliser_and_its_slopes(k):
    kappa = double(k).requires_grad_()
    nll = F.von_mises_nll(double(0.0), double(0.0), concentration=kappa)
    (slope,) = torch.autograd.grad(nll, kappa, create_graph=True)
    (bend,) = torch.autograd.grad(slope, kappa)
    with mpmath.workdps(60):
        ratio = mpmath.besseli(1, k) / mpmath.besseli(0, k)
        expected = (mpmath.log(2 * mpmath.pi * mpmath.besseli(0, k)) - k, ratio - 1, 1 - ratio / k - ratio**2)
    for got, exact in zip((nll, slope, bend), expected, strict=True):
        assert got.item() == pytest.approx(float(exact), rel=1e-13)
    single = torch.tensor(k, requires_grad=True)
    (slope,) = torch.autograd.grad(F.von_mises_nll(torch.zeros(()), torch.zeros(()), concentration=single), single)
    assert slope.item() == pytest.approx(float(expected[1]), rel=1e-4)


def test_von_mises_samples_follow_the_cdf():
    for k in (0.3, 5.0):
        d = VonMises(double(2.5), double(k))
        x = d.sample((5_000,))
        assert (x - 2.5).abs().max() <= math.pi
        assert stats.kstest(x.numpy(), lambda v: d.cdf(torch.as_tensor(v)).numpy()).pvalue > 1e-3  # noqa: B023


@pytest.mark.parametrize("k", [1e-6, 2.3, 40.0, 1e4])
def test_von_mises_score_is_its_integral_about_the_location(k):
    d = VonMises(double([0.5]), double([k]))
    width = min(12 / math.sqrt(k), math.pi)
    nodes, weights = np.polynomial.legendre.leggauss(200)

    def square(low, high, reached):
        x = torch.from_numpy(0.5 + low + (high - low) * (nodes + 1) / 2)
        return (high - low) / 2 * (weights @ (d.cdf(x).numpy() - reached) ** 2)

    for y in (0.5, 1.3, -2.4, 3.6, 10.0):
        angle = math.remainder(y - 0.5, 2 * math.pi)
        cut = min(max(angle, -width), width)
        total = square(-width, cut, 0) + square(cut, width, 1) + abs(angle - cut)
        assert crps([y], d) == pytest.approx(total, abs=1e-10)
    if k == 1e4:
        assert crps([0.51], d) == pytest.approx(crps([0.51], mean=[0.5], scale=[0.01]), rel=1e-4)


def test_whole_turns_change_nothing():
    x, y = torch.randn(20, dtype=torch.float64), torch.randn(20, dtype=torch.float64)
    expected = F.von_mises_nll(x, y, concentration=2.0, reduction="none")
    torch.testing.assert_close(F.von_mises_nll(x + 4 * math.pi, y, concentration=2.0, reduction="none"), expected)


def test_ordinal_is_a_categorical_in_order():
    loc, cutpoints = torch.randn(6, dtype=torch.float64), double([-1.5, 0.0, 0.2, 3.0])
    d = Ordinal(loc, cutpoints)
    classes = torch.arange(5, dtype=torch.float64)[:, None].expand(5, 6)
    mass = d.log_prob(classes).exp()
    torch.testing.assert_close(mass.cumsum(0), d.cdf(classes))
    torch.testing.assert_close(d.mean, (classes * mass).sum(0))
    torch.testing.assert_close(d.variance, (classes.square() * mass).sum(0) - d.mean.square())
    assert (d.cdf(-torch.ones(6)) == 0).all()
    p = double([1e-6, 0.2, 0.5, 0.7, 0.9, 1.0])
    assert (d.cdf(d.icdf(p)) >= p).all()
    assert (d.cdf(d.icdf(p) - 1) < p).all()
    y = torch.tensor([0, 1, 2, 3, 4, 4])
    peer = torch.distributions.Categorical(probs=mass.T)
    np.testing.assert_allclose(crps(y, d, reduction="none"), crps(y, peer, reduction="none"), atol=1e-14)
    samples = d.expand((6,)).sample((40_000,))
    share = (samples == classes[:, None]).double().mean(1)
    assert (share - mass).abs().max() < 0.02
    members = samples.numpy().T
    np.testing.assert_allclose(crps_from_samples(y, members, reduction="none"), crps(y, d, reduction="none"), atol=0.03)
    with pytest.raises(ValueError, match="support"):
        crps([5], Ordinal(loc[:1], cutpoints))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_ordinal_probabilities_do_not_cancel(dtype):
    for low, high in ((-1.0, 1.0), (0.5, 0.5 + 2.0**-20), (-60.0, 60.0), (5.0, 5.25)):
        for x in (-80.0, -3.0, 0.0, 30.0, 80.0):
            cutpoints = torch.tensor([low, high], dtype=dtype, requires_grad=True)
            prediction = torch.tensor(x, dtype=dtype, requires_grad=True)
            nll = F.ordinal_nll(prediction, torch.tensor(1), cutpoints=cutpoints)
            slopes = torch.autograd.grad(nll, [prediction, cutpoints])
            with mpmath.workdps(120):

                def reached(c, x=x):
                    return 1 / (1 + mpmath.exp(x - mpmath.mpf(c)))

                above, below = reached(high), reached(low)
                rise = [reached(c) * (1 - reached(c)) / (above - below) for c in (low, high)]
                expected = [-mpmath.log(above - below), rise[1] - rise[0], rise[0], -rise[1]]
            for got, exact in zip([nll, slopes[0], *slopes[1]], expected, strict=True):
                close = torch.finfo(dtype).eps * (1 + 2.0**20 * (high - low < 1e-3))
                assert got.item() == pytest.approx(float(exact), rel=8 * close, abs=8 * close)


def test_cut_points_are_ordered_wherever_they_come_from():
    constraint = Increasing()
    raw = torch.randn(7, 4, dtype=torch.float64)
    assert (constraint(raw).diff(dim=-1) > 0).all()
    torch.testing.assert_close(constraint.inv(constraint(raw)), raw)
    prediction, target, features = torch.randn(5, 3), torch.randint(0, 4, (5, 3)), torch.randn(5, 2)
    for cutpoints in (likely.Global(3), likely.Global((3, 3)), likely.Data(5, 3), likely.Predicted(2, 3)):
        loss_fn = OrdinalLoss(cutpoints)
        loss = loss_fn(prediction, target, features=features, index=torch.arange(5))
        loss.backward()
        assert loss.isfinite()
        d = loss_fn.distribution(prediction, features=features, index=torch.arange(5))
        assert d.batch_shape == (5, 3)
    start = OrdinalLoss(classes=4).distribution(torch.zeros(4)).log_prob(torch.arange(4.0))
    torch.testing.assert_close(start.exp(), torch.full((4,), 0.25))
    assert LIKELIHOODS["ordinal"].parameter_axes(np.array([0, 3, 1])) == {"cutpoints": (3,)}


def test_ordinal_says_what_is_wrong():
    x, y = torch.zeros(2), torch.tensor([0, 2])
    for wrong, message in (([1.0, 0.0], "increase"), ([0.0], "classes 0 to 1"), (torch.tensor(0.0), "last axis")):
        with pytest.raises(ValueError, match=message):
            F.ordinal_nll(x, y, cutpoints=wrong)
    with pytest.raises(ValueError, match="do not broadcast"):
        F.ordinal_nll(x, y, cutpoints=torch.tensor([0.0, 1.0]).expand(3, 2))
    with pytest.raises(ValueError, match="classes 0 to 2"):
        F.ordinal_nll(x, torch.tensor([0.5, 1.0]), cutpoints=[0.0, 1.0])
    with pytest.raises(ValueError, match="give classes="):
        OrdinalLoss()
    with pytest.raises(ValueError, match="one shorter than the classes"):
        OrdinalLoss([0.0, 1.0], classes=5)
    with pytest.raises(ValueError, match="increase"):
        OrdinalLoss([1.0, 0.0])
    with pytest.raises(ValueError, match="one shorter"):
        OrdinalLoss(1.0)
    with pytest.raises(TypeError, match=r"nn\.Parameter"):
        OrdinalLoss(torch.nn.Parameter(torch.tensor([0.0, 1.0])))


def test_the_quantile_of_a_bernoulli_is_zero_up_to_the_probability_of_zero():
    d = likely.distributions.Bernoulli(
        logits=torch.tensor(math.log(3.0), dtype=torch.float64)
    )  # 0 with probability 1/4
    zero = torch.sigmoid(-d.logits)
    assert d.icdf(torch.stack([zero - 1e-9, zero, zero + 1e-9])).tolist() == [0, 0, 1]


def test_a_bernoulli_starts_at_the_log_odds_of_its_share_even_if_one_row_in_900_differs():
    y = np.zeros((450, 4))
    y[:1, 0] = y[:300, 1] = y[:449, 2] = 1.0
    weight = np.array([1.0, *[2.0] * 448, 3.0])  # the first row is one in 900
    started = LIKELIHOODS["bernoulli"].start(y, weight)
    np.testing.assert_allclose(started[:2], np.log([1 / 899, 599 / 301]), rtol=1e-9)
    opposite = LIKELIHOODS["bernoulli"].start(1 - y, weight)
    np.testing.assert_allclose(opposite, -started, rtol=1e-9)
    assert np.isfinite(started).all()
    assert started[3] < started[0]  # no row at all
