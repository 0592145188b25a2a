"""Robust principal components of tables in blocks: iterations from the fit of a sample, each a sum over all rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from likely._rows.sources import Source
from likely._typing import Array
from likely.linear._blocks import CheckedBlock, Head

SAMPLE = 1 << 15  # minimum rows of the initial fit; a table of fewer than twice as many is read as a whole


class Fit(NamedTuple):
    """A middle, a subspace, and the scale of the residual of a typical row."""

    mean: Array
    components: Array
    scale: float
    exact: bool  # whether most rows lie in the subspace; the scale is then the distance that counts as zero
    n_iter: int


@dataclass(frozen=True)
class Ends:
    """The head, the number of rows, and the smallest and largest number of each column."""

    head: Head
    rows: int
    low: Array
    high: Array

    def __add__(self, other: Ends) -> Ends:
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        return Ends(self.head, self.rows + other.rows, low, high)


@dataclass(frozen=True)
class EndsOfBlock:
    """Return the minima and maxima of a block, over its rows of positive weight."""

    checked: CheckedBlock

    def __call__(self, block: Any, *beside: Any) -> Ends:
        head, x, _, weight = self.checked(block, *beside)
        seen = x if weight is None else x[weight > 0]
        return Ends(head, len(x), seen.min(axis=0, initial=np.inf), seen.max(axis=0, initial=-np.inf))


@dataclass(frozen=True)
class Spread:
    """Sums over rows: counts, weights, rows about a middle, their products, and squared residuals."""

    rows: float
    weight: float
    first: Array
    products: Array
    left: float  # squared residuals from the subspace

    def __add__(self, other: Spread) -> Spread:
        return Spread(
            self.rows + other.rows,
            self.weight + other.weight,
            self.first + other.first,
            self.products + other.products,
            self.left + other.left,
        )


@dataclass(frozen=True)
class SpreadOfBlock:
    """Return the sums of a block, whose rows are weighted by the trust of the present fit."""

    checked: CheckedBlock
    unit: float
    fit: Fit
    trust: Callable[[Array, Fit], Array]

    def __call__(self, block: Any, *beside: Any) -> Spread:
        _, x, _, count = self.checked(block, *beside)
        x = x / self.unit
        count = np.ones(len(x)) if count is None else count
        centred = x - self.fit.mean
        squares = left(x, self.fit.mean, self.fit.components)
        weight = count * self.trust(squares, self.fit)
        products = (centred.T * weight) @ centred
        return Spread(float(count.sum()), float(weight.sum()), weight @ centred, products, float(weight @ squares))


@dataclass(frozen=True)
class OfTable:
    """Apply a function to the checked rows of a block."""

    checked: CheckedBlock
    compute: Callable[[Array], Array]

    def __call__(self, block: Any, *beside: Any) -> Array:
        """Return one number per row."""
        return self.compute(self.checked(block, *beside)[1])


def reweight_blocks(
    source: Source, spread: Callable[[Fit], SpreadOfBlock], fit: Fit, dimensions: int, max_iter: int, tol: float
) -> Fit:
    """Iterate PCA of all rows, reweighted, until the subspace turns by less than ``tol``."""
    for n_iter in range(1, max_iter + 1):
        sums = source.total(spread(fit))
        shift = sums.first / sums.weight
        products = sums.products / sums.weight - np.outer(shift, shift)
        components = np.linalg.eigh(products)[1][:, : -len(fit.components) - 1 : -1].T
        if fit.exact:
            return fit._replace(mean=fit.mean + shift, components=components)
        nothing = 1e-24 * float(np.trace(products)) + 1e-300
        scale = math.sqrt(max(sums.left / (sums.rows * dimensions), nothing))
        angle = turn(fit.components, components)
        fit = Fit(fit.mean + shift, components, scale, False, n_iter)
        if angle <= tol:
            break
    return fit


def left(X: Array, mean: Array, components: Array) -> Array:
    """Return the squared length of each row's residual from the subspace."""
    centred = X - mean
    return np.square(centred - centred @ components.T @ components).sum(1)


def turn(before: Array, after: Array) -> float:
    """Return the largest angle between two subspaces."""
    out = after - after @ before.T @ before
    return math.asin(min(1.0, float(np.linalg.norm(out, 2))))
