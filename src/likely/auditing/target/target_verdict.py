"""Which targets are probably wrong: their likelihood under predictions and scales that were not fitted to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit, logit

from likely._rows.blocks import row_blocks
from likely._solvers.reweighting import settled_variance
from likely._typing import Array, Mask, Places
from likely.auditing.columns.limits import Possible
from likely.auditing.columns.scale import FACTORS, Squash
from likely.auditing.slips.false_alarms import VARIANTS, by_chance
from likely.auditing.target.folds import fold_out
from likely.auditing.target.label_verdict import LEAST
from likely.auditing.target.predictability import predictable_targets
from likely.calibration import LinearScale
from likely.distributions import StudentT
from likely.functional import student_t_nll

# Judged by 196 errors planted in the targets of 12 tables, of which 119 are found: without slips 114, without _REACH
# 107, without the targets of other rows 115, with one tail for all tables 108.
_ANYWHERE = float(np.log(20.0))  # NLL of a target that may lie anywhere in 20 units of the squashed target
_KINDS = {"anywhere": 0.7, "another row's": 0.1, "unit": 0.2}  # what wrong targets are, before the data speak
_MOVED, _NEAR, _OFF = 3.0, 3.0, 2.0  # scales: a slip moves a target by more, to nearer than this, from further off
_TAILS = (2.5, 4.0, 8.0, 30.0)  # degrees of freedom that are tried
MOST = 0.15  # of the targets may lie far from their predictions; more are no errors, but how targets are spread
MOST_ALONE = 0.02  # the same where targets cannot be predicted
_FITTED = 50_000  # rows for the tails
_LINE = 5_000  # rows for the line that predicts scales
_REACH = 2.0  # the power by which right targets beyond all forecasts get rarer than the tails of the forecasts say
_OUTER = 0.95  # of the targets lie so near their median that nothing is beyond
_SLIPPED = 0.2  # the share of false alarms among targets that are called wrong because a unit or a sign mends them
SURELY_RIGHT = 3.0  # log-odds, at least, that a target is right which follows exactly from another column
_OTHERS = 500  # rows whose forecasts stand for all
GRID_POINTS = 300  # values at which their mean density is computed

Widen = Callable[[Places], Array]


@dataclass(frozen=True)
class TargetVerdict:
    """For every row the scale of its residual (in squashed units), the NLL of its target, and P(target is wrong).

    ``odds`` are the logarithm of the odds that it is wrong, by which rows rank. Where targets are not ``predictable``,
    ``mean`` is their median and the scale is the same for all. If ``far``, the share of targets far out, is
    ``too_many``, that is how targets are spread, and none is called wrong.
    """

    mean: Array
    scale: Array
    df: float
    nll: Array
    odds: Array
    wrong: Array
    share: float
    predictable: bool
    far: float
    too_many: bool

    def distribution(self, rows: Places | slice = slice(None)) -> StudentT:
        """What the squashed target of each of these rows should be."""
        mean = torch.as_tensor(self.mean[rows])
        return StudentT(torch.full_like(mean, self.df), mean, torch.as_tensor(self.scale[rows]))

    def interval(self, rows: Places, coverage: float = 0.9) -> tuple[Array, Array]:
        """The ends of the central interval of these rows."""
        tail, distribution = torch.tensor((1 - coverage) / 2, dtype=torch.float64), self.distribution(rows)
        return np.asarray(distribution.icdf(tail)), np.asarray(distribution.icdf(1 - tail))


def judge_targets(
    mean: Array,
    u: Array,
    features: NDArray[np.floating],
    seed: int = 0,
    *,
    scale: Array | None = None,
    squash: Squash | None = None,
    widen: Widen | None = None,
    exact: Mask | None = None,
) -> TargetVerdict:
    r"""Which targets do predictions that were not fitted to them speak against?

    A target is right with probability :math:`1 - \epsilon`, and then Student-t around its prediction with a scale that
    is linear in the features and fitted to other rows, averaged in the logarithm with ``scale`` where it is given;
    else it lies anywhere, or is another row's, or has a wrong unit. Beyond all predictions right targets get rarer by
    the square of their distance from the median. The degrees of freedom, a common factor of the
    scales and ε are those of highest likelihood. If the predictions do not beat the median, targets are judged by their
    distance from it alone.

    >>> rng = np.random.default_rng(0)
    >>> mean, x = rng.normal(size=500), rng.normal(size=(500, 2))
    >>> u = mean + 0.2 * rng.normal(size=500)
    >>> u[:10] += 3
    >>> verdict = judge_targets(mean, u, x)
    >>> bool(verdict.wrong[:10].min() > 0.9), int((verdict.wrong[10:] > 0.5).sum())
    (True, 0)
    """
    predictable = predictable_targets(mean, u, seed)
    mean, scale = _forecast(mean, u, features, seed, scale) if predictable else (np.full(len(u), np.median(u)), None)
    scale = np.ones(len(u)) if scale is None else scale
    some = np.random.RandomState(seed).permutation(len(u))[:_FITTED]
    df, factor, share = _contaminated((u - mean)[some], scale[some])
    scale = scale * factor
    rarer = np.zeros(len(u)) if squash is None or not predictable else beyond_limits(squash.back(u), squash.back(mean))

    def odds_of(rows: Places | slice) -> Array:
        density = wrong_density(
            u[rows], mean[rows], scale[rows], df, squash, lambda v: density_of_others(v, mean, scale, df)
        )
        right = -student_nll((u - mean)[rows], scale[rows], df) - rarer[rows]
        return np.log(max(share, LEAST)) - np.log1p(-share) + density - right

    odds = odds_of(slice(None))
    if widen is not None and predictable and len(doubted := np.flatnonzero(odds > 0)):
        scale[doubted] = np.sqrt(np.square(scale[doubted]) + widen(doubted))
        odds[doubted] = np.minimum(odds[doubted], odds_of(doubted))
    if squash is not None and predictable:
        chance = _slips_by_chance(u, mean, scale, df, squash)
        odds = np.where(chance <= _SLIPPED, np.maximum(odds, -logit(np.clip(chance, 1e-300, 1 - 1e-12))), odds)
    if exact is not None:
        odds = np.where(exact, np.minimum(odds, -SURELY_RIGHT), odds)
    wrong = expit(odds)
    far = float((wrong > 0.5).mean())
    too_many = far > (MOST if predictable else MOST_ALONE)
    wrong = np.minimum(wrong, 0.5) if too_many else wrong
    return TargetVerdict(
        mean, scale, df, student_nll(u - mean, scale, df), odds, wrong, share, predictable, far, too_many
    )


def _forecast(
    mean: Array, u: Array, features: NDArray[np.floating], seed: int, scale: Array | None
) -> tuple[Array, Array]:
    """The predictions with a scale per row: a line's, or its geometric mean with the scale that the models give."""
    line = _scales(u - mean, features, mean, seed)
    return mean, line if scale is None else np.sqrt(line * np.maximum(scale, 1e-9 * float(np.median(scale))))


def _scales(residual: Array, features: NDArray[np.floating], mean: Array, seed: int) -> Array:
    """A scale for every residual, linear in the features and the prediction, fitted to other rows."""
    usual = float(np.median(np.abs(residual))) or float(np.abs(residual).mean()) or 1.0
    tame = np.clip(residual, -8 * usual, 8 * usual)
    scale = np.empty(len(residual))

    def read(rows: Places) -> Array:
        return np.column_stack([features[rows], mean[rows]]).astype(np.float64)

    for fit, held in fold_out(len(residual), seed + 1, most=_LINE):
        calibrator = LinearScale(likelihood="laplace").fit(np.zeros(len(fit)), None, tame[fit], features=read(fit))
        for part in row_blocks(len(held), features.shape[1] + 1):
            rows = held[part]
            scale[rows] = calibrator.predict_scale(np.zeros(len(rows)), None, features=read(rows))
    return scale


def _contaminated(residual: Array, scale: Array) -> tuple[float, float, float]:
    """Degrees of freedom, a factor of all scales, and the share of wrong targets: EM for each of a few tails."""
    best, fit = np.inf, (4.0, 1.0, 0.0)
    squares = np.square(residual / scale)
    for df in _TAILS:
        factor, share = 1.3 * float(np.median(np.abs(residual) / scale)) or 1.0, 0.02
        for _ in range(40):
            right = 1 - _posterior(student_nll(residual, scale * factor, df), share)
            share = min(max(float(1 - right.mean()), 1e-6), 0.4)
            factor = float(np.sqrt(settled_variance(squares, right, factor**2, df)))
        nll = student_nll(residual, scale * factor, df)
        cost = -float(np.logaddexp(np.log1p(-share) - nll, np.log(share) - _ANYWHERE).sum())
        if cost < best:
            best, fit = cost, (df, factor, share)
    return fit


def student_nll(residual: Array, scale: Array, df: float) -> Array:
    """Negative log-likelihood of errors under Student's t distribution."""
    r = torch.as_tensor(residual)
    losses = student_t_nll(torch.zeros_like(r), r, df=df, scale=torch.as_tensor(scale), reduction="none")
    return np.asarray(losses)


def _posterior(nll: Array, share: float) -> Array:
    """P(wrong) of a target with this NLL if it is right, where a wrong one lies anywhere."""
    return np.asarray(expit(np.log(share) - _ANYWHERE - np.log1p(-share) + nll))


def wrong_density(
    u: Array, mean: Array, scale: Array, df: float, squash: Squash | None, others: Callable[[Array], Array]
) -> Array:
    """The log-density of wrong targets at u: anywhere, where those of other rows are, and at a wrong unit."""
    density = np.logaddexp(np.log(_KINDS["anywhere"]) - _ANYWHERE, np.log(_KINDS["another row's"]) + others(u))
    if squash is None:
        return density
    for factor in FACTORS:
        mended = squash.times(u, factor)
        moved = np.abs(mended - u) > _MOVED * scale
        # Near zero all units are alike, and a density there is that of zeros: it is not sharpened.
        stretch = np.minimum(squash.log_stretch(u, mended, factor), 0.0)
        fits = stretch - student_nll(mended - mean, scale, df) + np.log(_KINDS["unit"] / len(FACTORS))
        density = np.where(moved, np.logaddexp(density, fits), density)
    return density


def _slips_by_chance(u: Array, mean: Array, scale: Array, df: float, squash: Squash) -> Array:
    """For each target, the share of false alarms among targets that gain at least as much by another unit or sign."""
    gains = np.zeros((len(VARIANTS), len(u)))
    rows = np.flatnonzero(np.abs(u - mean) > _OFF * scale)
    given, mean, scale, y = u[rows], mean[rows], scale[rows], squash.back(u)
    possible = Possible.of(y)
    before = student_nll(given - mean, scale, df) + possible.nats(y[rows])
    for variant, times in enumerate(VARIANTS):
        for factor in FACTORS:
            mended = squash.times(given, factor * times)
            stretch = np.minimum(squash.log_stretch(given, mended, factor * times), 0.0)
            gain = before - student_nll(mended - mean, scale, df) + stretch - possible.nats(y[rows] * factor)
            fits = (np.abs(mended - mean) < _NEAR * scale) & (np.abs(mended - given) > _MOVED * scale)
            best = np.where(possible(y[rows] * factor) & fits, gain, 0.0)
            gains[variant][rows] = np.maximum(gains[variant][rows], best)
    return by_chance(gains[0], gains[1:])


def beyond_limits(y: Array, expected: Array) -> Array:
    """The logarithm of how much rarer a right target is for lying beyond all that is ever expected.

    Far out, squashed targets are logarithms: tails that are right for the many rows near the median let a target be ten
    times as large as any other at little cost.

    >>> targets, expected = np.array([*range(-50, 51), 5000.0]), np.array([*range(-50, 51), 40.0])
    >>> beyond_limits(targets, expected)[[0, 60, -1]].round(1).tolist()
    [0.0, 0.0, 9.2]
    """
    centre = float(np.median(y))
    off = np.abs(y - centre)
    reach = max(float(np.abs(expected - centre).max()), float(np.quantile(off, _OUTER)))
    return np.asarray(_REACH * np.log(np.maximum(off / reach, 1.0))) if reach > 0 else np.zeros(len(y))


def density_of_others(u: Array, mean: Array, scale: Array, df: float) -> Array:
    """The log-density at u of the target of any row, by the forecasts of some."""
    some = slice(None, None, -(-len(mean) // _OTHERS))
    grid = np.unique(np.quantile(u, np.linspace(0, 1, GRID_POINTS)))
    apart = grid[:, None] - mean[some]
    density = np.exp(-student_nll(apart, np.broadcast_to(scale[some], apart.shape).copy(), df)).mean(1)
    return np.interp(u, grid, np.log(np.maximum(density, 1e-300)))
