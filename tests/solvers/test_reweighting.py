"""Reweighting reaches the maximum of Student's likelihood, in one dimension and in several."""

import numpy as np
import pytest
from scipy import optimize, stats

from likely._solvers.reweighting import row_precision, settled_variance


@pytest.mark.parametrize("df", [1.0, 4.0, 30.0])
def test_the_variance_maximises_the_likelihood(df: float) -> None:
    rng = np.random.default_rng(0)
    residuals, weight = 3 * rng.standard_t(4, size=400), rng.integers(1, 4, 400).astype(float)

    def nll(log_scale: float) -> float:
        return -float(weight @ stats.t.logpdf(residuals, df, scale=np.exp(log_scale)))

    best = optimize.minimize_scalar(nll, bounds=(-3, 4), method="bounded", options={"xatol": 1e-9}).x
    found = settled_variance(np.square(residuals), weight, 1.0, df, steps=500)
    assert np.sqrt(found) == pytest.approx(np.exp(best), rel=1e-6)


def test_steps_only_climb() -> None:
    residuals = np.random.default_rng(1).standard_t(2, size=200)
    variance, costs = 25.0, []
    for _ in range(20):
        costs.append(-stats.t.logpdf(residuals, 3, scale=np.sqrt(variance)).sum())
        variance = settled_variance(np.square(residuals), np.ones(200), variance, 3.0)
    assert (np.diff(costs) <= 1e-9).all()


def test_residuals_of_zero_leave_a_positive_variance() -> None:
    assert settled_variance(np.zeros(5), np.ones(5), 1.0, 4.0, steps=100) == pytest.approx(1e-12)


def test_the_precision_is_minus_twice_the_slope_of_the_density_in_the_squared_distance() -> None:
    distance = np.linspace(0.5, 20, 40)
    for q in (1, 3):
        t = stats.multivariate_t(np.zeros(q), np.eye(q), df=2.5)

        def log_density(square: np.ndarray, t=t, q=q) -> np.ndarray:
            return t.logpdf(np.sqrt(square / q)[:, None] * np.ones(q))

        slope = (log_density(distance + 1e-5) - log_density(distance - 1e-5)) / 2e-5
        np.testing.assert_allclose(row_precision(distance, 2.5, q), -2 * slope, rtol=1e-6)
