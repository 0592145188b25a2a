"""Weights of the members, by the likelihood of their out-of-fold predictions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import minimize, nnls
from scipy.special import log_softmax, logsumexp, softmax
from torch import Tensor

from likely._typing import Array
from likely.tabular.members.glm import loss_of

PRIOR_ROWS = 5.0  # strength of the prior for equal weights, in rows
EM_STEPS = 200  # largest number of EM steps
MIN_TEMPERATURE, MAX_TEMPERATURE = 0.2, 5.0  # bounds of the temperature
TINY = 1e-12
MAX_FIT_ROWS = 100_000  # largest number of rows for fitting the weights: more hardly change so few numbers


@dataclass(frozen=True)
class Pool:
    """A weighted sum of predictions, each less a centre that is added again."""

    weights: Array  # (members,)
    centre: float

    def __call__(self, predictions: Array) -> Array:
        """Combine predictions of shape (members, …)."""
        return np.tensordot(self.weights, predictions - self.centre, 1) + self.centre


def pool_means(out_of_fold: Array, target: Array, weight: Array) -> Pool:
    """Fit weights by weighted least squares, from predictions (members, rows) of targets (rows,)."""
    members = len(out_of_fold)
    centre = np.average(target, weights=weight)
    spread = np.average(np.square(target - out_of_fold.mean(0)), weights=weight)
    root = np.sqrt(weight)
    pull = np.sqrt(PRIOR_ROWS * max(spread, 1e-300))
    rows = np.vstack([((out_of_fold - centre) * root).T, pull * np.eye(members)])
    weights, _ = nnls(rows, np.append((target - centre) * root, np.full(members, pull / members)))
    return Pool(weights, float(centre))


def pool_links(out_of_fold: Array, target: Array, weight: Array, link: str) -> Array:
    """Fit weights by the link's likelihood, from predictions (members, rows, outputs) of targets (rows, outputs).

    Logarithms of means are combined as means: in a sum of logarithms a member far too high multiplies the others.
    """
    members, step = len(out_of_fold), -(-len(target) // MAX_FIT_ROWS)
    rows = out_of_fold[:, ::step], target[::step], weight[::step]
    predictions, y, mass = (torch.from_numpy(np.ascontiguousarray(array)) for array in rows)
    predictions = predictions.exp() if link == "log" else predictions
    loss = loss_of(link)
    start = np.full(members, 1 / members)
    prior = 0.0

    def cost(weights: Tensor) -> Tensor:
        pooled = torch.einsum("m,mro->ro", weights, predictions)
        losses = loss((pooled + TINY).log() if link == "log" else pooled, y) * mass
        return losses.sum() + prior * (weights - 1 / members).square().sum()

    level = float(cost(torch.from_numpy(start)) / mass.sum())
    prior = 0.5 * PRIOR_ROWS * min(1.0, level if link == "softmax" else 1.0)  # weaker where the loss is small

    def objective(values: Array) -> tuple[float, Array]:
        weights = torch.from_numpy(values).requires_grad_()
        total = cost(weights)
        (gradient,) = torch.autograd.grad(total, weights)
        return float(total.detach()), gradient.numpy()

    return np.asarray(minimize(objective, start, jac=True, bounds=[(0, 3)] * members, method="L-BFGS-B").x)


@dataclass(frozen=True)
class ClassPool:
    """The average of an arithmetic and a geometric mean of the members' probabilities, at a temperature."""

    shares: Array  # (members,): of the arithmetic mean
    weights: Array  # (members,): of the geometric mean
    temperature: float

    def __call__(self, predictions: Array) -> Array:
        """Combine logits (members, folds, rows, classes) to log probabilities (rows, classes)."""
        logs = log_softmax(predictions, -1)
        linear = np.tensordot(self.shares, np.exp(logs).mean(1), 1)
        geometric = softmax(np.tensordot(self.weights, logs.mean(1), 1), -1)
        mixed = np.log(np.maximum(0.5 * linear + 0.5 * geometric, np.finfo(np.float64).tiny))
        return log_softmax(mixed / self.temperature, -1)


def pool_classes(out_of_fold: Array, target: Array, weight: Array) -> ClassPool:
    """Fit weights from logits (members, rows, classes) of labels as indicators (rows, classes)."""
    step = -(-len(target) // MAX_FIT_ROWS)
    out_of_fold, target, weight = out_of_fold[:, ::step], target[::step], weight[::step]
    labels, rows = target.argmax(1), np.arange(len(target))
    logs = log_softmax(out_of_fold, -1)
    shares = _mixture(logs[:, rows, labels], weight)
    pool = ClassPool(shares, pool_links(logs, target, weight, "softmax"), 1.0)
    mixed = pool(out_of_fold[:, None])
    prior = PRIOR_ROWS * min(1.0, float(-np.average(mixed[rows, labels], weights=weight)))

    def cost(log_temperature: Array) -> float:
        log_proba = log_softmax(mixed * np.exp(-log_temperature[0]), -1)[rows, labels]
        return float(-(log_proba @ weight) + prior * log_temperature[0] ** 2)

    bounds = [(np.log(MIN_TEMPERATURE), np.log(MAX_TEMPERATURE))]
    best = minimize(cost, np.zeros(1), bounds=bounds, method="L-BFGS-B").x[0]
    return ClassPool(pool.shares, pool.weights, float(np.exp(best)))


def _mixture(logs: Array, weight: Array) -> Array:
    """Fit the shares of a mixture by EM, from log probabilities (members, rows) of the labels."""
    members = len(logs)
    shares = np.full(members, 1 / members)
    for _ in range(EM_STEPS):
        joint = logs + np.log(np.maximum(shares, 1e-300))[:, None]
        counts = np.exp(joint - logsumexp(joint, 0)) @ weight + PRIOR_ROWS / members
        new = counts / counts.sum()
        if np.abs(new - shares).max() < 1e-5:
            break
        shares = new
    return shares
