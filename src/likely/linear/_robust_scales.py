r"""A scale per row: a free one under a hyperprior (data), or one that is linear in the inputs (predicted).

**Data.** With :math:`\sigma_i = s u_i` free for each row the likelihood has no maximum: the scale of a row that is
fitted exactly falls to zero. Under the inverse-gamma hyperprior :math:`\nu / u^2 \sim \chi^2_\nu` the best scale is
:math:`u^2 = (\nu + z^2) / (\nu + 1)`, and the marginal density is Student's t, whose :math:`\nu` and :math:`s` can be
learned.

**Predicted.** With :math:`\log \sigma_i = a + b \cdot x_i` Fisher scoring for :math:`(a, b)` alternates with weighted
least squares; they do not interact, as the information of a location and a scale is block diagonal. The information of
log σ is the same everywhere, so its eigenvectors are computed once and the ridge on b is learned by evidence.
"""

import math
from dataclasses import dataclass

import numpy as np

from likely._rows.columns import mean_and_deviation, median
from likely._solvers.reweighting import row_precision
from likely._solvers.ridge import Ridge
from likely._typing import Array
from likely.linear._robust_density import Density
from likely.linear._robust_rows import TINY, RobustRows, rms

_SCALE_ONLY_ITERATIONS = 8  # iterations of the scales before the coefficients change too
_RIDGE_UPDATES = 2  # number of times the ridge is updated


@dataclass(frozen=True)
class DataScales:
    """Coefficients, a common scale s, and the hyperprior's degrees of freedom."""

    beta: Array
    scale: float
    df: float
    density: Density
    n_iter: int

    def trust(self, residuals: Array, _features: Array) -> Array:
        """Return the precision of each row relative to the common one, at most one."""
        return np.minimum(1.0, 1 / settled_factor(residuals / self.scale, self.df, self.density))


def fit_data(rows: RobustRows, density: Density, df: float | None, max_iter: int, tol: float) -> DataScales:
    """Reweight from least squares to the nearest optimum, which rows with distant inputs can spoil."""
    weight = rows.weight
    tails = Density("student_t", 4.0 if df is None else df, learn=df is None)
    perfect = rows.perfect_fit()
    if perfect is not None:
        return DataScales(perfect, TINY, tails.shape, density, 0)
    beta = rows.least_squares(np.ones(len(rows.y)))
    residuals = rows.residuals(beta)
    scale, factor, n_iter, left = rms(residuals, weight), np.ones(len(residuals)), 0, rows.left
    while n_iter < max_iter:
        n_iter += 1
        z = residuals / scale
        factor = _factor(z, factor, tails.shape, density)  # u²
        pull = density.weight(z / np.sqrt(factor)) / factor
        moved = rows.least_squares(pull)
        moving = np.abs(rows.x @ (moved - beta)).max()
        beta, residuals = moved, rows.residuals(moved)
        before = scale
        scale = max(math.sqrt(weight @ (pull * np.square(residuals)) / left), TINY)
        as_normal = residuals * np.sqrt(density.weight(residuals / scale))
        density = density.refitted(residuals, scale, weight)
        tails = tails.refitted(as_normal, scale * math.sqrt(left / weight.sum()), weight)
        if moving <= tol * scale and abs(scale - before) <= 10 * tol * scale:
            break
    return DataScales(beta, scale, tails.shape, density, n_iter)


def settled_factor(z: Array, df: float, density: Density) -> Array:
    """Return the optimal u² of each row."""
    factor = np.ones(len(z))
    for _ in range(20 if density.likelihood != "normal" else 1):
        factor = _factor(z, factor, df, density)
    return factor


def _factor(z: Array, factor: Array, df: float, density: Density) -> Array:
    """Return u² of each row after one step towards the optimum."""
    bent = density.weight(z / np.sqrt(factor))
    return 1 / row_precision(bent * z * z, df)


@dataclass(frozen=True)
class PredictedScales:
    """Coefficients, and log σ as a line in the features."""

    beta: Array
    slopes: Array
    offset: float
    scale: float  # the median of them
    density: Density
    n_iter: int

    def trust(self, _residuals: Array, features: Array) -> Array:
        """Return the precision of each row relative to that of the median row, at most one."""
        return np.minimum(1.0, self.relative(features) ** -2)

    def relative(self, features: Array) -> Array:
        """Return the scale of each row relative to the median one."""
        return np.exp(np.clip(self.log_scale(features) - math.log(self.scale), -50, 50))

    def log_scale(self, features: Array) -> Array:
        """Return log σ of each row."""
        return features @ self.slopes + self.offset


def refine_predicted(rows: RobustRows, features: Array, density: Density, max_iter: int, tol: float) -> PredictedScales:
    """Fit predicted scales to rows that are trusted already, with slopes that a test has found."""
    return _Scoring(rows, features, density, max_iter, tol).run(np.ones(len(rows.y)), ridges=1, sure=True)


def fit_predicted(rows: RobustRows, features: Array, density: Density, max_iter: int, tol: float) -> PredictedScales:
    """Fit predicted scales from all rows and from those near the middle of the features; keep the likelier fit."""
    perfect = rows.perfect_fit()
    if perfect is not None:
        return PredictedScales(perfect, np.zeros(features.shape[1]), math.log(TINY), TINY, density, 0)
    scoring = _Scoring(rows, features, density, max_iter, tol)
    likelier = min((scoring.run(start) for start in (np.ones(len(rows.y)), rows.central(features))), key=scoring.cost)
    log_scale = likelier.log_scale(features)
    final = scoring.run(np.exp(2 * (log_scale.min() - log_scale)), ridges=_RIDGE_UPDATES)
    # The learned ridge costs far less than a nat per row, unless the search diverged.
    return final if scoring.cost(final) < scoring.cost(likelier) + rows.weight.sum() else likelier


class _Scoring:
    def __init__(self, rows: RobustRows, features: Array, density: Density, max_iter: int, tol: float) -> None:
        self.rows, self.max_iter, self.tol, self.density = rows, max_iter, tol, density
        self.features, total = features, rows.weight.sum()
        self.mean, self.deviation = mean_and_deviation(features, rows.weight)
        standard = (features - self.mean) / self.deviation
        values, self.vectors = np.linalg.eigh((standard.T * rows.weight) @ standard)
        self.values = values.clip(min=0) * density.information
        self.mass, self.lost = total * density.information, total / rows.left
        self.directions = standard @ self.vectors
        self.ridge = Ridge(spread=float(features.shape[1]))

    def run(self, start: Array, ridges: int = 0, sure: bool = False) -> PredictedScales:
        """Return the fit that starts from this weighting of the rows, at a ridge of one and then at the best ones."""
        rows, weight, density = self.rows, self.rows.weight, self.density
        beta = rows.least_squares(start)
        residuals = rows.residuals(beta)
        w, offset = np.zeros(len(self.values)), math.log(rms(residuals, weight * start))
        precision, n_iter, updates, held = 1.0, 0, 0, 1 if sure else _SCALE_ONLY_ITERATIONS
        floor = math.log(1e-3 * float(rows.radius(np.abs(residuals))) + TINY)  # without it a scale may fall to zero
        for n_iter in range(1, self.max_iter + 1):
            log_scale = np.maximum(self.directions @ w + offset, floor)
            bent = density.weight(residuals * np.exp(-log_scale))
            if n_iter > held:
                beta = rows.many_least_squares((bent * np.exp(-2 * log_scale))[None])[0][0]
                residuals = rows.residuals(beta)
            excess = weight * (bent * np.square(residuals * np.exp(-log_scale)) * self.lost - 1)
            # Rows at the floor that are fitted closely would drive the line of the scales down without end.
            excess = np.where(log_scale > floor, excess, excess.clip(min=0))
            response = self.values * w + excess @ self.directions
            step, shift = response / (self.values + precision) - w, excess.sum() / self.mass
            moving = float(np.abs(self.directions @ step + shift).max())
            if moving < self.tol and n_iter > held:
                if updates == ridges:
                    break
                around = {"around": precision, "radius": 7.0} if sure else {}
                precision, updates = self.ridge.best(self.values, response, **around), updates + 1
                density = density.refitted(residuals * np.exp(-log_scale), 1.0, weight)
                step = response / (self.values + precision) - w
            # Far from the optimum the squares are huge and a full step would overshoot.
            damped = min(1.0, 1.0 / max(moving, 1e-300))
            w, offset = w + damped * step, offset + damped * shift
        slopes = self.vectors @ w / self.deviation
        middle = float(median(np.exp(self.directions @ w + offset), weight))
        offset -= float(self.mean @ slopes)
        return PredictedScales(beta, slopes, offset, middle, density, n_iter)

    def cost(self, fit: PredictedScales) -> float:
        """Return the minimised cost; with the target among the features it is not minus a log-likelihood."""
        log_scale = fit.log_scale(self.features)
        losses = fit.density.nll(self.rows.residuals(fit.beta), np.exp(log_scale))
        return float(self.rows.weight @ losses)
