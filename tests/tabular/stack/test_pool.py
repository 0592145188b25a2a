"""Weights of the members are those that the written objective has its minimum at, found here in another way."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from likely.tabular import _stack
from likely.tabular._stack import ClassPool, Pool, pool_classes, pool_links, pool_means
from likely.tabular.members.task import loss_of

PRIOR = 5.0  # rows
RNG = np.random.default_rng(0)
ROWS, MEMBERS, CLASSES = 40, 3, 3
WEIGHT = RNG.uniform(0.2, 2, ROWS)


def numbers() -> tuple[np.ndarray, np.ndarray]:
    """A target far from zero, and three members: one good, one half as large, one bad."""
    rng = np.random.default_rng(1)
    y = 7 + 2 * rng.normal(size=ROWS)
    return np.stack(
        [y + rng.normal(size=ROWS), 7 + 0.5 * (y - 7) + rng.normal(size=ROWS), 7 + rng.normal(size=ROWS)]
    ), y


def classes(scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Logits of members of different skill, and indicators of the labels."""
    rng = np.random.default_rng(2)
    labels = rng.integers(0, CLASSES, ROWS)
    skill = np.array([2.0, 1.0, 0.2])[:, None, None]
    logits = skill * np.eye(CLASSES)[labels] + rng.normal(size=(MEMBERS, ROWS, CLASSES))
    return scale * logits, np.eye(CLASSES)[labels]


def best(cost) -> np.ndarray:
    """The minimum over weights that are not negative, from several starts."""
    starts = [np.full(MEMBERS, 1 / MEMBERS), *np.eye(MEMBERS) * 0.8 + 0.05]
    options = {"method": "L-BFGS-B", "bounds": [(0, 3)] * MEMBERS, "options": {"ftol": 1e-15, "gtol": 1e-9}}
    return min((minimize(cost, start, **options) for start in starts), key=lambda found: found.fun).x


def test_means_are_pooled_by_penalised_least_squares_about_the_mean() -> None:
    predictions, y = numbers()
    pool = pool_means(predictions, y, WEIGHT)
    centre = (WEIGHT * y).sum() / WEIGHT.sum()
    spread = (WEIGHT * (y - predictions.mean(0)) ** 2).sum() / WEIGHT.sum()

    def cost(weights: np.ndarray) -> float:
        off = y - centre - weights @ (predictions - centre)
        return WEIGHT @ off**2 + PRIOR * spread * ((weights - 1 / MEMBERS) ** 2).sum()

    assert pool.centre == pytest.approx(centre)
    np.testing.assert_allclose(pool.weights, best(cost), atol=1e-5)
    assert np.ptp(pool.weights) > 0.2, "the members differ too little for this to be a test"
    np.testing.assert_allclose(pool(predictions), centre + pool.weights @ (predictions - centre))


def test_members_without_an_error_of_their_mean_are_pooled_too() -> None:
    y = numbers()[1]
    np.testing.assert_allclose(pool_means(np.stack([y, y, y]), y, WEIGHT)(np.stack([y, y, y])), y, rtol=1e-9)


@pytest.mark.parametrize("link", ["log", "identity", "softmax"])
def test_links_are_pooled_by_penalised_likelihood(link: str) -> None:
    rng = np.random.default_rng(3)
    if link == "softmax":
        predictions, y = classes()
        predictions = log_softmax(predictions, -1)
    else:
        signal = rng.normal(size=(ROWS, 1))
        predictions = np.stack([signal, 0.5 * signal, 0 * signal]) + 0.3 * rng.normal(size=(MEMBERS, ROWS, 1))
        y = (
            rng.poisson(np.exp(signal)).astype(float)
            if link == "log"
            else (signal > rng.normal(size=signal.shape)) * 1.0
        )
    loss = loss_of(link)

    def data_cost(weights: np.ndarray) -> float:
        pooled = np.einsum("m,mro->ro", weights, np.exp(predictions) if link == "log" else predictions)
        pooled = np.log(pooled + 1e-12) if link == "log" else pooled
        return float((loss(torch.from_numpy(pooled), torch.from_numpy(y)) * torch.from_numpy(WEIGHT)).sum())

    level = data_cost(np.full(MEMBERS, 1 / MEMBERS)) / WEIGHT.sum()
    strength = 0.5 * PRIOR * (min(1.0, level) if link == "softmax" else 1.0)
    expected = best(lambda weights: data_cost(weights) + strength * ((weights - 1 / MEMBERS) ** 2).sum())
    found = pool_links(predictions, y, WEIGHT, link)
    np.testing.assert_allclose(found, expected, atol=3e-3)
    assert np.ptp(found) > 0.1, "the members differ too little for this to be a test"


def test_classes_are_pooled_by_a_product_of_probabilities() -> None:
    logits, y = classes(3.0)
    pool = pool_classes(logits, y, WEIGHT)
    mass = WEIGHT @ y + 0.5
    shares = np.log(mass / mass.sum())
    constant = np.broadcast_to(shares, (1, *y.shape))
    weights = pool_links(np.concatenate([log_softmax(logits, -1), constant]), y, WEIGHT, "softmax")
    np.testing.assert_allclose(pool.weights, weights[:-1])
    np.testing.assert_allclose(pool.base, weights[-1] * shares)
    proba = softmax(np.random.default_rng(4).normal(size=(2, 2, 5, CLASSES)), -1)
    product = 2.0 ** -np.arange(CLASSES) * np.exp(0.9 * np.log(proba[0]).mean(0) + 0.4 * np.log(proba[1]).mean(0))
    base = np.log(2.0) * -np.arange(CLASSES)
    pooled = ClassPool(np.array([0.9, 0.4]), base, np.full(CLASSES, -np.inf))(np.log(proba))
    np.testing.assert_allclose(np.exp(pooled), product / product.sum(1, keepdims=True))


def test_members_worse_than_the_shares_of_the_classes_give_way_to_these() -> None:
    rng = np.random.default_rng(8)
    y = np.eye(CLASSES)[rng.choice(CLASSES, 3000, p=np.arange(1, CLASSES + 1) / np.arange(1, CLASSES + 1).sum())]
    pool = pool_classes(3 * rng.normal(size=(MEMBERS, 3000, CLASSES)), y, np.ones(3000))
    proba = np.exp(pool(rng.normal(size=(MEMBERS, 1, 50, CLASSES))))
    np.testing.assert_allclose(proba, np.broadcast_to(y.mean(0), proba.shape), atol=0.03)


def test_no_class_has_a_probability_of_zero() -> None:
    logits = np.zeros((1, 40, CLASSES))
    logits[..., 0] = 2000.0
    y = np.eye(CLASSES)[np.append(np.zeros(39, dtype=int), 1)]
    pool = ClassPool(np.ones(1), np.zeros(CLASSES), pool_classes(logits, y, np.ones(40)).trace)
    proba = np.exp(pool(logits[:, None]))
    assert proba.min() > 1e-6
    assert proba[:, 0].min() > 0.99
    np.testing.assert_allclose(proba.sum(1), 1)


def test_of_too_many_rows_every_so_many_are_used(monkeypatch) -> None:
    monkeypatch.setattr(_stack, "MAX_FIT_ROWS", 15)
    logits, y = classes()
    few = pool_links(logits[:, ::3], y[::3], WEIGHT[::3], "softmax")
    np.testing.assert_array_equal(pool_links(logits, y, WEIGHT, "softmax"), few)
    assert isinstance(pool_means(*numbers(), WEIGHT), Pool)


def test_weights_of_a_product_stay_below_three() -> None:
    """Members that know the labels, and are hardly sure of them."""
    labels = np.random.default_rng(6).integers(0, CLASSES, 4000)
    y = np.eye(CLASSES)[labels]
    weights = pool_links(np.stack([0.05 * y, 0.02 * y]), y, np.ones(4000), "softmax")
    np.testing.assert_allclose(weights, 3, rtol=1e-6)


@pytest.mark.parametrize("sure", [0.5, 3.0])
def test_the_prior_counts_as_five_rows_of_the_members_mean_loss_or_of_one(sure: float) -> None:
    """Members that are wrong have a loss above one, and the prior still that of five rows."""
    rng = np.random.default_rng(7)
    labels = rng.integers(0, CLASSES, ROWS)
    y = np.eye(CLASSES)[labels]
    wrong = np.eye(CLASSES)[(labels + (rng.random((MEMBERS, ROWS)) < 0.7)) % CLASSES]
    logits = sure * wrong + 0.2 * rng.normal(size=(MEMBERS, ROWS, CLASSES))
    logs = log_softmax(logits, -1)

    def data_cost(weights: np.ndarray) -> float:
        pooled = log_softmax(np.einsum("m,mrc->rc", weights, logs), -1)
        return -float(WEIGHT @ pooled[np.arange(ROWS), labels])

    level = data_cost(np.full(MEMBERS, 1 / MEMBERS)) / WEIGHT.sum()
    strength = 0.5 * PRIOR * min(1.0, level)
    expected = best(lambda weights: data_cost(weights) + strength * ((weights - 1 / MEMBERS) ** 2).sum())
    np.testing.assert_allclose(pool_links(logs, y, WEIGHT, "softmax"), expected, atol=3e-3)
    assert level > 1.1
