r"""A mixture of two scales: most rows have the small one, the others the large one, and which is not observed.

.. math:: p(r) = \pi\, \tfrac1{s} f(r / s) + (1 - \pi)\, \tfrac1{S} f(r / S), \qquad \pi \ge \tfrac12,\ S \ge 3 s.

Expectation–maximisation is reweighted least squares in which a row is weighted by its probability of being an inlier;
outliers do not enter the line at all, since even at a large scale far inputs would bend it. It climbs to the nearest
local maximum, so the start matters, and the highest maximum is not the best fit: distant rows close together cost more
nats as outliers than a bad fit of everything does. So the climb is repeated from several starts, and the fit with the
smallest residuals of a majority is kept, as in least trimmed squares.

Where the noise of the inliers varies with the inputs, s is a predicted scale (the tilt): rows are divided by it first.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.random import RandomState
from scipy.special import chdtri, expit, ndtr

from likely._rows.columns import median
from likely._typing import Array
from likely.linear._robust_density import Density
from likely.linear._robust_rows import TINY, RobustRows, rms, solved
from likely.linear._robust_scales import PredictedScales, refine_predicted

_CLIMBING = 5  # elemental starts that climb
_SURVIVORS = (200, 50)  # elemental starts left at each step of trimming
_HOPELESS = 100  # times as many starts as are drawn: where so many are needed, none is drawn
_CONCENTRATIONS = 10  # steps towards a majority of close residuals
_FIRST_ITERATIONS = 4  # iterations after which one start is chosen
_MAX_STARTS = 300  # fits to a few random rows from which the search starts
_MAX_SEARCH_ROWS = 1000  # rows that starts are searched on
_MAX_COMPARISON_ROWS = 5000  # rows that they are compared on
_MAX_STACK = 2e6  # maximum size of a stack of starts
_MIN_TOLD = 20  # rows per coefficient
_ALIKE = 1.4  # factor of the residuals of a majority up to which another fit, if it is far away, is told of
_APART = (2.0, 6.0)  # distance of two fits in these residuals, in that majority and in all rows
_MUCH_CLOSER = 0.7  # factor of those residuals below which rows of a dense column show outliers


@dataclass(frozen=True)
class Mixture:
    """Several fits at once: coefficients, small and large scale and share of inliers, one entry per fit."""

    betas: Array
    inner: Array
    outer: Array
    share: Array
    density: Density
    n_iter: int = 0
    tilt: PredictedScales | None = None  # how the small scale of the first fit varies with the inputs, if it does

    def log_odds(self, residuals: Array) -> Array:
        """Return the log odds of being an inlier."""
        odds = np.log(self.share * self.outer / ((1 - self.share) * self.inner))[:, None]
        loss = self.density.loss
        return odds + loss(residuals / self.outer[:, None]) - loss(residuals / self.inner[:, None])

    @property
    def beta(self) -> Array:
        """The coefficients of the first fit."""
        return self.betas[0]

    @property
    def scale(self) -> float:
        """The small scale of the first fit."""
        return float(self.inner[0])

    def trust(self, residuals: Array, features: Array) -> Array:
        """Return each row's probability of being an inlier of the only fit."""
        if self.tilt is not None:
            residuals = residuals / self.tilt.relative(features)
        return expit(self.log_odds(residuals[None])[0])

    def only(self, which: int) -> Mixture:
        """Return one of the fits."""
        one = [which]
        return replace(self, betas=self.betas[one], inner=self.inner[one], outer=self.outer[one], share=self.share[one])


def fit_mixture(rows: RobustRows, density: Density, max_iter: int, tol: float, random: RandomState) -> Mixture:
    """Return the mixture with the smallest residuals of a majority, among those that the starts lead to."""
    perfect = rows.perfect_fit()
    if perfect is not None:
        scale, share = np.array([TINY]), np.array([_largest_share(rows)])
        return Mixture(perfect[None], scale, 3 * scale, share, density)
    sample = rows.at_most(_MAX_COMPARISON_ROWS, random)
    plain = _LeastSquares.of(sample, sample.central(sample.columns))
    dense = _by_columns(sample.at_most(_MAX_SEARCH_ROWS, random))
    clean = _without_outliers(rows, plain, dense, density, max_iter, tol)
    if clean is not None:
        return clean
    starts = [plain.betas, _concentrated(sample, plain.betas), dense, _elemental(sample, random)]
    best = _best_of(sample, np.vstack(starts), density, tol)
    inlier = expit(best.log_odds(sample.residuals(best.betas))[0])
    tilt = _tilt(sample, best.beta, inlier * sample.weight, density, max_iter, 20 * tol)
    if tilt is None:
        return _climb(rows, best, max_iter, tol)
    inner = np.array([tilt.scale])
    best = replace(best, betas=tilt.beta[None], inner=inner, outer=np.maximum(3 * inner, best.outer))
    return replace(_climb(_levelled(rows, tilt), best, max_iter, tol), tilt=tilt)


@dataclass(frozen=True)
class _LeastSquares:
    """Two fits by least squares: of all rows, and of the half of them nearest the middle of the inputs."""

    rows: RobustRows
    near: Array  # one for rows of that half, nearly zero for the others
    betas: Array

    @classmethod
    def of(cls, rows: RobustRows, near: Array) -> _LeastSquares:
        betas, _ = rows.many_least_squares(np.vstack([np.ones(len(rows.y)), near]))
        return cls(rows, near, betas)

    def show_no_outliers(self, density: Density) -> bool:
        """Whether the residuals look normal, and the rows in the middle give much the same fit.

        Outliers in the target show in the first, inputs that bend the fit in the second. Most tables have neither, and
        then no search is needed.
        """
        n, p = float(self.rows.weight.sum()), self.rows.x.shape[1]
        if density.likelihood != "normal" or n < 4 * p:
            return False
        residuals, central = self.rows.residuals(self.betas)
        apart = rms(residuals - central, self.rows.weight * self.near)
        z, share = residuals / rms(residuals, self.rows.weight), self.rows.weight / n
        return bool(_distance_to_normal(z, share, n) < 1 and apart < 0.7 * self.rows.radius(np.abs(central)))


def _distance_to_normal(z: Array, share: Array, n: float) -> float:
    """Return √n times the largest difference of the distribution functions (Kolmogorov and Smirnov's)."""
    order = np.argsort(z, kind="stable")
    below, level = np.cumsum(share[order]), ndtr(z[order])
    gap = float(np.maximum(np.abs(below - level), np.abs(below - share[order] - level)).max())
    return (gap - 0.5 / n) * math.sqrt(n)  # at the middle of each step, where every row counts once


def _without_outliers(
    rows: RobustRows, plain: _LeastSquares, dense: Array, density: Density, max_iter: int, tol: float
) -> Mixture | None:
    """Return the fit from least squares, with one scale or a predicted one; None where there may be outliers."""
    betas = np.vstack([plain.betas, dense])
    closeness = _trimmed(plain.rows, np.abs(plain.rows.residuals(betas)))
    if closeness.min() < _MUCH_CLOSER * closeness[0]:
        return None
    if plain.show_no_outliers(density):
        _tell_of_rivals(plain.rows, betas, closeness, 0)
        return _climb(rows, _started_clean(rows, plain.betas[:1], density), max_iter, tol)
    sample = plain.rows
    tilt = _tilt(sample, plain.betas[0], sample.weight, density, max_iter, 20 * tol)
    if tilt is None:
        return None
    level = _LeastSquares.of(_levelled(sample, tilt), plain.near)
    if not level.show_no_outliers(density):
        return None
    rows = _levelled(rows, tilt)
    return replace(_climb(rows, _started_clean(rows, level.betas[:1], density), max_iter, tol), tilt=tilt)


def _best_of(rows: RobustRows, starts: Array, density: Density, tol: float) -> Mixture:
    """Return the likeliest of the mixtures near the one that has the smallest residuals of a majority.

    A line that is far from that one may be likelier, since distant rows close together cost many nats as outliers.
    """
    mixtures = _climb(rows, _started(rows, starts, density), _FIRST_ITERATIONS, 10 * tol)
    closeness = _trimmed(rows, np.abs(rows.residuals(mixtures.betas)))
    apart = _apart(rows, mixtures.betas, closeness, int(closeness.argmin()))
    best = int(np.where(apart, -np.inf, _likelihood(rows, mixtures)).argmax())
    _tell_of_rivals(rows, mixtures.betas, closeness, best)
    return mixtures.only(best)


def _tell_of_rivals(rows: RobustRows, betas: Array, closeness: Array, best: int) -> None:
    """Warn where another of these fits has residuals of a majority about as small, and is far from the best."""
    if rows.weight.sum() < _MIN_TOLD * rows.x.shape[1]:  # many lines are near a majority of few rows
        return
    if ((closeness < _ALIKE * closeness[best]) & _apart(rows, betas, closeness, best)).any():
        warnings.warn(
            "two very different lines fit most of the rows about equally well, and one of them was chosen: look for "
            "rows with extreme inputs or other units (weights_ has the weight of each row), and fit again without them",
            stacklevel=2,
        )


def _apart(rows: RobustRows, betas: Array, closeness: Array, best: int) -> Array:
    """Return which fits are far from the best, both in the majority that it fits and in all rows."""
    sizes = np.abs(rows.residuals(betas[best]))
    near = rows.weight * (sizes <= rows.radius(sizes))
    shift = np.square((betas - betas[best]) @ rows.x.T)
    # The majority may lie on a line exactly, at no distance.
    in_majority, in_all = (np.sqrt(shift @ w / w.sum()) for w in (near, rows.weight))
    return (in_majority > _APART[0] * closeness[best]) & (in_all > _APART[1] * closeness[best])


def _tilt(
    rows: RobustRows, beta: Array, weight: Array, density: Density, max_iter: int, tol: float
) -> PredictedScales | None:
    """Return how the scale of rows with these weights varies with the inputs, where it does.

    A predicted scale is fitted only if a score test finds that the logarithms of the residuals vary with the inputs
    (squares would depend on the largest few).
    """
    features, sizes = rows.columns, np.abs(rows.residuals(beta))
    if weight.sum() < 5 * features.shape[1]:
        return None
    excess = np.log(sizes + 0.1 * rows.radius(sizes) + TINY)
    excess = weight * (excess - np.average(excess, weights=weight))
    centred = features - np.average(features, axis=0, weights=weight)
    push, spread = excess @ centred, (centred.T * np.square(excess)) @ centred
    if push @ solved(spread, push) < chdtri(len(push), 1e-3):
        return None
    seen = np.flatnonzero(weight > 0.01 * rows.weight)
    trusted = replace(rows.some(seen), weight=weight[seen])
    return refine_predicted(trusted, features[seen], density, max_iter, tol)


def _levelled(rows: RobustRows, tilt: PredictedScales) -> RobustRows:
    """Return the rows divided by their relative scale, which makes the scale the same for all."""
    relative = tilt.relative(rows.columns)
    return replace(rows, x=rows.x / relative[:, None], y=rows.y / relative)


def _started(rows: RobustRows, betas: Array, density: Density) -> Mixture:
    residuals = rows.residuals(betas)
    inner = 1.4826 * rows.radius(np.abs(residuals)) + TINY
    outer = np.maximum(3 * inner, 1.5 * _overall_scale(rows, residuals))
    return Mixture(betas, inner, outer, np.full(len(betas), 0.7), density)


def _started_clean(rows: RobustRows, betas: Array, density: Density) -> Mixture:
    """Return a start at which nearly all rows are inliers."""
    overall = _overall_scale(rows, rows.residuals(betas))
    return Mixture(betas, overall, 3 * overall, np.full(len(betas), 0.98), density)


def _overall_scale(rows: RobustRows, residuals: Array) -> Array:
    return np.sqrt(np.average(np.square(residuals), axis=1, weights=rows.weight))


def _climb(rows: RobustRows, start: Mixture, max_iter: int, tol: float) -> Mixture:
    """Run expectation–maximisation until no prediction changes by ``tol`` small scales."""
    mixture, residuals = start, rows.residuals(start.betas)
    for _ in range(max_iter):
        parts = _Parts.of(mixture, residuals)
        betas, _ = rows.many_least_squares(parts.inside)
        residuals, moved = rows.residuals(betas), betas - mixture.betas
        mixture = _maximised(rows, mixture, betas, residuals, parts)
        if (np.abs(rows.x @ moved.T).max(0) <= tol * mixture.inner).all():
            break
    return mixture


class _Parts(NamedTuple):
    """The expectation step: shares of each row in the two parts of the mixture, one row of numbers per fit."""

    inlier: Array  # probability of being an inlier
    inside: Array  # weights in the squares of the small scale
    outside: Array  # and in those of the large one

    @classmethod
    def of(cls, mixture: Mixture, residuals: Array) -> _Parts:
        weight, inlier = mixture.density.weight, expit(mixture.log_odds(residuals))
        inside = weight(residuals / mixture.inner[:, None]) * inlier
        return cls(inlier, inside, weight(residuals / mixture.outer[:, None]) * (1 - inlier))


def _maximised(rows: RobustRows, mixture: Mixture, betas: Array, residuals: Array, parts: _Parts) -> Mixture:
    """Return the scales, the share of inliers and the shape of highest likelihood, given the coefficients.

    The small scale is divided by the degrees of freedom that the inliers have left, or few rows would seem more
    precise.
    """
    p, total, weight, density = rows.x.shape[1], rows.weight.sum(), rows.weight, mixture.density
    squares, count = np.square(residuals), parts.inlier @ weight
    floor = 0.2 * 1.4826 * rows.radius(np.abs(residuals)) + TINY
    inner = np.maximum(np.sqrt((parts.inside * squares) @ weight / np.maximum(count - p, 0.3 * count)), floor)
    outer = np.sqrt((parts.outside * squares) @ weight / np.maximum(total - count, TINY))
    share = np.clip(count / total, 0.5, _largest_share(rows))
    if len(betas) == 1:
        density = density.refitted(residuals[0], inner[0], parts.inlier[0] * weight)
    return Mixture(betas, inner, np.maximum(outer, 3 * inner), share, density, mixture.n_iter + 1)


def _largest_share(rows: RobustRows) -> float:
    """Return the largest share of inliers, which leaves half a row."""
    return 1 - 1 / (2 * max(float(rows.weight.sum()), 1.0))


def _likelihood(rows: RobustRows, fitted: Mixture) -> Array:
    """Return the log-likelihood of each fit up to a constant, its coefficients integrated out.

    So precision that a fit owes to its degrees of freedom has a cost.
    """
    residuals = rows.residuals(fitted.betas)
    inner, outer = fitted.inner[:, None], fitted.outer[:, None]
    odds = fitted.log_odds(residuals)
    # log(π f + (1 − π) F) is log(π f) less the logarithm of the probability of being an inlier.
    log_density = (
        np.log(fitted.share[:, None] / inner) - fitted.density.loss(residuals / inner) + np.logaddexp(0, -odds)
    )
    _, gram = rows.many_least_squares(expit(odds) / inner**2 + expit(-odds) / outer**2)
    return log_density @ rows.weight - 0.5 * np.linalg.slogdet(gram)[1]


def _by_columns(rows: RobustRows) -> Array:
    """Return fits to the rows where one column is densest: the best few after some steps of trimming.

    Where a column has wrong values or other units in some rows, these are not among them.
    """
    inside = np.stack([_densest_majority(column, rows.weight) for column in rows.columns.T])
    return _trimmed_down(rows, rows.many_least_squares(inside.astype(float))[0])


def _densest_majority(values: Array, weight: Array) -> Array:
    """Return which rows lie in the shortest interval that holds half of them."""
    order = np.argsort(values, kind="stable")
    below = np.append(0.0, np.cumsum(weight[order]))
    last = np.searchsorted(below, below[:-1] + below[-1] * (0.5 - 1e-9)) - 1
    first = np.flatnonzero(last < len(values))
    low, high = values[order[first]], values[order[last[first]]]
    tightest = int((high - low).argmin())
    return (values >= low[tightest]) & (values <= high[tightest])


def _concentrated(rows: RobustRows, betas: Array) -> Array:
    """Return fits to the majority nearest the median residual, repeated.

    Outliers on one side move the intercept further than the slopes, and rarely the median out of the inliers; unlike
    samples of a few rows, these starts do not need more luck with every column.
    """
    for _ in range(_CONCENTRATIONS):
        residuals = rows.residuals(betas)
        middle = np.array([median(each, rows.weight) for each in residuals])
        sizes = np.abs(residuals - middle[:, None])
        betas, _ = rows.many_least_squares((sizes <= rows.radius(sizes)[:, None]).astype(float))
    return betas


def _elemental(rows: RobustRows, random: RandomState) -> Array:
    """Return fits through as many rows as there are coefficients: the best few of many after two steps of trimming."""
    rows = rows.at_most(_MAX_SEARCH_ROWS, random)
    n, p = rows.x.shape
    # Enough for a sample without outliers with probability 0.9999 when half of the rows are outliers.
    enough = math.ceil(math.log(1e-4) / math.log1p(-(0.5**p))) if p < 50 else _MAX_STARTS
    m = min(_MAX_STARTS, enough, int(_MAX_STACK / (n + p * p)), int(5 * _MAX_STACK / (n * p)))
    if m < 1 or n <= p or enough > _HOPELESS * _MAX_STARTS:
        return np.empty((0, p))
    chosen = np.argpartition(random.random_sample((m, n)), p, axis=1)[:, :p]
    x, y = rows.x[chosen], rows.y[chosen]
    across = x.transpose(0, 2, 1)
    beta = solved(across @ x, (across @ y[..., None])[..., 0])
    return _trimmed_down(rows, beta)


def _trimmed_down(rows: RobustRows, beta: Array) -> Array:
    """Return the best few fits after two steps of trimming."""
    for survivors in _SURVIVORS:
        sizes = np.abs(rows.residuals(beta))
        radius = rows.radius(sizes)
        best = np.argsort(radius)[:survivors]
        beta, _ = rows.many_least_squares((sizes[best] <= radius[best, None]).astype(float))
    return beta[np.argsort(rows.radius(np.abs(rows.residuals(beta))))[:_CLIMBING]]


def _trimmed(rows: RobustRows, sizes: Array) -> Array:
    """Return the root mean square of the majority that is fitted best."""
    inside: Array = (sizes <= rows.radius(sizes)[:, None]) * rows.weight
    return np.sqrt((inside * np.square(sizes)).sum(1) / inside.sum(1))
