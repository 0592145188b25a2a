"""Lassos, spikes and slabs, and a ridge per group: conditions of optimality, and integrals where they are exact."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import Lasso

from likely._numerics.significance import held_out_gain
from likely._solvers.canonical import canonical
from likely._solvers.design import Design, standardized
from likely._solvers.ridge import Ridge, RidgeEvidence
from likely._solvers.sparse import Slab, Spectrum, Start, lasso_by_validation, reweighted_lasso, solve_lasso, spike_slab
from likely.linear._ridge import relevant
from pairwise import together

Array = Any


def design(n: int = 80, d: int = 12, noise: float = 1.0, seed: int = 0, form: str = "dense") -> Design:
    rng = np.random.default_rng([seed, n, d])
    x = rng.normal(size=(n, d))
    coef = np.where(np.arange(d) < 3, [1.5, -1.0, 0.8, *[0.0] * (d - 3)], 0.0)
    y = x @ coef + noise * rng.normal(size=n)
    weight = rng.integers(1, 4, size=n).astype(float) if "weighted" in form else None
    table = sparse.csr_array(x) if "sparse" in form else x
    return standardized(canonical(table, y, weight), True)


def check_lasso(own: Design, coef: Array, strength: Array | float, tol: float = 1e-4) -> None:
    """The conditions of optimality: the pull of the residuals is the strength at weights, and no more elsewhere."""
    pull, strength = own.pull(coef), np.broadcast_to(strength, len(coef))
    active = coef != 0
    np.testing.assert_allclose(pull[active], (strength * np.sign(coef))[active], rtol=tol, atol=tol * strength.max())
    assert (np.abs(pull) <= strength * (1 + tol) + 1e-9).all()


@together("form", ["dense", "dense weighted", "sparse", "sparse weighted"])
@together("scaled", [False, True])
def test_a_lasso_meets_its_conditions_of_optimality(form: str, scaled: bool) -> None:
    own = design(form=form)
    scale = np.linspace(0.5, 2, 12) if scaled else None
    coef, steps = solve_lasso(own, 20.0, np.zeros(12), 1e-10, scale)
    assert 0 < np.count_nonzero(coef) < 12
    assert steps > 0
    check_lasso(own, coef, 20.0 if scale is None else 20.0 / scale)


@together(("shape", "seed"), [((80, 12), 0), ((30, 60), 0), ((25, 80), 8)])
def test_the_strength_of_a_lasso_is_that_of_least_cross_validation_error(shape: tuple[int, int], seed: int) -> None:
    """On the path of strengths 0.79ᵏ of the largest, as scikit-learn solves it; it ends after four without gain."""
    own = design(*shape, seed=seed)
    n = own.freedom
    margin = 0.25 * math.sqrt(n)
    top = np.abs(own.xy).max()
    least, best, waited = own.yy / n, top, 0
    for k in range(1, 60):
        strength = top * 0.79**k
        fit = Lasso(alpha=strength / len(own.y), fit_intercept=False, tol=1e-12, max_iter=100_000).fit(own.x, own.y)
        active = np.count_nonzero(fit.coef_)
        if waited == 4 or active + margin >= n:
            break
        error = own.residual(fit.coef_) / n / (1 - active / (n - margin)) ** 2
        waited += 1
        if error < least:
            least, best, waited = error, strength, 0
    found = lasso_by_validation(own, tol=1e-6)
    assert found.strength == pytest.approx(best)
    check_lasso(own, found.coef, found.strength, 1e-7)
    count = len(found.active)
    assert 3 <= count < 12
    assert found.noise == pytest.approx(own.residual(found.coef) / (n - count))


@together("unit", [1e-6, 1e6])
def test_the_unit_of_the_target_changes_no_lasso(unit: float) -> None:
    """The path is solved coarsely, and of correlated columns others are then active; the result is exact."""
    rng = np.random.default_rng([0, 60, 60])
    x = rng.normal(size=(60, 60)) + 3 * rng.normal(size=(60, 1))
    y = x[:, :5] @ [1.0, -1.0, 1.0, -1.0, 0.5] + rng.normal(size=60)
    own, other = (standardized(canonical(x, target, None), True) for target in (y, unit * y))
    expected, found = lasso_by_validation(own), lasso_by_validation(other)
    check_lasso(other, found.coef, found.strength, 1e-7)
    np.testing.assert_allclose(found.coef, unit * expected.coef, rtol=1e-6)
    assert found.strength == pytest.approx(unit * expected.strength)
    assert found.noise == pytest.approx(unit**2 * expected.noise)
    assert found.forecast == pytest.approx(unit**2 * expected.forecast)


def test_a_lasso_of_nothing_is_zero() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 3))
    flat = lasso_by_validation(standardized(canonical(x, np.full(40, 2.0), None), True))
    assert not flat.coef.any()
    own = design(noise=1e-9)
    exact = lasso_by_validation(own)
    assert own.residual(exact.coef) < 1e-3 * own.yy
    zero = standardized(canonical(x, rng.normal(size=40), None), True)
    none = lasso_by_validation(zero)
    assert none.noise >= 0.5 * zero.yy / 40


def test_a_scale_per_weight_is_the_mode_of_its_prior() -> None:
    """ε is such that a weight leaves zero at σ√(2 n log d), as noise on d columns would not lift it."""
    own = design(200, 30)
    fit = reweighted_lasso(own, lasso_by_validation(own), max_iter=200)
    assert {0, 1, 2} <= set(own.live[fit.active])
    assert len(fit.active) <= 5
    assert fit.noise == pytest.approx(own.residual(fit.coef) / (own.freedom - len(fit.active)), rel=1e-3)
    assert fit.strength == pytest.approx(3 * fit.noise)
    threshold = math.sqrt(own.rows * 2 * math.log(30) * fit.noise)
    floor = 3 * fit.noise / threshold
    np.testing.assert_allclose(fit.scale, (np.abs(fit.coef) + floor) / 3, rtol=1e-3)
    check_lasso(own, fit.coef, fit.noise / fit.scale, 1e-2)
    # Weights that are not zero are hardly shrunk, unlike those of the plain lasso.
    free = np.linalg.lstsq(own.x[:, fit.active], own.y)[0]
    np.testing.assert_allclose(fit.coef[fit.active], free, atol=0.1)
    again = reweighted_lasso(own, lasso_by_validation(own), concentration=1.5, max_iter=200)
    np.testing.assert_allclose(again.scale, (np.abs(again.coef) + 1.5 * again.noise / threshold) / 1.5, rtol=0.1)


# A spike and a slab.

SLABS = [
    Slab(share=0.3, positive=0.5, mean=0.0, variance=1.0),
    Slab(share=0.6, positive=0.9, mean=2.0, variance=0.3),
    Slab(share=0.2, positive=0.1, mean=1.0, variance=0.05),
]


@together("slab", SLABS)
@together("gamma", [0.5, 4.0])
def test_the_posterior_of_a_spike_and_slab_is_its_integral(slab: Slab, gamma: float) -> None:
    r = np.array([-3.0, -0.7, 0.0, 0.4, 2.5])
    moments = slab.posterior(r, gamma)
    w = np.linspace(-15, 15, 60_001)
    step = w[1] - w[0]
    humps = [
        slab.share * share * np.exp(-0.5 * (w - mean) ** 2 / slab.variance) / math.sqrt(2 * math.pi * slab.variance)
        for share, mean in ((slab.positive, slab.mean), (1 - slab.positive, -slab.mean))
    ]
    total = 0.0
    for position, own in enumerate(r):
        likelihood = np.exp(-0.5 * gamma * (own - w) ** 2)
        plus, minus = (likelihood * hump for hump in humps)
        spike = (1 - slab.share) * math.exp(-0.5 * gamma * own**2)
        mass = step * (plus.sum() + minus.sum()) + spike
        assert moments.plus[position] == pytest.approx(step * plus.sum() / mass)
        assert moments.minus[position] == pytest.approx(step * minus.sum() / mass)
        mean = step * (w * (plus + minus)).sum() / mass
        assert moments.mean[position] == pytest.approx(mean, abs=1e-9)
        assert moments.variance[position] == pytest.approx(step * (w**2 * (plus + minus)).sum() / mass - mean**2)
        assert moments.up[position] == pytest.approx((w * plus).sum() / plus.sum())
        assert moments.down[position] == pytest.approx((w * minus).sum() / minus.sum())
        total += math.log(mass)
    assert moments.log_evidence == pytest.approx(total)
    np.testing.assert_allclose(moments.inclusion, moments.plus + moments.minus)


def test_a_slab_is_learned_from_weights_and_from_two_more_of_either_sign() -> None:
    weights = np.array([2.0, 2.2, -2.1, 0.0, 0.0])
    slab = Slab(0.5, 0.5, 2.0, 0.1).posterior(weights, 1e9).slab()
    sizes = np.array([2.0, 2.2, 2.1])
    assert slab.share == pytest.approx(3 / 5)
    assert slab.positive == pytest.approx((2 + 1) / 5)
    assert slab.mean == pytest.approx(sizes.sum() / 5, rel=1e-6)
    second = (sizes**2).mean()
    assert slab.variance == pytest.approx((((sizes - slab.mean) ** 2).sum() + 2 * second) / 5, rel=1e-6)
    # Neither none nor all: half a weight is, or is not.
    assert Slab(0.5, 0.5, 2.0, 0.1).posterior(np.zeros(5), 1e9).slab().share == pytest.approx(0.1)
    assert Slab(0.5, 0.5, 2.0, 0.1).posterior(np.full(5, 2.0), 1e9).slab().share == pytest.approx(0.9)


def test_a_slab_is_learned_from_uncertain_weights() -> None:
    rng = np.random.default_rng(0)
    truth = Slab(share=0.3, positive=0.8, mean=2.0, variance=0.25)
    there, sign = rng.random(100_000) < 0.3, np.where(rng.random(100_000) < 0.8, 1, -1)
    weights = there * sign * rng.normal(2.0, 0.5, size=100_000)
    slab = truth.posterior(weights + rng.normal(size=100_000) / 2, 4.0).slab()  # one step from the truth stays there
    assert slab.share == pytest.approx(0.3, rel=0.03)
    assert slab.positive == pytest.approx(0.8, rel=0.03)
    assert slab.mean == pytest.approx(2.0, rel=0.03)
    assert slab.variance == pytest.approx(0.25, rel=0.05)


@together("shape", [(40, 6), (8, 20)])
def test_a_spectrum_solves_for_any_ridge(shape: tuple[int, int]) -> None:
    own = design(*shape)
    spectrum = Spectrum(own)
    bend = np.random.default_rng(1).normal(size=shape[1])
    for noise, ridge in ((0.5, 3.0), (2.0, 0.1)):
        matrix = own.x.T @ own.x / noise + ridge * np.eye(shape[1])
        np.testing.assert_allclose(spectrum.solve(noise, ridge, bend), np.linalg.solve(matrix, bend), rtol=1e-7)
    every = np.append(spectrum.values, np.zeros(spectrum.unseen))
    np.testing.assert_allclose(np.sort(every), np.linalg.eigvalsh(own.x.T @ own.x), atol=1e-8)


def test_a_blank_start_explains_all_but_a_hundredth_of_the_target() -> None:
    for shape in ((80, 12), (20, 60)):
        own = design(*shape)
        start = Start.blank(own, 0.3, 0.9)
        share = 0.3 * min(1.0, own.freedom / shape[1])
        assert start.slab.share == pytest.approx(share)
        assert start.noise * own.freedom == pytest.approx(own.yy / 101)
        power = start.slab.mean**2 + start.slab.variance
        assert own.rows * shape[1] * share * power + start.noise * own.freedom == pytest.approx(own.yy)
        assert start.slab.mean == pytest.approx(0.9 * math.sqrt(power))
        assert start.slab.positive == 0.5
        assert not start.r1.any()
        assert start.gamma1 * share * power == pytest.approx(1e-3)


def test_a_start_from_weights_has_their_slab() -> None:
    own = design(40, 5)
    start = Start.from_weights(own, np.array([1.0, -3.0, 0.0, 0.0, 2.0]), 0.5)
    assert start.slab == Slab(0.6, 2 / 3, 2.0, pytest.approx(2 / 3))
    assert start.noise == 0.5
    assert start.gamma1 == pytest.approx(0.5 * 40 / 0.5)
    alike = Start.from_weights(own, np.array([1.0, 1.0, 1.0, 1.0, 1.0]), 0.5).slab
    assert alike == Slab(0.9, 1.0, 1.0, pytest.approx(0.01))


def test_where_columns_are_orthogonal_the_posterior_and_its_evidence_are_exact() -> None:
    rng = np.random.default_rng(2)
    n, d = 64, 16
    raw = np.linalg.qr(np.column_stack([np.ones(n), rng.normal(size=(n, d))]))[0][:, 1:] * math.sqrt(n)
    coef = np.where(np.arange(d) < 6, 2.0 * (-1.0) ** np.arange(d) + 0.1 * rng.normal(size=d), 0.0)
    own = standardized(canonical(raw, raw @ coef + 0.7 * rng.normal(size=n), None), True)
    fit = spike_slab(own, Spectrum(own), tol=1e-9, max_iter=2000)
    assert fit.converged
    free = own.xy / n
    exact = fit.slab.posterior(free, n / fit.noise)
    np.testing.assert_allclose(fit.moments.mean, exact.mean, atol=1e-6)
    np.testing.assert_allclose(fit.moments.inclusion, exact.inclusion, atol=1e-6)
    np.testing.assert_allclose(fit.moments.variance.mean(), exact.variance.mean(), rtol=1e-4)
    left = own.residual(exact.mean) + n * exact.variance.sum()
    assert fit.noise == pytest.approx(left / own.freedom, rel=1e-3)
    by_rows = own.freedom * math.log(2 * math.pi * fit.noise) + (own.yy - free @ own.xy) / fit.noise
    assert fit.evidence == pytest.approx(exact.log_evidence - 0.5 * by_rows, rel=1e-6)
    assert fit.slab.share == pytest.approx(6 / 16, abs=0.05)
    assert fit.slab.mean == pytest.approx(2.0 * 6 / 8, rel=0.1)  # two weights of zero count too


def test_few_weights_of_many_are_found_below_the_number_of_columns() -> None:
    rng = np.random.default_rng(3)
    n, d = 60, 120
    x = rng.normal(size=(n, d))
    coef = np.where(np.arange(d) < 8, rng.choice([-1.0, 1.0], size=d), 0.0)
    own = standardized(canonical(x, x @ coef + 0.05 * rng.normal(size=n), None), True)
    fit = spike_slab(own, Spectrum(own))
    assert fit.converged
    np.testing.assert_array_equal(np.sort(own.live[fit.moments.inclusion > 0.5]), np.arange(8))
    full, _ = own.restored(fit.moments.mean)
    np.testing.assert_allclose(full, coef, atol=0.1)
    assert fit.noise == pytest.approx(0.05**2, rel=1.0)
    known = spike_slab(own, Spectrum(own), start=Start.from_weights(own, own.restored(np.eye(1, d)[0])[0] * 0 + 1, 1.0))
    assert known.n_iter > 0
    stopped = spike_slab(own, Spectrum(own), max_iter=3)
    assert not stopped.converged
    assert stopped.n_iter == 3
    assert stopped.evidence == -math.inf


# Ridges.


@together("shape", [(40, 5), (9, 20)])
@together("learn_mean", [False, True])
def test_the_evidence_of_a_ridge_is_that_of_normal_rows(shape: tuple[int, int], learn_mean: bool) -> None:
    n, d = shape
    own = design(n, d)
    evidence = RidgeEvidence(own, learn_mean)
    for penalty in (0.3, 20.0):
        strength = evidence.at(penalty)
        covariance = np.eye(n) + own.x @ own.x.T / penalty
        inverse = np.linalg.inv(covariance)
        ones = own.x.sum(1)
        mean = (ones @ inverse @ own.y) / (ones @ inverse @ ones) if learn_mean else 0.0
        left = own.y - mean * ones
        noise = left @ inverse @ left / own.freedom
        assert strength.prior_mean == pytest.approx(mean)
        assert strength.noise == pytest.approx(noise)
        volume = np.linalg.slogdet(covariance)[1]
        expected = -0.5 * (own.freedom * (math.log(2 * math.pi * noise) + 1) + volume)
        assert strength.log_evidence == pytest.approx(expected)
    best = evidence.best()
    near = [evidence.at(best.penalty * factor).log_evidence for factor in np.geomspace(1e-3, 1e3, 61)]
    assert best.log_evidence >= max(near) - 1e-6
    assert best.penalty == evidence.at(best.penalty).penalty


def test_the_cost_of_a_precision_is_volume_and_spread() -> None:
    values = np.array([0.0, 1.0, 30.0])
    expected = 0.5 * math.log(1 + 1 / 2) + 0.5 * math.log(1 + 15) + 8 * math.sqrt(5 / 2)
    assert Ridge(5.0, 8.0).cost(values, 2.0) == pytest.approx(expected)
    assert Ridge(5.0).cost(values, 2.0) == pytest.approx(expected - 8 * math.sqrt(5 / 2))


def log_evidence(own: Design, variance: Array, noise: float) -> float:
    """Of rows whose weights are integrated out, in the degrees of freedom that the intercept leaves."""
    some = variance > 0
    gram = own.x[:, some].T @ own.x[:, some]
    precision = gram / noise + np.diag(1 / variance[some])
    pull = own.xy[some] / noise
    volume = np.linalg.slogdet(precision)[1] + np.log(variance[some]).sum()
    squares = own.yy / noise - pull @ np.linalg.solve(precision, pull)
    return -0.5 * (own.freedom * math.log(2 * math.pi * noise) + volume + squares)


@together("effect", [0.05, 0.15, 0.2, 0.25, 0.3])
def test_a_variance_per_group_is_kept_where_the_evidence_pays_for_it(effect: float) -> None:
    rng = np.random.default_rng(4)
    n, group = 120, np.repeat(np.arange(6), 2)
    x = rng.normal(size=(n, 12))
    coef = np.array([1.0, -0.7, 0.5, 0.4, 3.0, 2.0, effect, effect, 0, 0, 0, 0])
    own = standardized(canonical(x, x @ coef + rng.normal(size=n), None), True)
    group = group[own.live]
    fit = relevant(own, group, max_iter=500, tol=1e-7)
    price = 0.5 * math.log(own.rows * 6)
    kept = np.unique(group[fit.variance > 0])
    assert {0, 2} <= set(kept)
    assert len(kept) < 6
    np.testing.assert_array_equal(fit.active, np.flatnonzero(fit.variance > 0))
    columns = own.x[:, fit.active]
    covariance = np.linalg.inv(columns.T @ columns / fit.noise + np.diag(1 / fit.variance[fit.active]))
    np.testing.assert_allclose(fit.coef[fit.active], covariance @ own.xy[fit.active] / fit.noise, rtol=1e-5)
    assert not fit.coef[fit.variance == 0].any()
    determined = 1 - covariance.diagonal() / fit.variance[fit.active]
    assert fit.noise == pytest.approx(own.residual(fit.coef) / (own.freedom - determined.sum()), rel=1e-4)
    whole = log_evidence(own, fit.variance, fit.noise)
    for one in kept:
        members = group[fit.active] == one
        assert np.ptp(fit.variance[group == one]) == 0
        square = (fit.coef[fit.active][members] ** 2).sum()
        assert fit.variance[group == one][0] == pytest.approx(square / determined[members].sum(), rel=1e-4)
        without = log_evidence(own, np.where(group == one, 0.0, fit.variance), fit.noise)
        assert whole - without >= price
    for one in set(range(6)) - set(kept):
        more = [
            log_evidence(own, np.where(group == one, v, fit.variance), fit.noise) for v in np.geomspace(1e-4, 1, 20)
        ]
        assert max(more) - whole < price + 0.3


def test_groups_without_any_effect_leave_the_noise_of_the_target() -> None:
    rng = np.random.default_rng(5)
    own = standardized(canonical(rng.normal(size=(50, 4)), rng.normal(size=50), None), True)
    fit = relevant(own, np.zeros(4, dtype=int), max_iter=100, tol=1e-5)
    assert not fit.coef.any()
    assert fit.noise == pytest.approx(own.yy / own.freedom)
    assert not fit.variance.any()


def test_a_gain_of_held_out_rows_and_its_standard_error() -> None:
    gain, weight = np.array([0.4, -0.2, 0.3, 0.7]), np.array([1.0, 2.0, 3.0, 0.0])
    found, repeated = held_out_gain(gain, weight), held_out_gain(np.repeat(gain, weight.astype(int)))
    assert found == pytest.approx(repeated)
    values = np.array([0.4, -0.2, -0.2, 0.3, 0.3, 0.3])
    assert found.total == pytest.approx(values.sum())
    assert found.error == pytest.approx(values.std() * math.sqrt(6))
    assert found.sure(2.0) == pytest.approx(found.total - 2 * found.error)
    assert found.errors == pytest.approx(found.total / found.error)
    assert held_out_gain(np.array([0.5, 0.5])).errors == math.inf
    assert held_out_gain(np.array([-0.5, -0.5])).errors == -math.inf
