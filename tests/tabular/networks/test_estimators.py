"""Likelihood regressors and classifiers: what a likelihood promises."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.model_selection import train_test_split
from torch import nn
from torch.distributions import MixtureSameFamily

from likely._numerics.random import CheapDropout
from likely.tabular import NetworkClassifier, NetworkRegressor
from pairwise import together

QUICK = {"max_steps": 40, "random_state": 0}


def heteroscedastic(n: int = 1500, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 3))
    noise = np.exp(X[:, 1]) / 4
    return X, np.sin(2 * X[:, 0]) + noise * rng.normal(size=n), noise


def nll(model: NetworkRegressor, X: np.ndarray, y: np.ndarray) -> float:
    return float(-model.predict_dist(X).log_prob(torch.from_numpy(y)).mean())


@pytest.fixture(scope="module")
def fitted() -> NetworkRegressor:
    X, y, _ = heteroscedastic()
    return NetworkRegressor(max_steps=200, random_state=0).fit(X, y)


@pytest.mark.heavy
def test_finds_the_noise_and_not_at_the_cost_of_the_mean() -> None:
    X, y, noise = heteroscedastic(seed=1)
    fitted, plain = (
        NetworkRegressor(scale=scale, max_steps=600, random_state=0).fit(*heteroscedastic()[:2])
        for scale in ("predicted", "global")
    )
    assert np.corrcoef(np.log(fitted.predict_scale(X)), np.log(noise))[0, 1] > 0.9
    assert nll(fitted, X, y) < nll(plain, X, y) - 0.15
    ideal = float(np.mean(0.5 * ((y - np.sin(2 * X[:, 0])) / noise) ** 2 + np.log(noise) + 0.5 * np.log(2 * np.pi)))
    assert nll(fitted, X, y) < ideal + 0.2
    clean = np.sin(2 * X[:, 0])
    assert np.mean((fitted.predict(X) - clean) ** 2) < 1.02 * np.mean((plain.predict(X) - clean) ** 2)


def test_one_scale_where_the_noise_is_the_same_everywhere() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5))
    y = X[:, 0] + rng.normal(size=400)
    model = NetworkRegressor(max_steps=200, random_state=0).fit(X, y)
    assert np.ptp(model.predict_scale(X)) < 0.1
    assert 0.9 < model.predict_scale(X).mean() < 1.15


def test_intervals_cover(fitted: NetworkRegressor) -> None:
    X, y, _ = heteroscedastic(seed=2)
    lower, upper = fitted.predict_interval(X, coverage=0.8)
    assert 0.76 < np.mean((lower < y) & (y < upper)) < 0.87
    with pytest.raises(ValueError, match="coverage"):
        fitted.predict_interval(X, coverage=1.0)


def test_std_is_that_of_the_distribution(fitted: NetworkRegressor) -> None:
    X, _, _ = heteroscedastic(50, seed=3)
    mean, std = fitted.predict(X, return_std=True)
    distribution = fitted.predict_dist(X)
    assert isinstance(distribution, MixtureSameFamily)
    np.testing.assert_allclose(mean, distribution.mean)
    np.testing.assert_allclose(std, distribution.stddev)


def test_outliers_stand_out_among_training_rows() -> None:
    X, y, _ = heteroscedastic(600)
    y[:12] += 8
    model = NetworkRegressor(max_steps=200, random_state=0).fit(X, y)
    assert set(np.argsort(-model.outlier_scores_)[:12]) == set(range(12))


def test_scores_are_in_the_units_of_the_target() -> None:
    X, y, _ = heteroscedastic(400)
    settings = {"scale": "global", **QUICK}
    one, thousand = (NetworkRegressor(**settings).fit(X, factor * y) for factor in (1, 1000))
    np.testing.assert_allclose(thousand.outlier_scores_, one.outlier_scores_ + np.log(1000), atol=1e-4)
    np.testing.assert_allclose(thousand.predict(X), 1000 * one.predict(X), rtol=1e-4, atol=1e-2)
    np.testing.assert_allclose(one.outlier_score(X, y), -one.predict_dist(X).log_prob(torch.from_numpy(y)))


@pytest.mark.usefixtures("few_steps")
@pytest.mark.parametrize("scale", ["fixed", "global", "data", "predicted"])
def test_every_kind_of_parameter(scale: str) -> None:
    X, y, _ = heteroscedastic(300)
    for objective in ("two_stage", "joint"):
        model = NetworkRegressor(likelihood="student_t", objective=objective, scale=scale, **QUICK)
        assert np.isfinite(nll(model.fit(X, y), X, y))


@pytest.mark.heavy
def test_corrupted_targets_do_not_move_a_student_t() -> None:
    X, y, _ = heteroscedastic(800)
    clean, y = y.copy(), y.copy()
    rng = np.random.default_rng(1)
    bad = rng.random(800) < 0.2
    y[bad] += 20 * rng.uniform(0.5, 1.5, bad.sum())
    truth = np.sin(2 * X[:, 0])
    settings = {"max_steps": 400, "random_state": 0, "scale": "global"}
    base = NetworkRegressor(**settings).fit(X[~bad], clean[~bad]).predict(X)
    robust = NetworkRegressor(likelihood="student_t", **settings).fit(X, y).predict(X)
    plain = NetworkRegressor(**settings).fit(X, y).predict(X)
    error = np.mean((base - truth) ** 2)
    assert np.mean((robust - truth) ** 2) < 2 * error
    assert np.mean((plain - truth) ** 2) > 20 * error


def test_several_targets_have_a_scale_each() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 2))
    Y = np.column_stack([X[:, 0] + rng.normal(size=500), 100 * X[:, 1] + rng.normal(size=500)])
    model = NetworkRegressor(max_steps=200, random_state=0).fit(X, Y)
    assert model.predict(X).shape == Y.shape
    np.testing.assert_allclose(model.predict_scale(X).mean(0), [1, 1], rtol=0.5)
    assert model.predict_dist(X).batch_shape == Y.shape
    assert model.outlier_score(X, Y).shape == (500,)


@pytest.mark.usefixtures("few_steps")
def test_same_seed_same_model_whatever_was_drawn_before() -> None:
    X, y, _ = heteroscedastic(200)
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    one = NetworkRegressor(**QUICK).fit(X, y).predict(X)
    assert torch.equal(before, torch.random.get_rng_state())
    torch.rand(7)
    np.testing.assert_array_equal(one, NetworkRegressor(**QUICK).fit(X, y).predict(X))
    assert not np.array_equal(one, clone(NetworkRegressor(**{**QUICK, "random_state": 1})).fit(X, y).predict(X))


@pytest.mark.usefixtures("few_steps")
def test_single_and_double_precision_agree() -> None:
    X, y, _ = heteroscedastic(400)
    double, single = (NetworkRegressor(**QUICK).fit(X.astype(t), y.astype(t)) for t in (np.float64, np.float32))
    np.testing.assert_allclose(single.predict(X.astype(np.float32)), double.predict(X), atol=2e-3)


def test_pickles(fitted: NetworkRegressor) -> None:
    X, _, _ = heteroscedastic(50)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict(X), fitted.predict(X))


@pytest.mark.usefixtures("few_steps")
def test_any_module_any_number_of_features() -> None:
    X, y, _ = heteroscedastic(400)

    class WithFeatures(nn.Module):
        def __init__(self, inputs: int, outputs: int) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(inputs, 16), nn.BatchNorm1d(16), nn.ReLU())
            self.head = nn.Linear(16, outputs)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            h = self.body(x)
            return self.head(h), h

    instance = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1), nn.Flatten(0))
    for model in (WithFeatures, instance):
        for objective in ("two_stage", "joint"):
            found = NetworkRegressor(model, objective=objective, max_steps=150, random_state=0).fit(X, y)
            assert found.score(X, y) > 0.3


@together(
    ("settings", "message"),
    [
        ({"likelihood": "cauchy"}, "likelihood must be one of normal"),
        ({"scale": "local"}, "scale must be one of fixed"),
        ({"objective": "mse"}, "objective must be one of two_stage"),
        ({"cv": None}, "two_stage' needs held-out rows"),
        ({"cv": 1}, "cv == 1, must be >= 2"),
        ({"batch_size": 0}, "batch_size == 0, must be >= 1"),
        ({"max_steps": -1}, "max_steps == -1, must be >= 0"),
        ({"learning_rate": 0.0}, r"learning_rate == 0\.0, must be > 0"),
        ({"hidden": (64, 0)}, "a hidden layer == 0"),
        ({"model": nn.Linear(3, 2)}, "returns 2 numbers per row, the targets need 1"),
    ],
)
def test_errors_say_what_to_do(settings: dict[str, object], message: str) -> None:
    X, y, _ = heteroscedastic(30)
    with pytest.raises(ValueError, match=message):
        NetworkRegressor(**settings).fit(X, y)  # type: ignore[arg-type]


@pytest.mark.parametrize("settings", [{"hidden": 64}, {"cv": 2.5}, {"max_steps": None}, {"learning_rate": "high"}])
def test_arguments_of_the_wrong_kind(settings: dict[str, object]) -> None:
    with pytest.raises(TypeError, match=f"{next(iter(settings))} must"):
        NetworkRegressor(**settings).fit([[0.0], [1.0]], [0.0, 1.0])  # type: ignore[arg-type]


def test_dropout_drops_the_share_asked_for_and_keeps_the_mean() -> None:
    dropout, x = CheapDropout(0.3).train(), torch.ones(5, 200, 64)
    torch.manual_seed(0)
    dropped = dropout(x)
    assert abs(float((dropped == 0).float().mean()) - 0.3) < 0.01
    assert abs(float(dropped.mean()) - 1) < 0.02
    assert not torch.equal(dropped, dropout(x))
    assert torch.equal(dropout.eval()(x), x)


def test_a_model_that_is_none() -> None:
    with pytest.raises(TypeError, match=r"model must be an nn\.Module"):
        NetworkRegressor(3).fit([[0.0], [1.0]], [0.0, 1.0])


@pytest.mark.usefixtures("few_steps")
def test_hopeless_data_stays_finite() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(40), rng.normal(size=40) * 1e200, np.arange(40.0), rng.normal(size=40) * 1e-200])
    for y in (np.zeros(40), rng.normal(size=40) * 1e100, np.arange(40.0)):
        model = NetworkRegressor(**QUICK).fit(X, y)
        mean, std = model.predict(X, return_std=True)
        assert np.isfinite(mean).all()
        assert np.isfinite(std).all()
        assert (std > 0).all()


def test_the_networks_of_the_folds_are_mixed() -> None:
    X, y, _ = heteroscedastic(300)
    model = NetworkRegressor(objective="joint", cv=3, **QUICK).fit(X, y)
    mixed = model.predict_dist(X)
    assert isinstance(mixed, MixtureSameFamily)
    parts = mixed.component_distribution
    assert parts.batch_shape == (300, 3)
    np.testing.assert_allclose(mixed.cdf(torch.from_numpy(y)), parts.cdf(torch.from_numpy(y)[:, None]).mean(1))
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(mean, parts.mean.mean(1))
    np.testing.assert_allclose(std**2, np.asarray((parts.variance + parts.mean**2).mean(1)) - mean**2, rtol=1e-6)


@pytest.mark.parametrize("objective", ["two_stage", "joint"])
def test_classifier_is_calibrated_and_finds_wrong_labels(objective: str) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    rng = np.random.default_rng(0)
    wrong = rng.random(len(y)) < 0.1
    given = np.where(wrong, 1 - y, y)
    X_fit, X_test, given_fit, _, wrong_fit, _, _, y_test = train_test_split(X, given, wrong, y, random_state=0)
    model = NetworkClassifier(objective=objective, max_steps=200, random_state=0).fit(X_fit, given_fit)
    assert model.score(X_test, y_test) > 0.92
    suspects = np.argsort(-model.outlier_scores_)[: wrong_fit.sum()]
    assert wrong_fit[suspects].mean() > 0.7  # .78 ± .03 over eight seeds
    assert model.predict_temperature(X_test).shape == y_test.shape
    np.testing.assert_allclose(model.predict_proba(X_test).sum(1), 1)


def test_linear_models_start_at_dynamic_ridge() -> None:
    from likely.linear import DynamicRidge

    X, y = load_diabetes(return_X_y=True)
    model = NetworkRegressor(hidden=(), max_steps=0, scale="global", random_state=0).fit(X, y)
    assert model.n_steps_ == 0
    ridge = DynamicRidge().fit(X, y)
    assert np.corrcoef(model.predict(X), ridge.predict(X))[0, 1] > 0.999


@pytest.mark.parametrize("likelihood", ["normal", "laplace", "student_t", "robust"])
@pytest.mark.parametrize("objective", ["two_stage", "joint"])
def test_a_line_may_fit_almost_exactly(likelihood: str, objective: str) -> None:
    """Far below the floor of a scale in units of the target's spread."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = X @ [1.0, 2.0] + 1e-4 * rng.normal(size=300)
    model = NetworkRegressor(likelihood=likelihood, scale="global", objective=objective, random_state=0)
    assert model.set_params(max_steps=40).fit(X, y).predict_scale(X).max() < 0.02
