"""Targets with mass at single values, heavy tails and few rows: that means and intervals of fresh rows are right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold
from torch.distributions import LogNormal, Normal

from likely._rows.checks import row_weights
from likely.metrics import crps, crps_from_samples, negative_log_likelihood
from likely.tabular import LikelihoodRegressor, NetworkRegressor
from likely.tabular.targets.atoms import WithAtoms
from likely.tabular.targets.choice import find_atoms

Make = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def rows(make: Make, seed: int, n: int = 1000, columns: int = 5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, columns))
    return X, make(X, rng)


def claims(zeros: float) -> Make:
    return lambda X, rng: np.where(rng.random(len(X)) < zeros, 0, np.exp(3 + X[:, 0] + rng.normal(size=len(X))))


def ends(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.clip(X[:, 0] + 0.5 * rng.normal(size=len(X)), -1, 1)


def quick(**options: Any) -> LikelihoodRegressor:
    return LikelihoodRegressor(["linear", "shallow"], random_state=0, **options)


@pytest.mark.parametrize("zeros", [0.95, 0.85, 0.65])
def test_claims_that_are_mostly_zero_have_the_right_mean_and_intervals(zeros: float, tmp_path: Path) -> None:
    model = quick().fit(*rows(claims(zeros), 11))
    X, y = rows(claims(zeros), 12, 5000)
    mean = (1 - zeros) * np.exp(3 + 0.5 + 0.5)
    assert abs(model.predict(X).mean() / mean - 1) < 0.35, "the mean of claims is off by more than 35%"
    lower, upper = model.predict_interval(X)
    assert np.mean((lower <= y) & (y <= upper)) > 0.85
    lower, upper = model.predict_interval(X, conformal=True)
    assert np.mean((lower <= y) & (y <= upper)) > 0.85
    distribution = model.predict_dist(X)
    np.testing.assert_allclose(distribution.mean, model.predict(X))
    np.testing.assert_allclose(distribution.log_prob(torch.zeros(5000)).exp().mean(), zeros, atol=0.05)
    assert np.isfinite(negative_log_likelihood(y, distribution))
    assert crps(y, distribution) < np.abs(y).mean(), "a claim of zero for all rows scores better"
    model.save(tmp_path / "claims")
    loaded = LikelihoodRegressor.load(tmp_path / "claims")
    np.testing.assert_allclose(loaded.predict(X), model.predict(X))
    assert model.summary_["atoms"]["values"] == [0.0]


@pytest.mark.parametrize("unit", [1.0, 1e9, 1e-9])
def test_two_values_have_the_mean_of_their_shares(unit: float) -> None:
    X, y = rows(lambda X, rng: unit * (rng.random(len(X)) < 0.1), 3, 400)
    model = quick().fit(X, y)
    assert abs(model.predict(X).mean() - y.mean()) < 0.02 * unit
    np.testing.assert_array_equal(np.unique(model.predict_quantile(X, [0.3, 0.9999])), [0, unit])
    assert np.isfinite(model.outlier_scores_).all()


def test_a_floor_and_a_cap_are_both_found() -> None:
    X, y = rows(ends, 4, 400)
    model = quick().fit(X, y, sample_weight=np.r_[0.0, np.ones(399)])
    assert model.summary_["atoms"]["values"] == [-1, 1]
    assert "atoms" not in quick().fit(X, X[:, 0]).summary_
    alone = quick().fit(X, y)
    assert (alone.predict_dist(X).log_prob(torch.tensor(y)) <= 0).numpy()[np.abs(y) == 1].all()
    assert crps(y, model.predict_dist(X)) < np.abs(y - y.mean()).mean() / 2


def test_estimators_that_cannot_classify_predict_the_rest() -> None:
    X, y = rows(claims(0.5), 5, 300)
    model = LikelihoodRegressor(Ridge(), random_state=0).fit(X, y)
    target = model.summary_
    assert (list(target["weights"]), list(target["atoms"]["weights"])) == (["Ridge"], ["boosting"])


def test_few_rows_off_an_atom_give_finite_numbers() -> None:
    for off in (1, 2, 3, 6):
        X, y = rows(lambda X, rng: np.zeros(len(X)), off, 60)
        y[:off] = 1 + np.arange(off) / 7
        for cv in (None, KFold(2)):
            model = quick(cv=cv).fit(X, y)
            mean, std = model.predict(X, return_std=True)
            assert np.isfinite(mean).all()
            assert np.isfinite(std).all()
            assert np.isfinite(model.outlier_scores_).all()


def test_ties_of_rounded_values_are_no_mass() -> None:
    rng = np.random.default_rng(0)
    normal, skewed, ones = rng.normal(size=2000), rng.exponential(size=2000), np.ones(2000)
    for rounded in (normal.round(1), (2 * normal).round() / 2, skewed.round(1), normal, np.r_[normal, normal], ones):
        assert not len(find_atoms(rounded, np.ones(len(rounded)), np.arange(len(rounded))))
    assert find_atoms(np.maximum(normal, 1.0), ones, np.arange(2000)).tolist() == [1.0]
    assert find_atoms(np.maximum(normal, 1.0).round(1), ones, np.arange(2000)).tolist() == [1.0]


POSITIVE = LogNormal(torch.tensor([1.0, 2.0], dtype=torch.float64), 1.0, validate_args=False)
REAL = Normal(torch.tensor([0.0, 0.5], dtype=torch.float64), 1.0)


@pytest.mark.parametrize(("atoms", "rest"), [([0.0], POSITIVE), ([-1.0, 1.0], REAL), ([0.0, 1.0], REAL)])
def test_a_distribution_with_atoms_agrees_with_its_draws(atoms: list[float], rest: Any) -> None:
    torch.manual_seed(0)
    logits = torch.randn(2, len(atoms) + 1, dtype=torch.float64)
    logits[:, -1] -= torch.inf if atoms == [0, 1] else 0  # two values alone
    log_proba = logits.log_softmax(-1)
    distribution = WithAtoms(torch.tensor(atoms, dtype=torch.float64), log_proba, rest)
    draws = distribution.sample((100_000,))
    np.testing.assert_allclose(distribution.mean, draws.mean(0), rtol=0.05, atol=0.01)
    np.testing.assert_allclose(distribution.stddev, draws.std(0), rtol=0.1)
    for level in (0.02, 0.3, 0.5, 0.7, 0.98):
        quantiles = distribution.icdf(torch.full((2,), level, dtype=torch.float64))
        np.testing.assert_allclose(quantiles, np.quantile(draws, level, 0, method="inverted_cdf"), rtol=0.05, atol=0.03)
        assert (distribution.cdf(quantiles) >= level - 1e-12).all()
    for value in (*atoms, 0.4, -2.0):
        y = torch.full((2,), value, dtype=torch.float64)
        np.testing.assert_allclose(distribution.cdf(y), (draws <= y).double().mean(0), atol=0.01)
        expected = crps_from_samples(y, draws[:20_000].T, reduction="none")
        np.testing.assert_allclose(crps(y, distribution, reduction="none"), expected, rtol=0.05, atol=0.01)
    shares = [(draws == atom).double().mean(0) for atom in atoms]
    masses = [distribution.log_prob(torch.tensor(atom)).exp() for atom in atoms]
    np.testing.assert_allclose(torch.stack(shares), torch.stack(masses), atol=0.01)


HEAVY: dict[str, Make] = {
    "gamma": lambda X, rng: rng.gamma(0.2, 50, len(X)) * np.exp(0.5 * X[:, 0]),
    "Weibull": lambda X, rng: rng.weibull(0.4, len(X)) * np.exp(0.5 * X[:, 0]),
}


@pytest.mark.parametrize("kind", HEAVY)
def test_targets_near_zero_do_not_raise_the_mean_without_bound(kind: str) -> None:
    model = quick().fit(*rows(HEAVY[kind], 6))
    X, y = rows(HEAVY[kind], 7, 5000)
    assert 0.65 < model.predict(X).mean() / y.mean() < 1.5, "the mean of a skewed target is far from the truth"


def test_intervals_of_fifteen_rows_cover() -> None:
    covered = []
    for seed in range(6):
        X, y = rows(lambda X, rng: rng.normal(size=len(X)), seed, 315, 15)
        model = LikelihoodRegressor(["linear", "kernel", "shallow"], random_state=0).fit(X[:15], y[:15])
        lower, upper = model.predict_interval(X[15:])
        covered.append(np.mean((lower <= y[15:]) & (y[15:] <= upper)))
    assert np.mean(covered) > 0.8, "90% intervals of 15 rows cover less than 80%"


def test_weights_that_are_whole_numbers_are_counts_and_others_are_relative() -> None:
    X = np.zeros((3, 1))
    np.testing.assert_array_equal(row_weights([4, 2, 0], X), [4, 2, 0])
    np.testing.assert_allclose(row_weights([0.9, 0.3, 0.0], X), [1.5, 0.5, 0])


def test_a_network_names_the_estimator_that_takes_splitters() -> None:
    with pytest.raises(TypeError, match="cv must be an instance of int"):
        NetworkRegressor(cv=KFold(3)).fit(*rows(ends, 0, 30))
