"""Predicted scales of tables in blocks: Fisher scoring over all rows, from the fit of a sample.

Each block computes the scales and weights of its rows under the present fit, and returns weighted sums. The largest
change of a prediction, which ends the iterations, is computed on the sample.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from likely._rows.sources import Source
from likely._rows.units import median
from likely._solvers.ridge import Ridge
from likely._typing import Array
from likely.linear._robust_blocks import Normal, RowsOfBlock, Sums, added, design_of, full, squares
from likely.linear._robust_density import Density
from likely.linear._robust_rows import TINY, RobustRows
from likely.linear._robust_scales import RIDGES, PredictedScales

_BINS = 1 << 16  # of the histogram in which the median is found
_ABOUT = 0.1  # log σ on either side of the sample's median that the histogram covers


@dataclass(frozen=True)
class _FeaturesOfBlock:
    """Features of predicted scales: the columns and, for ``predicted_xy``, the target."""

    rows: RowsOfBlock
    with_target: bool

    def __call__(self, block: Any, *beside: Any) -> tuple[Array, Array, Array, Array]:
        """Return the design, the features, the target and the weights."""
        x, columns, y, weight = self.rows(block, *beside)
        return x, self.of(columns, y), y, weight

    def of(self, columns: Array, y: Array) -> Array:
        """Return the features of rows in robust units."""
        return np.column_stack([columns, y]) if self.with_target else columns


@dataclass(frozen=True)
class _MomentsPass:
    features: _FeaturesOfBlock
    center: Array  # the sample's means: sums of squares around them do not cancel

    def __call__(self, block: Any, *beside: Any) -> Sums:
        _, features, _, weight = self.features(block, *beside)
        away = features - self.center
        return {"total": float(weight.sum()), "sum": weight @ away, "gram": (away.T * weight) @ away}


@dataclass(frozen=True)
class _Basis:
    """Directions of the standardised features in which their sums of squares are diagonal."""

    mean: Array
    deviation: Array
    vectors: Array
    values: Array
    total: float  # rows, by weight

    @classmethod
    def of(cls, sums: Sums, center: Array) -> _Basis:
        total, shift = sums["total"], sums["sum"] / sums["total"]
        centered = sums["gram"] - total * np.outer(shift, shift)
        mean, deviation = center + shift, np.sqrt(np.diag(centered).clip(min=0) / total)
        deviation = np.where(deviation > 1e-12 * (1 + np.abs(mean)), deviation, np.inf)
        values, vectors = np.linalg.eigh(centered / np.outer(deviation, deviation))
        return cls(mean, deviation, vectors, values.clip(min=0), total)

    def directions(self, features: Array) -> Array:
        return ((features - self.mean) / self.deviation) @ self.vectors

    def slopes(self, w: Array) -> Array:
        """Return slopes in the features."""
        return self.vectors @ w / self.deviation

    def coordinates(self, slopes: Array) -> Array:
        """Return slopes along the directions."""
        return self.vectors.T @ (slopes * np.where(np.isfinite(self.deviation), self.deviation, 0.0))


@dataclass(frozen=True)
class _ScorePass:
    """Sums of one step of Fisher scoring."""

    features: _FeaturesOfBlock
    basis: _Basis
    beta: Array
    w: Array
    offset: float
    floor: float  # of log σ
    density: Density

    def __call__(self, block: Any, *beside: Any) -> Sums:
        x, features, y, weight = self.features(block, *beside)
        directions = self.basis.directions(features)
        inverse = np.exp(-np.maximum(directions @ self.w + self.offset, self.floor))
        residuals = y - x @ self.beta
        z = residuals * inverse
        bent = self.density.weight(z)
        excess = weight * (bent * z * z - 1)
        sums = {"excess": float(excess.sum()), "pull": excess @ directions, "costs": self.density.costs(z, 1.0, weight)}
        return squares(x, residuals, weight * bent * inverse**2) | sums


@dataclass(frozen=True)
class _HistogramPass:
    """Weight of rows whose log σ is below a level, and in each bin above it."""

    features: _FeaturesOfBlock
    fit: PredictedScales
    edges: Array

    def __call__(self, block: Any, *beside: Any) -> Array:
        _, features, _, weight = self.features(block, *beside)
        place = np.searchsorted(self.edges, self.fit.log_scale(features))
        return np.bincount(place, weight, len(self.edges) + 1).astype(np.float64)


def score_blocks(
    source: Source,
    rows: RowsOfBlock,
    sample: RobustRows,
    start: PredictedScales,
    density: Density,
    with_target: bool,
    max_iter: int,
    tol: float,
) -> PredictedScales:
    """Return predicted scales of all rows."""
    beta, independent = full(sample, start.beta), sample.turn is None
    if start.scale <= TINY:
        return replace(start, beta=beta)
    features, x = _FeaturesOfBlock(rows, with_target), design_of(sample)
    sample_features = features.of(sample.columns, sample.y)
    center = np.average(sample_features, axis=0, weights=sample.weight)
    basis = _Basis.of(source.total(_MomentsPass(features, center), added), center)
    values, mass = basis.values * density.information, basis.total * density.information
    along, ridge = basis.directions(sample_features), Ridge(spread=float(len(values)))
    floor = math.log(1e-3 * float(sample.radius(np.abs(sample.y - x @ beta))) + TINY)
    w, offset = basis.coordinates(start.slopes), start.offset + float(basis.mean @ start.slopes)
    precision, updates = 1.0, 0  # as in memory, where the ridge and the shape are updated as often
    for n_iter in range(1, max_iter + 1):  # noqa: B007
        score = _ScorePass(features, basis, beta, w, offset, floor, density)
        sums = source.total(score, added)
        move = Normal.of(sums).step(independent)
        if with_target:  # then location and scale do interact, and the scales are to follow the new line
            after = replace(score, beta=beta + move)
            sums |= {name: value for name, value in source.total(after, added).items() if name in ("excess", "pull")}
        response = values * w + sums["pull"]
        step, shift = response / (values + precision) - w, sums["excess"] / mass
        moving = float(np.abs(along @ step + shift).max())
        scales = np.exp(np.maximum(along @ w + offset, floor))
        if max(moving, float(np.abs(x @ move / scales).max())) < tol:
            if updates == RIDGES:
                break
            precision, updates = ridge.best(values, response), updates + 1
            density = density.chosen(sums["costs"])
            step = response / (values + precision) - w
        damped = min(1.0, 1.0 / max(moving, 1e-300))  # far from the optimum a full step would overshoot
        beta, w, offset = beta + move, w + damped * step, offset + damped * shift
    slopes = basis.slopes(w)
    offset -= float(basis.mean @ slopes)
    middle = float(median(np.exp(sample_features @ slopes + offset), sample.weight))
    fit = PredictedScales(beta, slopes, offset, middle, density, precision, start.n_iter + n_iter)
    return replace(fit, scale=_median_scale(source, features, fit))


def _median_scale(source: Source, features: _FeaturesOfBlock, fit: PredictedScales) -> float:
    """Return the median of σ over all rows, near that of the sample."""
    middle, width = math.log(fit.scale), 2 * _ABOUT / _BINS
    while True:
        edges = middle + np.linspace(-_ABOUT, _ABOUT, _BINS + 1)
        below = np.cumsum(source.total(_HistogramPass(features, fit, edges)))
        place = int(np.searchsorted(below, 0.5 * below[-1]))
        if 0 < place <= _BINS:
            return float(np.exp(edges[place] - width / 2))
        middle += math.copysign(_ABOUT, place - 1)
