"""The evidence solver where losses are no parabolas: counts whose rate is the exponential of a line."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from likely._rows.blocks import Rows
from likely._solvers.evidence import fit_linear
from pairwise import together

Array = Any


def counts(n: int, d: int, *, level: float = 1.0, effect: float = 0.4, extra: float = 0.0) -> tuple[Array, Array]:
    """Columns of any unit, and counts that vary ``extra`` times more than Poisson's."""
    rng = np.random.default_rng([n, d])
    x = rng.normal(size=(n, d)) * rng.uniform(0.1, 10, d) + 5
    slopes = effect * np.where(np.arange(d) < 4, rng.normal(size=d), 0.0)
    rate = level * np.exp(((x - x.mean(0)) / x.std(0)) @ slopes)
    return x, rng.poisson(rate * (rng.gamma(1 / extra, extra, size=n) if extra else 1.0)).astype(float)


def poisson(y: Array, base: float = 1.0) -> Any:
    """The loss of rates that are ``base`` times the exponential of u; the evidence compares lines with u = 0."""
    target = torch.as_tensor(y)

    def evaluate(rows: Any, u: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        rate, own = base * u.exp(), target[rows].to(u)
        return rate - own * u, rate - own, rate

    return evaluate


def standardized(x: Array) -> Array:
    return (x - x.mean(0)) / x.std(0)


@together(("n", "d", "level"), [(150, 5, 1.0), (150, 5, 60.0), (12, 20, 3.0), (10, 10, 3.0)])
def test_a_penalised_fit_is_the_minimum_wherever_it_starts(n: int, d: int, level: float) -> None:
    """At a level of sixty the first step from a rate of one overshoots by far."""
    x, y = counts(n, d, level=level)
    z = standardized(x)

    def cost(theta: Array) -> tuple[float, Array]:
        u = theta[0] + z @ theta[1:]
        slope = np.exp(u) - y
        total = (np.exp(u) - y * u).sum() + 0.5 * 3.0 * theta[1:] @ theta[1:]
        return float(total), np.append(slope.sum(), z.T @ slope + 3.0 * theta[1:])

    best = minimize(cost, np.append(math.log(y.mean()), np.zeros(d)), jac=True, options={"gtol": 1e-8}).x
    fit = fit_linear(Rows(x), poisson(y), penalty=3.0, tol=1e-12, max_iter=200)
    np.testing.assert_allclose(fit.coef, best[1:], atol=1e-4)
    assert fit.intercept == pytest.approx(best[0], abs=1e-4)
    assert fit.precision == 3.0
    assert 2 < fit.n_iter < 60
    np.testing.assert_allclose(fit(torch.as_tensor(x)).numpy(), best[0] + z @ best[1:], atol=1e-3)
    short = fit_linear(Rows(x), poisson(y), penalty=3.0, max_iter=2)
    assert short.n_iter == 2


def test_the_first_step_is_newtons_from_no_line_at_all() -> None:
    """At u = 0 every rate is one, so that the curvature is that of least squares."""
    x, y = counts(150, 5, level=3.0)
    z = standardized(x)
    step = fit_linear(Rows(x), poisson(y), penalty=3.0, max_iter=1)
    np.testing.assert_allclose(step.coef, np.linalg.solve(z.T @ z + 3.0 * np.eye(5), z.T @ y), rtol=1e-6)
    assert step.intercept == pytest.approx(y.mean() - 1)
    assert step.n_iter == 1


@together("rate", [0.0, 4.0])
@together("extra", [0.0, 0.5])
def test_the_precision_meets_mackays_condition(rate: float, extra: float) -> None:
    """λ|w|² is the number of weights that the rows determine, and what a unit of spread costs.

    Where slopes vary more than the curvature says, all losses are divided by the excess.
    """
    x, y = counts(600, 8, level=3.0, extra=extra)
    z = standardized(x)
    fit = fit_linear(Rows(x), poisson(y, y.mean()), rate=rate, tol=1e-12, max_iter=200)
    mean = y.mean() * np.exp(fit.intercept + z @ fit.coef)
    dispersion = max(1.0, ((mean - y) ** 2).sum() / mean.sum())
    assert (dispersion > 1.5) == (extra > 0)
    cross = z.T @ mean
    hessian = (z.T @ (mean[:, None] * z) - np.outer(cross, cross) / mean.sum()) / dispersion
    values = np.linalg.eigvalsh(hessian)
    determined = (values / (values + fit.precision)).sum()
    price = rate * math.sqrt(8 / fit.precision)
    assert fit.precision * fit.coef @ fit.coef == pytest.approx(determined + price, rel=0.05)
    slope = z.T @ (mean - y) / dispersion + fit.precision * fit.coef
    assert np.abs(slope).max() < 0.1 * np.abs(z.T @ (y - y.mean()) / dispersion).max()
    assert (mean - y).sum() == pytest.approx(0, abs=1e-3 * y.sum())


def test_believing_in_the_losses_follows_noise_that_dividing_them_does_not() -> None:
    x, y = counts(300, 60, level=3.0, effect=0.0, extra=0.8)
    quasi = fit_linear(Rows(x), poisson(y, y.mean()))
    believed = fit_linear(Rows(x), poisson(y, y.mean()), quasi=False)
    assert np.abs(believed.coef).sum() > 5 * np.abs(quasi.coef).sum()
    assert not quasi.coef.any() or quasi.precision > 3 * believed.precision


def test_a_line_is_kept_only_if_the_losses_pay_for_it() -> None:
    """The gain of the penalised loss over no line at all exceeds the cost of the precision, or there is no line."""
    kept = []
    for effect in np.linspace(0.0, 0.12, 7):
        x, y = counts(300, 4, level=3.0, effect=effect)
        fit = fit_linear(Rows(x), poisson(y, y.mean()), quasi=False, rate=2.0, tol=1e-10)
        kept.append(bool(fit.coef.any()))
        assert math.isfinite(fit.precision) == kept[-1]
        z = standardized(x)
        mean = y.mean() * np.exp(fit.intercept + z @ fit.coef)
        if kept[-1]:
            cross = z.T @ mean
            values = np.linalg.eigvalsh(z.T @ (mean[:, None] * z) - np.outer(cross, cross) / mean.sum())
            cost = 0.5 * np.log1p(values / fit.precision).sum() + 2.0 * math.sqrt(4 / fit.precision)
            base = np.full(300, y.mean())
            gain = (base - y * np.log(base)).sum() - (mean - y * np.log(mean)).sum()
            assert gain - 0.5 * fit.precision * fit.coef @ fit.coef > cost - 1.0
    assert not kept[0]
    assert kept[-1]


def test_weights_count_rows_in_the_evidence_too() -> None:
    x, y = counts(200, 4, level=3.0)
    weight = np.random.default_rng(0).integers(0, 4, 200)
    repeated = fit_linear(Rows(np.repeat(x, weight, 0)), poisson(np.repeat(y, weight), 3.0), rate=1.0, tol=1e-10)
    weighted = fit_linear(Rows(x), poisson(y, 3.0), rate=1.0, tol=1e-10, sample_weight=weight.astype(float))
    np.testing.assert_allclose(weighted.coef, repeated.coef, rtol=1e-4)
    assert weighted.precision == pytest.approx(repeated.precision, rel=1e-3)
