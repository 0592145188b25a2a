"""Targets that are probably wrong, by their likelihood under a predicted scale."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from likely._solvers.reweighting import settled_variance
from likely._typing import Array
from likely.auditing._out_of_fold import fold_out
from likely.auditing._predictable import predictable_targets
from likely.auditing._wrong_labels import LEAST
from likely.calibration import LinearScale
from likely.distributions import StudentT
from likely.functional import student_t_nll

_ANYWHERE = float(np.log(20.0))  # NLL of a wrong target: it may lie anywhere in 20 units of the squashed target
_TAILS = (2.5, 4.0, 8.0, 30.0)  # degrees of freedom that are tried
MOST = 0.15  # of the targets may lie far from their predictions; more are no errors, but how targets are spread
MOST_ALONE = 0.02  # the same where targets cannot be predicted
_FAR = 1e150  # further out is not told apart, so that squares and ratios stay finite
_FITTED = 50_000  # rows for the tails
_LINE = 5_000  # rows for the line that predicts scales


@dataclass(frozen=True)
class Squash:
    """y ↦ asinh((y - median) / spread): nearly linear in the middle, logarithmic far out.

    A target with a wrong unit is then a few steps away instead of thousands, and a factor is a step.

    >>> squash = Squash.of(np.array([1.0, 2.0, 3.0, 4.0, 3000.0]))
    >>> squash(np.array([3.0, 3000.0])).round(1), squash.back(squash(np.array([7.0]))).round(6)
    (array([0. , 8.3]), array([7.]))
    """

    centre: float
    spread: float

    @classmethod
    def of(cls, y: Array) -> Squash:
        y = np.clip(y, -_FAR, _FAR)
        centre = float(np.median(y))
        spread = 1.4826 * float(np.median(np.abs(y - centre)))
        return cls(centre, max(spread or float(np.std(y)) or 1.0, 1 / _FAR))

    def __call__(self, y: Array) -> Array:
        return np.arcsinh((np.clip(y, -_FAR, _FAR) - self.centre) / self.spread)

    def back(self, u: Array) -> Array:
        return np.asarray(np.sinh(u) * self.spread + self.centre)


@dataclass(frozen=True)
class TargetVerdict:
    """For every row the scale of its residual (in squashed units), the NLL of its target, and P(target is wrong).

    Where targets are not ``predictable``, ``mean`` is their median and the scale is the same for all. If ``far``, the
    share of targets far out, is ``too_many``, that is how targets are spread, and none is called wrong.
    """

    mean: Array
    scale: Array
    df: float
    nll: Array
    wrong: Array
    share: float
    predictable: bool
    far: float
    too_many: bool

    def distribution(self, rows: NDArray[np.int64] | slice = slice(None)) -> StudentT:
        """What the squashed target of each of these rows should be."""
        mean = torch.as_tensor(self.mean[rows])
        return StudentT(torch.full_like(mean, self.df), mean, torch.as_tensor(self.scale[rows]))

    def interval(self, rows: NDArray[np.int64], coverage: float = 0.9) -> tuple[Array, Array]:
        """The ends of the central interval of these rows."""
        tail, distribution = torch.tensor((1 - coverage) / 2, dtype=torch.float64), self.distribution(rows)
        return np.asarray(distribution.icdf(tail)), np.asarray(distribution.icdf(1 - tail))


def judge_targets(mean: Array, u: Array, features: NDArray[np.floating], seed: int = 0) -> TargetVerdict:
    r"""Which targets do predictions that were not fitted to them speak against?

    A target is right with probability :math:`1 - \epsilon`, and then Student-t around its prediction with a scale that
    is linear in the features and fitted to other rows; else it may lie anywhere. The degrees of freedom, a common
    factor of the scales and ε are those of highest likelihood. If the predictions do not beat the median, targets are
    judged by their distance from it alone.

    >>> rng = np.random.default_rng(0)
    >>> mean, x = rng.normal(size=500), rng.normal(size=(500, 2))
    >>> u = mean + 0.2 * rng.normal(size=500)
    >>> u[:10] += 3
    >>> verdict = judge_targets(mean, u, x)
    >>> bool(verdict.wrong[:10].min() > 0.9), int((verdict.wrong[10:] > 0.5).sum())
    (True, 0)
    """
    predictable = predictable_targets(mean, u, seed)
    if not predictable:
        mean = np.full(len(u), np.median(u))
    residual = u - mean
    scale = _scales(residual, np.column_stack([features, mean]), seed) if predictable else np.ones(len(u))
    some = np.random.RandomState(seed).permutation(len(u))[:_FITTED]
    df, factor, share = _contaminated(residual[some], scale[some])
    nll = _nll(residual, scale * factor, df)
    wrong = _posterior(nll, max(share, LEAST))
    far = float((wrong > 0.5).mean())
    too_many = far > (MOST if predictable else MOST_ALONE)
    wrong = np.minimum(wrong, 0.5) if too_many else wrong
    return TargetVerdict(mean, scale * factor, df, nll, wrong, share, predictable, far, too_many)


def _scales(residual: Array, features: NDArray[np.floating], seed: int) -> Array:
    """A scale for every residual, linear in the features, fitted to other rows."""
    usual = float(np.median(np.abs(residual))) or float(np.abs(residual).mean()) or 1.0
    tame = np.clip(residual, -8 * usual, 8 * usual)
    read = features.astype(np.float64)
    scale = np.empty(len(residual))
    for fit, rows in fold_out(len(residual), seed + 1, most=_LINE):
        nothing, none = np.zeros(len(fit)), np.zeros(len(rows))
        calibrator = LinearScale(likelihood="laplace").fit(nothing, None, tame[fit], features=read[fit])
        scale[rows] = calibrator.predict_scale(none, None, features=read[rows])
    return scale


def _contaminated(residual: Array, scale: Array) -> tuple[float, float, float]:
    """Degrees of freedom, a factor of all scales, and the share of wrong targets: EM for each of a few tails."""
    best, found = np.inf, (4.0, 1.0, 0.0)
    squares = np.square(residual / scale)
    for df in _TAILS:
        factor, share = 1.3 * float(np.median(np.abs(residual) / scale)) or 1.0, 0.02
        for _ in range(40):
            right = 1 - _posterior(_nll(residual, scale * factor, df), share)
            share = min(max(float(1 - right.mean()), 1e-6), 0.4)
            factor = float(np.sqrt(settled_variance(squares, right, factor**2, df)))
        nll = _nll(residual, scale * factor, df)
        cost = -float(np.logaddexp(np.log1p(-share) - nll, np.log(share) - _ANYWHERE).sum())
        if cost < best:
            best, found = cost, (df, factor, share)
    return found


def _nll(residual: Array, scale: Array, df: float) -> Array:
    r = torch.as_tensor(residual)
    found = student_t_nll(torch.zeros_like(r), r, df=df, scale=torch.as_tensor(scale), reduction="none")
    return np.asarray(found)


def _posterior(nll: Array, share: float) -> Array:
    """P(wrong) of a target with this NLL if it is right."""
    odds = np.clip(np.log1p(-share) - nll - np.log(share) + _ANYWHERE, -700, 700)
    return np.asarray(1 / (1 + np.exp(odds)))
