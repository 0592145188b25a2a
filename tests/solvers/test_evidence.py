"""The evidence solver on a problem with a known answer: linear regression with unit noise."""

import math

import numpy as np
import pytest
import torch

from likely._rows.blocks import Rows
from likely._solvers.evidence import fit_linear


def regression(n=400, d=8, effect=1.0, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) * rng.uniform(0.1, 10, d) + 5
    w = effect * rng.normal(size=d) / np.sqrt(d)
    return x, ((x - x.mean(0)) / x.std(0)) @ w + rng.normal(size=n)


def squared_error(y):
    target = torch.as_tensor(y)

    def evaluate(rows, u):
        residual = u - target[rows].to(u)
        return 0.5 * residual.square(), residual, torch.ones_like(u)

    return evaluate


def test_is_ridge_at_the_precision_it_returns():
    x, y = regression()
    y = y - y.mean()
    fit = fit_linear(Rows(x), squared_error(y))
    z = (x - x.mean(0)) / x.std(0)
    dispersion = max(1.0, np.mean((y - z @ fit.coef - fit.intercept) ** 2))
    expected = np.linalg.solve(z.T @ z + dispersion * fit.precision * np.eye(8), z.T @ y)
    np.testing.assert_allclose(fit.coef, expected, atol=0.02)
    np.testing.assert_allclose(fit(torch.as_tensor(x)).numpy(), z @ fit.coef + fit.intercept, atol=1e-10)


def test_the_precision_maximises_the_evidence():
    x, y = regression(n=2000, effect=0.5)
    y = y - y.mean()
    fit = fit_linear(Rows(x), squared_error(y), tol=1e-10)
    z = (x - x.mean(0)) / x.std(0)
    dispersion = max(1.0, float(np.mean((y - z @ fit.coef) ** 2)))

    def evidence(precision):
        gram = z.T @ z / dispersion
        w = np.linalg.solve(gram + precision * np.eye(8), z.T @ y / dispersion)
        lost = 0.5 * np.sum((y - z @ w) ** 2) / dispersion + 0.5 * precision * w @ w
        return -lost - 0.5 * np.linalg.slogdet(np.eye(8) + gram / precision)[1]

    around = [evidence(fit.precision * factor) for factor in (0.7, 1.0, 1.4)]
    assert around[1] == pytest.approx(max(around), abs=0.02)


def test_nothing_there_is_the_base_model_exactly():
    _, y = regression(effect=0.0)
    junk = np.random.default_rng(9).normal(size=(400, 300))
    fit = fit_linear(Rows(junk), squared_error(y - y.mean()), rate=8.0)
    assert fit.precision == math.inf
    assert not fit.coef.any()


def test_overdispersion_is_not_taken_for_an_effect():
    """Noise of three times the deviation the model believes in, and features that mean nothing."""
    y = 3 * np.random.default_rng(1).normal(size=500)
    junk = np.random.default_rng(2).normal(size=(500, 200))
    y = y - y.mean()
    tempered = fit_linear(Rows(junk), squared_error(y), rate=1.0)
    believed = fit_linear(Rows(junk), squared_error(y), penalty=200.0)  # s = 1, as the model's own units suggest
    assert tempered(torch.as_tensor(junk)).std() < 0.1
    assert believed(torch.as_tensor(junk)).std() > 1


def test_more_features_than_rows_and_constant_columns():
    x, y = regression(n=60)
    wide = np.concatenate([x, np.ones((60, 1)), np.random.default_rng(3).normal(size=(60, 200))], axis=1)
    fit = fit_linear(Rows(wide), squared_error(y - y.mean()))
    assert fit.coef.shape == (209,)
    assert np.isfinite(fit.coef).all()
    assert fit.coef[8] == pytest.approx(0, abs=1e-9)


def test_long_tables_end_where_short_ones_do():
    x, y = regression(n=40_000)
    y = y - y.mean()
    sampled = fit_linear(Rows(x), squared_error(y), tol=1e-9)
    z = (x - x.mean(0)) / x.std(0)
    np.testing.assert_allclose(sampled.coef, np.linalg.lstsq(z, y)[0], atol=2e-3)


@pytest.mark.parametrize("penalty", [None, 50.0])
def test_a_penalty_of_ones_own(penalty):
    x, y = regression()
    y = y - y.mean()
    fit = fit_linear(Rows(x), squared_error(y), penalty=penalty)
    z = (x - x.mean(0)) / x.std(0)
    expected = np.linalg.solve(z.T @ z + (penalty or 0.0) * np.eye(8), z.T @ y)
    np.testing.assert_allclose(fit.coef, expected, rtol=1e-6)


def test_weights_are_repetitions():
    x, y = regression(n=200)
    weight = np.random.default_rng(0).integers(0, 4, 200)
    repeated = fit_linear(Rows(np.repeat(x, weight, 0)), squared_error(np.repeat(y, weight)), penalty=3.0)
    weighted = fit_linear(Rows(x), squared_error(y), penalty=3.0, sample_weight=weight.astype(float))
    np.testing.assert_allclose(weighted.coef, repeated.coef, rtol=1e-6)
    assert weighted.intercept == pytest.approx(repeated.intercept, rel=1e-6)


def test_evidence_follows_the_leading_directions_and_a_penalty_of_ones_own_all():
    x, y = regression()
    y = y - y.mean()
    z = (x - x.mean(0)) / x.std(0)
    leading = np.linalg.svd(z)[2][:3]
    fit = fit_linear(Rows(x), squared_error(y), directions=3)
    assert np.linalg.norm(leading @ fit.coef) > 0.1
    np.testing.assert_allclose(leading.T @ (leading @ fit.coef), fit.coef, atol=1e-8)
    for penalty in (None, 50.0):
        every, few = (fit_linear(Rows(x), squared_error(y), penalty=penalty, directions=k) for k in (0, 3))
        np.testing.assert_allclose(few.coef, every.coef, rtol=1e-9)
