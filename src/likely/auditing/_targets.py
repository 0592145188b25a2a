"""Targets that are probably wrong, by their likelihood under a predicted scale, and what was to be expected."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from likely._page import Picture
from likely._page.svg import MUTED, SERIES, panel, styled, to_svg
from likely._solvers.reweighting import settled_variance
from likely._typing import Array
from likely.auditing._finding import Explained, Finding, Reason, label, number, worst_first
from likely.auditing._labels import LEAST, overall, spread_out
from likely.auditing._out_of_fold import fold_out
from likely.auditing._predictable import predictable_targets
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
_FACTORS = (10.0, 100.0, 1000.0, 1e6, 2.54, 0.3048, 0.45359)  # tens, and inches, feet and pounds in metric units
_DRAWN = 3_000


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


def wrong_targets(
    verdict: TargetVerdict,
    u: NDArray[np.float64],
    squash: Squash,
    target: str,
    rows: NDArray[np.int64],
    n: int,
    by: str = "the columns",
) -> Finding:
    """Rows whose target is more likely wrong than right. ``rows`` are those judged, of ``n`` in the data.

    ``by`` names what the targets were predicted from.
    """
    certainty = spread_out(verdict.wrong, rows, n, 0.0)
    suspicious = certainty > 0.5
    place = np.full(n, -1)
    place[rows] = np.arange(len(rows))

    def explain(top: NDArray[np.int64]) -> Any:
        own = place[top]
        given, expected = squash.back(u[own]), squash.back(verdict.mean[own])
        ends = [squash.back(end) for coverage in (0.9, 0.998) for end in verdict.interval(own, coverage)]
        for y, mean, low, high, *wide in zip(given, expected, *ends, strict=True):
            reasons = [
                Reason(target, number(float(y)), "given", 1.0),
                Reason("expected", number(float(mean)), f"90% between {number(float(low))} and {number(float(high))}"),
            ]
            unit = wrong_unit(float(y), *wide)
            if unit:
                reasons.append(Reason("unit", unit, "would bring it to where it is expected"))
            yield Explained(f"{number(float(y))}, expected {number(float(low))} to {number(float(high))}", reasons)

    count = int(suspicious.sum())
    return Finding(
        "targets",
        "Targets that are probably wrong",
        _sentence(verdict, count, target, by),
        scores={
            "target_wrong": certainty,
            "target_nll": spread_out(verdict.nll, rows, n, np.nan),
            "expected": spread_out(squash.back(verdict.mean), rows, n, np.nan),
        },
        numbers={
            "rows": count,
            "judged": verdict.predictable,
            "share_wrong": verdict.share if verdict.predictable and not verdict.too_many else None,
            "df": verdict.df,
        },
        judged=verdict.predictable,
        pictures=(partial(_scatter, verdict, u, squash, target),) if verdict.predictable else (),
        **worst_first("targets", certainty, suspicious, explain),
    )


def _sentence(verdict: TargetVerdict, count: int, target: str, by: str) -> str:
    """How many targets are called wrong, or why none is."""
    rows = len(verdict.nll)
    if verdict.too_many:
        why = f"is far from expected in {verdict.far:.0%} of the rows: that is how it is spread; none is named."
        return f"{target} {why}" if verdict.predictable else f"{target} cannot be predicted from {by}, and {why}"
    if verdict.predictable:
        return f"{count:,} of {rows:,} values of {target} are more likely wrong than right{overall(verdict.share)}."
    alone = f"{target} cannot be predicted from {by}, so values are judged only by how far they lie from the others"
    return f"{alone}: {count:,} of {rows:,} lie too far out."


def wrong_unit(y: float, low: float, high: float) -> str:
    """The factor that brings a target back into its interval, if a usual one does.

    >>> wrong_unit(1500.0, 1.2, 1.9), wrong_unit(7.0, 1.0, 2.0)
    ('÷ 1,000', '')
    """
    for factor in _FACTORS:
        if low <= y / factor <= high:
            return f"÷ {factor:,g}"
        if low <= y * factor <= high:
            return f"× {factor:,g}"
    return ""


def round_numbers(low: float, high: float, squash: Squash) -> list[float]:
    """Round numbers to label a squashed axis with, far enough apart.

    >>> round_numbers(-5.0, 30000.0, Squash(20.0, 5.0))
    [0.0, 20.0, 100.0, 1000.0, 10000.0]
    """
    sizes = [digit * 10.0**power for power in range(-9, 19) for digit in (1, 2, 5)]
    inside = sorted(v for v in (0.0, *sizes, *(-size for size in sizes)) if low <= v <= high)
    apart = float(np.ptp(squash(np.array([low, high])))) / 9
    # The roundest first: zero, then powers of ten.
    kept: list[float] = []
    for value in sorted(inside, key=lambda v: (v != 0, str(abs(v)).strip("0.")[:1] != "1", abs(v - squash.centre))):
        if all(abs(float(squash(np.array(value)) - squash(np.array(other)))) >= apart for other in kept):
            kept.append(value)
    return sorted(kept)


@styled
def _scatter(verdict: TargetVerdict, u: NDArray[np.float64], squash: Squash, target: str) -> Picture:
    figure, axes = panel(4.6, 3.6)
    wrong = verdict.wrong > 0.5
    random = np.random.RandomState(0)
    for mask, colour, name, size in (
        (~wrong, SERIES[1], "probably right", 6),
        (wrong, SERIES[4], "probably wrong", 16),
    ):
        some = random.permutation(np.flatnonzero(mask))[:_DRAWN]
        axes.scatter(
            verdict.mean[some], u[some], s=size, color=colour, alpha=0.6, linewidth=0, label=name, rasterized=True
        )
    ends = float(min(verdict.mean.min(), u.min())), float(max(verdict.mean.max(), u.max()))
    axes.plot(ends, ends, color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
    low, high = squash.back(np.array(ends)).tolist()
    shown = round_numbers(low, high, squash)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks(squash(np.array(shown)).tolist(), [number(value) for value in shown])
    axes.set(xlabel=f"Expected {label(target)}", ylabel=f"Given {label(target)}")
    axes.legend(loc="lower right", handletextpad=0.2)
    return Picture(
        to_svg(figure),
        "Given over expected targets",
        "Each row once; the axes are stretched in the middle and shrunk far out.",
    )
