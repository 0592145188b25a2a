"""How much each member is heard: weights by the likelihood of what members said of rows that they had not seen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import minimize, nnls
from scipy.special import log_softmax, logsumexp, softmax
from torch import Tensor

from likely._typing import Array
from likely.tabular.members._glm import loss_of

PRIOR = 5.0  # rows that speak for hearing all members alike
TURNS = 200  # of EM, at most
COOLEST, WARMEST = 0.2, 5.0  # temperatures
TINY = 1e-12
ROWS = 100_000  # that weights are found by: more hardly move so few numbers


@dataclass(frozen=True)
class Pool:
    """A weighted sum of what members say, about a middle."""

    weights: Array  # (members,)
    centre: float

    def __call__(self, said: Array) -> Array:
        """(…) of predictions (members, …)."""
        return np.tensordot(self.weights, said - self.centre, 1) + self.centre


def pool_means(blind: Array, target: Array, weight: Array) -> Pool:
    """By least squares: predictions (members, rows) of targets (rows,), each row counting by its weight."""
    members = len(blind)
    centre = np.average(target, weights=weight)
    spread = np.average(np.square(target - blind.mean(0)), weights=weight)
    root = np.sqrt(weight)
    pull = np.sqrt(PRIOR * max(spread, 1e-300))
    rows = np.vstack([((blind - centre) * root).T, pull * np.eye(members)])
    found, _ = nnls(rows, np.append((target - centre) * root, np.full(members, pull / members)))
    return Pool(found, float(centre))


def pool_links(blind: Array, target: Array, weight: Array, link: str) -> Array:
    """By the link's likelihood: weights of predictions (members, rows, outputs) of targets (rows, outputs).

    Logarithms of means are pooled as means: one member that is far too high would take the others with it.
    """
    members, step = len(blind), -(-len(target) // ROWS)
    rows = blind[:, ::step], target[::step], weight[::step]
    said, y, mass = (torch.from_numpy(np.ascontiguousarray(own)) for own in rows)
    said = said.exp() if link == "log" else said
    loss = loss_of(link)
    start = np.full(members, 1 / members)
    prior = 0.0

    def cost(weights: Tensor) -> Tensor:
        pooled = torch.einsum("m,mro->ro", weights, said)
        own = loss((pooled + TINY).log() if link == "log" else pooled, y) * mass
        return own.sum() + prior * (weights - 1 / members).square().sum()

    level = float(cost(torch.from_numpy(start)) / mass.sum())
    prior = 0.5 * PRIOR * min(1.0, level if link == "softmax" else 1.0)  # where little is lost, it is little too

    def objective(at: Array) -> tuple[float, Array]:
        weights = torch.from_numpy(at).requires_grad_()
        own = cost(weights)
        (slope,) = torch.autograd.grad(own, weights)
        return float(own.detach()), slope.numpy()

    return np.asarray(minimize(objective, start, jac=True, bounds=[(0, 3)] * members, method="L-BFGS-B").x)


@dataclass(frozen=True)
class ClassPool:
    """Half a mean of the members' probabilities, half one of their logarithms, at a temperature."""

    shares: Array  # (members,) of the mean of probabilities
    weights: Array  # (members,) of the logarithms
    temperature: float

    def __call__(self, said: Array) -> Array:
        """Logarithms of probabilities (rows, classes) of logits (members, folds, rows, classes)."""
        logs = log_softmax(said, -1)
        linear = np.tensordot(self.shares, np.exp(logs).mean(1), 1)
        geometric = softmax(np.tensordot(self.weights, logs.mean(1), 1), -1)
        mixed = np.log(np.maximum(0.5 * linear + 0.5 * geometric, np.finfo(np.float64).tiny))
        return log_softmax(mixed / self.temperature, -1)


def pool_classes(blind: Array, target: Array, weight: Array) -> ClassPool:
    """Logits (members, rows, classes) of labels as indicators (rows, classes)."""
    step = -(-len(target) // ROWS)
    blind, target, weight = blind[:, ::step], target[::step], weight[::step]
    labels, rows = target.argmax(1), np.arange(len(target))
    logs = log_softmax(blind, -1)
    shares = _mixture(logs[:, rows, labels], weight)
    found = ClassPool(shares, pool_links(logs, target, weight, "softmax"), 1.0)
    mixed = found(blind[:, None])
    prior = PRIOR * min(1.0, float(-np.average(mixed[rows, labels], weights=weight)))

    def cost(log_temperature: Array) -> float:
        own = log_softmax(mixed * np.exp(-log_temperature[0]), -1)[rows, labels]
        return float(-(own @ weight) + prior * log_temperature[0] ** 2)

    bounds = [(np.log(COOLEST), np.log(WARMEST))]
    best = minimize(cost, np.zeros(1), bounds=bounds, method="L-BFGS-B").x[0]
    return ClassPool(found.shares, found.weights, float(np.exp(best)))


def _mixture(logs: Array, weight: Array) -> Array:
    """Shares by EM of log probabilities (members, rows) of what was the case."""
    members = len(logs)
    shares = np.full(members, 1 / members)
    for _ in range(TURNS):
        joint = logs + np.log(np.maximum(shares, 1e-300))[:, None]
        counts = np.exp(joint - logsumexp(joint, 0)) @ weight + PRIOR / members
        new = counts / counts.sum()
        if np.abs(new - shares).max() < 1e-5:
            break
        shares = new
    return shares
