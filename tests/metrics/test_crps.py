import math
from typing import ClassVar

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from torch import distributions as td

from likely.distributions import Huber, Robust, StudentT
from likely.metrics import brier_score, crps, crps_from_quantiles, crps_from_samples
from likely.metrics._scores import _by_quadrature
from metrics.examples import forecasts
from pairwise import together


def double(value):
    return torch.tensor(value, dtype=torch.float64)


def standard(kind, shape):
    if kind in (td.Normal, td.Laplace):
        return kind(double([0.0]), double([1.0]))
    return kind(double([shape]), double([0.0]), double([1.0]))


CONTINUOUS = [
    (td.Normal, None),
    (td.Laplace, None),
    *((StudentT, df) for df in (0.8, 1.0, 1 + 1e-6, 1.001, 2.0, 4.0, 50.0)),
    *((Huber, delta) for delta in (0.05, 0.5, 1.345, 5.0, 60.0)),
    *((Robust, alpha) for alpha in (0.0, 0.02, 0.5, 1.0, 1.5, 1.999, 2.0, 2.001, 3.0, 8.0)),
]
TARGETS = [0.0, 0.05, -0.7, 1.345, 4.0, -60.0]


def integrated(d, targets):
    """∫(F - [z ≤ x])² dx on a fine grid in sinh⁻¹ x; F itself is summed from the density, on the same grid."""
    v, step = np.linspace(0, 80 if isinstance(d, StudentT) else 41, 400_001, retstep=True)
    x = np.sinh(v)
    density = d.log_prob(torch.from_numpy(x)).exp().numpy() * np.cosh(v)
    tail = integrate.cumulative_simpson(density[::-1], dx=step, initial=0)[::-1]
    both = 2 * integrate.simpson(tail**2 * np.cosh(v), dx=step)
    for z in targets:
        # From -|z| to |z| the square is (1 - tail)² on one side: 1 - 2 tail more than tail².
        u = np.linspace(0, math.asinh(abs(z)), 20_001)
        exact = d.log_prob(torch.from_numpy(np.sinh(u))).exp().numpy() * np.cosh(u)
        inner = 0.5 - integrate.cumulative_simpson(exact, x=u, initial=0) if z else 0
        yield both + (integrate.simpson((1 - 2 * inner) * np.cosh(u), x=u) if z else 0)


@together(("kind", "shape"), CONTINUOUS)
def test_is_the_integral_it_is_defined_by(kind, shape):
    d = standard(kind, shape)
    for z, expected in zip(TARGETS, integrated(d, TARGETS), strict=True):
        assert crps([z], d) == pytest.approx(expected, rel=1e-8, abs=1e-8)


@together(("kind", "shape"), CONTINUOUS)
def test_moves_and_stretches_with_the_distribution(kind, shape):
    d = standard(kind, shape)
    names = {StudentT: ["df"], Huber: ["delta"], Robust: ["alpha"]}.get(kind, [])
    moved = kind(*(getattr(d, name) for name in names), double([3.0]), double([0.2]))
    for z in TARGETS:
        assert crps([3 + 0.2 * z], moved) == pytest.approx(0.2 * crps([z], d), rel=1e-10)


def test_limits_of_the_families():
    z = np.linspace(-4, 4, 9)

    def rows(d):
        return crps(z, d, reduction="none")

    zero, one = torch.zeros(9, dtype=torch.float64), torch.ones(9, dtype=torch.float64)
    normal = rows(td.Normal(zero, one))
    np.testing.assert_allclose(rows(Robust(2 * one, zero, one)), normal, atol=1e-13)
    np.testing.assert_allclose(rows(Huber(50 * one, zero, one)), normal, atol=1e-13)
    np.testing.assert_allclose(rows(StudentT(1e9 * one, zero, one)), normal, atol=1e-8)
    np.testing.assert_allclose(rows(Robust(zero, zero, one)), rows(StudentT(one, zero, math.sqrt(2) * one)), atol=1e-12)
    np.testing.assert_allclose(rows(Huber(1e-4 * one, zero, 1e-4 * one)), rows(td.Laplace(zero, one)), atol=1e-6)
    assert crps([1.0], StudentT(double([0.5]), double([0.0]), double([1.0]))) == math.inf
    far = Robust(double([0.0, 1.0, 2.0, 3.0]), zero[:4], one[:4])
    np.testing.assert_allclose(crps([1e300] * 4, far, reduction="none"), 1e300)


def of_counts(mass, y, top):
    k = np.arange(top)
    return np.square(np.cumsum(mass(k)) - (k >= y)).sum()


@pytest.mark.parametrize("rate", [0.0, 1e-6, 0.3, 4.0, 300.0])
def test_poisson_is_its_sum(rate):
    d = td.Poisson(double([rate]), validate_args=False)
    for y in (0, 1, 7, 400):
        expected = of_counts(lambda k: stats.poisson.pmf(k, rate), y, 1500)
        assert crps([y], d) == pytest.approx(expected, abs=1e-9)


@together("mean", [0.01, 2.0, 150.0])
@together("dispersion", [1e-4, 0.1, 1.0, 10.0])
def test_negative_binomial_is_its_sum(mean, dispersion):
    d = td.NegativeBinomial(double([1 / dispersion]), logits=double([math.log(mean * dispersion)]))
    for y in (0, 1, 7, 400):
        success = 1 / (1 + mean * dispersion)
        expected = of_counts(lambda k: stats.nbinom.pmf(k, 1 / dispersion, success), y, 60_000)  # noqa: B023
        assert crps([y], d) == pytest.approx(expected, rel=1e-9, abs=1e-10)


def test_negative_binomial_without_dispersion_is_poisson():
    d = td.NegativeBinomial(double([1e12]), logits=double([math.log(4e-12)]))
    for y in (0, 4, 9):
        assert crps([y], d) == pytest.approx(crps([y], td.Poisson(double([4.0]))), abs=1e-9)


def test_classes():
    p = np.array([0.2, 0.7, 1.0])
    assert crps([0, 1, 1], td.Bernoulli(torch.tensor(p))) == pytest.approx(brier_score([0, 1, 1], p))
    ranked = td.Categorical(probs=double([[0.2, 0.5, 0.3]]))
    assert crps([2], ranked) == pytest.approx(0.2**2 + 0.7**2)
    assert crps([0], ranked) == pytest.approx(0.8**2 + 0.3**2)


def test_peers_agree():
    y, mean, scale = forecasts()
    loc, width = torch.tensor(mean), torch.tensor(scale)
    # properscoring 0.1 and uncertainty-toolbox 0.1.1: crps_gaussian.
    assert crps(y, mean=mean, scale=scale) == pytest.approx(0.5085402659016378, abs=1e-14)
    # scoringrules 0.10.0: crps_t(df=5), crps_laplace, crps_gamma(2, 1), crps_uniform(mean ± 1).
    assert crps(y, td.StudentT(double(5.0), loc, width)) == pytest.approx(0.5029093017972007, abs=1e-13)
    assert crps(y, td.Laplace(loc, width)) == pytest.approx(0.5058047916276036, abs=1e-13)
    assert crps(y, td.Gamma(double([2.0] * 50), double([1.0] * 50))) == pytest.approx(1.5271606874755577, abs=1e-9)
    assert crps(y, td.Uniform(loc - 1, loc + 1)) == pytest.approx(0.5026271802992719, abs=1e-6)
    # scoringrules 0.10.0: crps_ensemble, its fair estimator, crps_quantile; properscoring has the first too.
    members = mean[:, None] + scale[:, None] * np.linspace(-2, 2, 9)
    assert crps_from_samples(y, members) == pytest.approx(0.4932970947182443, abs=1e-14)
    assert crps_from_samples(y, members, fair=True) == pytest.approx(0.4285169933314678, abs=1e-14)
    levels = (np.arange(9) + 0.5) / 9
    assert crps_from_quantiles(y, members, levels) == pytest.approx(0.4932970947182442, abs=1e-14)


def test_quadrature_finds_what_the_formula_knows():
    y = np.array([-50.0, -0.2, 0.0, 1.5, 1e6])
    zero, one = torch.zeros(5, dtype=torch.float64), torch.ones(5, dtype=torch.float64)
    for d in (td.Normal(zero, one), td.Normal(zero + 5, 1e-3 * one), td.Laplace(zero, one), StudentT(one, zero, one)):
        np.testing.assert_allclose(_by_quadrature(d, y), crps(y, d, reduction="none"), rtol=1e-10)
    y, mean, scale = forecasts()
    loc, width = torch.tensor(mean), torch.tensor(scale)
    twice = td.MixtureSameFamily(
        td.Categorical(torch.ones(50, 2)), td.Normal(torch.stack([loc] * 2, 1), torch.stack([width] * 2, 1))
    )
    assert crps(y, twice) == pytest.approx(crps(y, mean=mean, scale=scale), abs=1e-9)
    small = td.TransformedDistribution(td.Laplace(loc.float(), width.float()), td.AffineTransform(0.0, 1e-4))
    assert crps(1e-4 * y, small) == pytest.approx(1e-4 * crps(y, td.Laplace(loc, width)), rel=1e-6)


def test_a_distribution_may_know_its_own():
    class Point(td.Distribution):
        arg_constraints: ClassVar = {}
        support = td.constraints.real

        def crps(self, value):
            return value.abs()

    assert crps([1.0, -3.0], Point(torch.Size([2]), validate_args=False)) == 2


def test_a_subclass_is_judged_by_its_own_cdf():
    class Folded(td.Normal):
        def cdf(self, value):
            return torch.where(value < 0, 0.0, super().cdf(value) - super().cdf(-value))

        def icdf(self, value):
            return super().icdf(0.5 + 0.5 * value)

    d = Folded(double([0.0]), double([1.0]))
    assert crps([0.3], d) == pytest.approx(crps([0.3], td.HalfNormal(double([1.0]))), abs=1e-8)


def test_samples_approach_the_distribution():
    draw = np.random.default_rng(0)
    members = draw.normal(size=(2000, 5))
    y = np.full(2000, 0.4)
    exact = crps([0.4], mean=[0.0], scale=1.0)
    fair = crps_from_samples(y, members, fair=True, reduction="none")
    assert abs(fair.mean() - exact) < 4 * fair.std() / math.sqrt(2000)
    # The plain form is larger by E|X - X'| / 2m, for normals 1/(m√π).
    assert crps_from_samples(y, members) - fair.mean() == pytest.approx(1 / (5 * math.sqrt(math.pi)), abs=0.01)
    assert crps_from_samples([1.0], [[3.0]]) == 2


def test_quantiles_approach_the_distribution():
    levels = (np.arange(2000) + 0.5) / 2000
    q = stats.norm.ppf(levels)
    assert crps_from_quantiles([0.4], q[None], levels) == pytest.approx(crps([0.4], mean=[0.0], scale=1.0), abs=1e-4)
    # The median alone is the absolute error.
    assert crps_from_quantiles([0.4], [[1.0]], [0.5]) == pytest.approx(0.6)


def test_a_transform_beside_its_inverse_is_no_endless_loop() -> None:
    """Gumbel's transforms hold each other; its CRPS is known (Jordan et al. 2019), here by samples."""
    gumbel = torch.distributions.Gumbel(torch.zeros(3), torch.ones(3))
    y = np.array([-1.0, 0.0, 2.0])
    draws = np.random.default_rng(0).gumbel(size=(1, 20_000)).repeat(3, 0)
    np.testing.assert_allclose(
        crps(y, gumbel, reduction="none"), crps_from_samples(y, draws, reduction="none"), atol=0.02
    )
