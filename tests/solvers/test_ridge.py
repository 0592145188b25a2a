"""The strength of most evidence: against a dense grid, against MacKay's condition, and where there is nothing."""

import math

import numpy as np
import pytest
import torch

from likely._solvers.canonical import canonical
from likely._solvers.design import standardized
from likely._solvers.ridge import Groups, Ridge, RidgeEvidence, lowest_on, settled_log_scale
from likely.linear._ridge import relevant


def design(effect: float = 1.0, n: int = 80, d: int = 6, seed: int = 0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    return standardized(canonical(x, effect * x[:, :2].sum(1) + rng.normal(size=n), None), fit_intercept=True)


def test_the_lowest_point_is_polished_inside_the_grid_and_kept_at_its_ends() -> None:
    grid = np.linspace(-3, 3, 7)
    assert lowest_on(lambda x: (x - 0.3) ** 2, grid) == pytest.approx(0.3, abs=1e-5)
    assert lowest_on(lambda x: x, grid) == -3
    assert lowest_on(lambda x: -x, grid) == 3


@pytest.mark.parametrize("rate", [0.0, 8.0])
def test_a_ridge_meets_the_best_of_a_dense_grid(rate: float) -> None:
    rng = np.random.default_rng(0)
    values, response = 100 * rng.uniform(size=5), 30 * rng.normal(size=5)
    ridge = Ridge(5.0, rate)

    def loss(precision: float) -> float:
        return ridge.cost(values, precision) - 0.5 * float((response**2 / (values + precision)).sum())

    dense = min(loss(x) for x in np.geomspace(1e-4, 1e6, 4000))
    assert loss(ridge.best(values, response)) == pytest.approx(dense, abs=1e-3)
    nearby = ridge.best(values, response, around=1e3, radius=0.5)
    assert 1e3 * math.exp(-0.5) <= nearby <= 1e3 * math.exp(0.5)


def test_a_response_of_noise_or_none_has_no_finite_precision() -> None:
    assert Ridge(4.0, 8.0).best(np.full(4, 50.0), np.full(4, 5.0)) == math.inf
    assert Ridge(4.0).best(np.zeros(4), np.zeros(4)) == math.inf


def test_noise_and_strength_have_the_most_evidence() -> None:
    table = design()
    best = RidgeEvidence(table).best()
    n, x, y = table.freedom, table.x, table.y

    def log_evidence(noise: float, penalty: float) -> float:
        """Of normal rows whose weights are integrated out, in n - 1 degrees of freedom."""
        gram = x.T @ x
        residual = y @ y - y @ x @ np.linalg.solve(gram + penalty * np.eye(len(gram)), x.T @ y)
        volume = np.linalg.slogdet(np.eye(len(gram)) + gram / penalty)[1]
        return -0.5 * (n * math.log(2 * math.pi * noise) + residual / noise + volume)

    top = log_evidence(best.noise, best.penalty)
    assert top == pytest.approx(best.log_evidence, rel=1e-9)
    for factor in (0.9, 1.1):
        assert log_evidence(best.noise * factor, best.penalty) < top
        assert log_evidence(best.noise, best.penalty * factor) < top


def test_relevance_keeps_the_groups_that_matter() -> None:
    table = design()
    fit = relevant(table, np.arange(6), max_iter=100, tol=1e-3)
    np.testing.assert_array_equal(np.sort(table.live[fit.active]), [0, 1])
    assert (fit.coef != 0).sum() == (fit.variance > 0).sum() == 2
    assert fit.noise == pytest.approx(1.0, rel=0.4)
    nothing = relevant(design(effect=0.0), np.arange(6), max_iter=100, tol=1e-3)
    assert not nothing.coef.any()


def groups_of_columns(*, max_iter: int = 500, tol: float = 1e-9, scales_count: bool = True) -> Groups:
    """Of three, two and one column, all with an effect."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 6))
    y = x @ [1.0, -0.8, 0.6, 0.5, 0.4, 0.4] + rng.normal(size=80)
    table = standardized(canonical(x, y, None), fit_intercept=True)
    group = np.array([0, 0, 0, 1, 1, 2])[table.live]
    return Groups(table, group, np.ones(3), 1.0, max_iter, tol, scales_count=scales_count)


@pytest.mark.parametrize("scales_count", [False, True])
def test_settled_groups_meet_mackays_conditions(scales_count: bool) -> None:
    """A scale is a parameter as a weight is, and like a weight it uses no more than one degree of freedom."""
    groups = groups_of_columns(scales_count=scales_count)
    groups.settle()
    active, mean, covariance = groups.weights()
    determined = 1 - covariance.diagonal() / groups.variance[groups.group[active]]
    gamma, square = (np.bincount(groups.group[active], each, 3) for each in (determined, mean**2))
    assert gamma.min() < 1 < gamma.max()
    np.testing.assert_allclose(groups.variance, square / gamma, rtol=1e-6)
    unused = groups.design.freedom - gamma.sum() - (np.minimum(gamma, 1).sum() if scales_count else 0)
    assert groups.unused == pytest.approx(unused, rel=1e-6)
    coef = np.zeros(6)
    coef[active] = mean
    assert groups.noise == pytest.approx(groups.design.residual(coef) / unused, rel=1e-6)


@pytest.mark.parametrize("tol", [1e-2, 1e-4])
def test_groups_stop_when_nothing_changes_by_more_than_ten_times_the_tolerance(tol: float) -> None:
    settled, slow = groups_of_columns(tol=tol), groups_of_columns(max_iter=1)
    settled.settle()
    moved = []
    for _ in range(settled.n_iter):
        before = np.log(np.append(slow.variance, slow.noise))
        slow.settle()
        moved.append(np.abs(np.log(np.append(slow.variance, slow.noise)) - before).max())
    np.testing.assert_allclose(slow.variance, settled.variance)
    assert len(moved) > 2
    assert moved[-1] < 10 * tol <= min(moved[:-1])


@pytest.mark.parametrize("power", [1, 2])
def test_a_settled_scale_meets_mackays_condition(power: int) -> None:
    spectrum, total = torch.tensor([300.0, 20.0, 1.0, 0.0], dtype=torch.float64), torch.tensor(0.7, dtype=torch.float64)

    def ratio(scale: torch.Tensor) -> torch.Tensor:
        return spectrum * scale**power

    scale = settled_log_scale(torch.zeros((), dtype=torch.float64), total, ratio, power).exp()
    gamma = (ratio(scale) / (1 + ratio(scale))).sum()
    assert (scale**power * gamma).item() == pytest.approx(total.item(), rel=1e-6)
