"""Robust regression of tables in blocks: iterations that start from the fit of a sample and use sums over all rows.

In every iteration each block computes the weights of its rows under the present fit, and returns weighted sums. The
radius of the closest half of the rows, which bounds the scale from below, and the largest change of a prediction, which
ends the iterations, are computed on the sample.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import expit

from likely._rows.sources import Source
from likely._typing import Array
from likely.linear._blocks import CheckedBlock
from likely.linear._robust_density import Density
from likely.linear._robust_mixture import Mixture
from likely.linear._robust_rows import TINY, RobustRows, solved
from likely.linear._robust_scales import DataScales, settled_factor

SAMPLE = 1 << 15  # minimum rows of the initial fit; a table of fewer than twice as many is read as a whole
_RANK = 1e-11  # share of the largest eigenvalue below which an eigenvalue of the normal equations is zero
Sums = dict[str, Any]


@dataclass(frozen=True)
class RowsOfBlock:
    """Convert a block to robust units: the columns with a last one of ones, the target, and the weights."""

    checked: CheckedBlock
    units: RobustRows  # without rows

    def __call__(self, block: Any, *beside: Any) -> tuple[Array, Array, Array, Array]:
        """Return the design, the columns without the last one, the target and the weights."""
        _, x, y, weight = self.checked(block, *beside)
        weight = np.ones(len(x)) if weight is None else weight
        seen = weight > 0
        table = self.units.prepared(x[seen], y[seen, 0])
        columns, target = table[:, :-1], table[:, -1]
        design = np.hstack([columns, np.ones((len(table), 1 if self.units.intercept else 0))])
        return design, columns, target, weight[seen]


def added(first: Sums, second: Sums) -> Sums:
    """Return the sums of two blocks together."""
    return {name: value + second[name] for name, value in first.items()}


def squares(x: Array, residuals: Array, weight: Array) -> Sums:
    """Return the normal equations of weighted residuals."""
    pulled = weight * residuals
    return {"gram": (x.T * weight) @ x, "xr": pulled @ x, "rr": float(pulled @ residuals)}


@dataclass(frozen=True)
class Normal:
    """Normal equations of all rows, and the squares that remain after a step of the coefficients."""

    gram: Array
    xr: Array
    rr: float

    @classmethod
    def of(cls, sums: Sums, suffix: str = "") -> Normal:
        """Return the normal equations whose names have this suffix."""
        return cls(sums["gram" + suffix], sums["xr" + suffix], sums["rr" + suffix])

    def step(self, independent: bool) -> Array:
        """Return the step of least squares: that of smallest norm where columns depend on others."""
        if independent:
            return solved(self.gram, self.xr)
        return np.asarray(np.linalg.lstsq(self.gram, self.xr, rcond=_RANK)[0], dtype=np.float64)

    def rank(self, independent: bool) -> int:
        """Return the number of coefficients that the rows determine."""
        return len(self.xr) if independent else int(np.linalg.matrix_rank(self.gram, rtol=_RANK, hermitian=True))

    def left(self, step: Array) -> float:
        """Return the weighted squares after a step."""
        return max(float(self.rr - 2 * step @ self.xr + step @ self.gram @ step), 0.0)


@dataclass(frozen=True)
class _MixturePass:
    rows: RowsOfBlock
    fit: Mixture

    def __call__(self, block: Any, *beside: Any) -> Sums:
        x, columns, y, weight = self.rows(block, *beside)
        fit, density = self.fit, self.fit.density
        if fit.tilt is not None:
            relative = fit.tilt.relative(columns)
            x, y = x / relative[:, None], y / relative
        residuals = y - x @ fit.beta
        inlier = expit(fit.log_odds(residuals[None])[0])
        inside = density.weight(residuals / fit.inner[0]) * inlier * weight
        outside = density.weight(residuals / fit.outer[0]) * (1 - inlier) * weight
        outer = {name + "_out": value for name, value in squares(x, residuals, outside).items()}
        costs = density.costs(residuals, fit.inner[0], inlier * weight)
        totals = {"total": float(weight.sum()), "count": float(inlier @ weight), "costs": costs}
        return squares(x, residuals, inside) | outer | totals


def climb_blocks(
    source: Source, rows: RowsOfBlock, sample: RobustRows, start: Mixture, max_iter: int, tol: float
) -> Mixture:
    """Run expectation–maximisation of the mixture over all rows, as for rows in memory."""
    fit, independent = replace(start, betas=full(sample, start.beta)[None]), sample.turn is None
    x, columns = design_of(sample), sample.columns
    y = sample.y
    if fit.tilt is not None:
        relative = fit.tilt.relative(columns)
        x, y = x / relative[:, None], y / relative
    for _ in range(max_iter):
        sums = source.total(_MixturePass(rows, fit), added)
        fit = replace(fit, density=fit.density.chosen(sums["costs"]))
        near, far = Normal.of(sums), Normal.of(sums, "_out")
        step, count, total = near.step(independent), sums["count"], sums["total"]
        beta, p = fit.beta + step, near.rank(independent)
        floor = 0.2 * 1.4826 * float(sample.radius(np.abs(y - x @ beta))) + TINY
        inner = max(math.sqrt(near.left(step) / max(count - p, 0.3 * count)), floor)
        outer = max(math.sqrt(far.left(step) / max(total - count, TINY)), 3 * inner)
        share = float(np.clip(count / total, 0.5, 1 - 1 / (2 * max(total, 1.0))))
        scales = np.array([inner]), np.array([outer]), np.array([share])
        fit = Mixture(beta[None], *scales, fit.density, fit.n_iter + 1, fit.tilt)
        if np.abs(x @ step).max() <= tol * inner:
            break
    return fit


@dataclass(frozen=True)
class _PlainPass:
    rows: RowsOfBlock

    def __call__(self, block: Any, *beside: Any) -> Sums:
        x, _, y, weight = self.rows(block, *beside)
        return squares(x, y, weight) | {"total": float(weight.sum())}


@dataclass(frozen=True)
class _DataPass:
    rows: RowsOfBlock
    fit: DataScales
    tails: Density

    def __call__(self, block: Any, *beside: Any) -> Sums:
        x, _, y, weight = self.rows(block, *beside)
        fit, density = self.fit, self.fit.density
        residuals = y - x @ fit.beta
        z = residuals / fit.scale
        factor = settled_factor(z, fit.df, density)
        pull = density.weight(z / np.sqrt(factor)) / factor * weight
        as_normal = residuals * np.sqrt(density.weight(z))
        tails, shapes = self.tails.costs(as_normal, fit.scale, weight), density.costs(residuals, fit.scale, weight)
        return squares(x, residuals, pull) | {"total": float(weight.sum()), "tails": tails, "costs": shapes}


def reweight_blocks(
    source: Source,
    rows: RowsOfBlock,
    sample: RobustRows,
    density: Density,
    df: float | None,
    max_iter: int,
    tol: float,
) -> DataScales:
    """Run the reweighting of data scales over all rows, from least squares, as for rows in memory."""
    independent, x = sample.turn is None, design_of(sample)
    tails = Density("student_t", 4.0 if df is None else df, learn=df is None)
    sums = source.total(_PlainPass(rows), added)
    beta = Normal.of(sums).step(independent)
    scale = max(math.sqrt(Normal.of(sums).left(beta) / sums["total"]), TINY)
    fit = DataScales(beta, scale, tails.shape, density, 0)
    if scale <= TINY:
        return fit
    for _ in range(max_iter):
        sums = source.total(_DataPass(rows, fit, tails), added)
        tails, density = tails.chosen(sums["tails"]), fit.density.chosen(sums["costs"])
        normal = Normal.of(sums)
        step = normal.step(independent)
        scale = max(math.sqrt(normal.left(step) / sums["total"]), TINY)
        settled = np.abs(x @ step).max() <= tol * scale and abs(scale - fit.scale) <= 10 * tol * scale
        fit = DataScales(fit.beta + step, scale, tails.shape, density, fit.n_iter + 1)
        if settled:
            break
    return fit


def full(sample: RobustRows, beta: Array) -> Array:
    """Return coefficients of the columns: those that depend on others in the sample need not in all rows."""
    return beta if sample.turn is None else sample.turn @ beta


def design_of(sample: RobustRows) -> Array:
    """Return the columns, and a last one of ones if there is an intercept."""
    ones = np.ones((len(sample.y), int(sample.intercept)))
    return sample.x if sample.turn is None else np.hstack([sample.columns, ones])


@dataclass(frozen=True)
class OfRows:
    """Apply a function to the checked rows and targets of a block."""

    checked: CheckedBlock
    compute: Callable[[Array, Array], Array]

    def __call__(self, block: Any, *beside: Any) -> Array:
        """Return one number per row."""
        _, x, y, _ = self.checked(block, *beside)
        return self.compute(x, y[:, 0])
