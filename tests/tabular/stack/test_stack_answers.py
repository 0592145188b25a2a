"""Stacks of members as they are: that what they say of fresh rows is so."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import log_loss, roc_auc_score

from likely.tabular import LikelihoodClassifier, LikelihoodRegressor


def noisy_rows(seed: int, n: int = 600) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The first column drives the mean, the second the scale, the third nothing."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 3))
    mean = 5 + 2 * np.sin(X[:, 0])
    return X, mean + 0.2 * np.exp(0.7 * X[:, 1]) * rng.normal(size=n), mean


@pytest.fixture(scope="module")
def clean() -> LikelihoodRegressor:
    return LikelihoodRegressor(random_state=0).fit(*noisy_rows(0)[:2])


@pytest.fixture(scope="module")
def spoiled() -> tuple[LikelihoodRegressor, np.ndarray]:
    X, y, _ = noisy_rows(0)
    wrong = np.random.default_rng(1).random(len(y)) < 0.05
    return LikelihoodRegressor(random_state=0).fit(X, np.where(wrong, 10 * y, y)), wrong


def test_wrong_targets_hardly_move_predictions(clean: LikelihoodRegressor, spoiled: tuple) -> None:
    X, _, mean = noisy_rows(2)
    model, wrong = spoiled
    assert min(clean.score(X, mean), model.score(X, mean)) > 0.99
    assert 0.8 * wrong.sum() <= model.summary_["rows_left_out"] <= 1.5 * wrong.sum()
    assert clean.summary_["rows_left_out"] <= 6


def test_wrong_targets_are_found(spoiled: tuple) -> None:
    model, wrong = spoiled
    assert roc_auc_score(wrong, model.outlier_scores_) > 0.99
    X, y, _ = noisy_rows(0)
    assert roc_auc_score(wrong, model.outlier_score(X, np.where(wrong, 10 * y, y))) > 0.99


def test_importances_of_the_mean_and_of_the_scale(clean: LikelihoodRegressor) -> None:
    found = clean.importances()
    assert found.columns == ("x0", "x1", "x2")
    assert found.mean.argmax() == 0
    assert found.mean[0] > 5 * found.mean[1:].max()
    assert found.scale.argmax() == 1
    assert found.scale[1] > 2 * found.scale[[0, 2]].max()
    assert found.to_frame().index[0] == "x0"


@pytest.mark.parametrize("conformal", [False, True])
@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_intervals_hold_fresh_rows(clean: LikelihoodRegressor, coverage: float, conformal: bool) -> None:
    X, y, _ = noisy_rows(3, 3000)
    lower, upper = clean.predict_interval(X, coverage, conformal=conformal)
    inside = (lower <= y) & (y <= upper)
    assert abs(inside.mean() - coverage) < 0.05
    calm = X[:, 1] < 0
    assert abs(inside[calm].mean() - inside[~calm].mean()) < 0.12


def test_conformal_intervals_keep_their_guarantee_where_the_world_has_changed(clean: LikelihoodRegressor) -> None:
    model = pickle.loads(pickle.dumps(clean))
    X, y, _ = noisy_rows(5, 4000)
    y = y + np.random.default_rng(6).standard_cauchy(len(y))  # far wider than what the model has seen
    lower, upper = model.predict_interval(X[2000:], 0.9)
    assert np.mean((lower <= y[2000:]) & (y[2000:] <= upper)) < 0.7
    lower, upper = model.conformalize(X[:2000], y[:2000]).predict_interval(X[2000:], 0.9, conformal=True)
    assert 0.87 < np.mean((lower <= y[2000:]) & (y[2000:] <= upper)) < 0.93
    with pytest.raises(ValueError, match="inconsistent"):
        model.conformalize(X, y[:5])


def test_a_distribution_agrees_with_itself(clean: LikelihoodRegressor) -> None:
    X, y, _ = noisy_rows(4, 50)
    distribution, levels = clean.predict_dist(X), [0.01, 0.2, 0.5, 0.8, 0.99]
    quantiles = clean.predict_quantile(X, levels)
    assert (np.diff(quantiles) > 0).all()
    for level, own in zip(levels, quantiles.T, strict=True):
        np.testing.assert_allclose(distribution.cdf(torch.as_tensor(own)), level, atol=1e-6)
        np.testing.assert_allclose(distribution.icdf(torch.full((50,), level, dtype=torch.float64)), own, rtol=1e-6)
        np.testing.assert_allclose(clean.predict_quantile(X, level), own)
    mean, std = clean.predict(X, return_std=True)
    np.testing.assert_allclose(distribution.mean, mean)
    np.testing.assert_allclose(distribution.stddev, std)
    np.testing.assert_allclose(clean.outlier_score(X, y), -distribution.log_prob(torch.as_tensor(y)))
    grid = torch.linspace(-20, 30, 20001, dtype=torch.float64)[:, None]
    mass = torch.trapezoid(distribution.log_prob(grid).exp(), grid, dim=0)
    np.testing.assert_allclose(mass, 1, atol=2e-3)


def test_probabilities_and_wrong_labels() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 3))
    labels = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    wrong = np.zeros(700, dtype=bool)
    wrong[rng.choice(400, 20, replace=False)] = True
    given = np.where(wrong, np.where(labels == "same", "other", "same"), labels)
    model = LikelihoodClassifier(random_state=0).fit(X[:400], given[:400])
    assert roc_auc_score(wrong[:400], model.outlier_scores_) > 0.95
    proba = model.predict_proba(X[400:])
    assert np.mean(model.predict(X[400:]) == labels[400:]) > 0.9
    assert log_loss(labels[400:], proba, labels=model.classes_) < 0.3
    assert model.importances(n_repeats=1).mean.argmin() == 2


def test_each_level_of_a_category_has_a_trend_of_its_own() -> None:
    rng = np.random.default_rng(0)
    country, year = np.repeat(np.arange(24), 30), np.tile(np.arange(1990.0, 2020), 24)
    start, growth = rng.normal(50, 10, 24), rng.normal(size=24)
    y = start[country] + growth[country] * (year - 1990) + rng.normal(size=len(year))
    frame = pd.DataFrame({"country": [f"c{k}" for k in country], "year": year})
    held_out = rng.random(len(y)) < 0.25
    model = LikelihoodRegressor(["linear", "kernel"], random_state=0).fit(frame[~held_out], y[~held_out])
    error = np.sqrt(np.square(model.predict(frame[held_out]) - y[held_out]).mean())
    assert error < 1.4  # of noise of one; members that read only the mean of each level have 2.4
