"""The finding about targets: which are probably wrong, and what was to be expected."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likely._page import Picture
from likely._page.svg import MUTED, SERIES, panel, styled, to_svg
from likely.auditing._finding import Finding, Reason, label, number, worst_first
from likely.auditing._labels import overall, spread_out
from likely.auditing._wrong_targets import Squash, TargetVerdict

_FACTORS = (10.0, 100.0, 1000.0, 1e6, 2.54, 0.3048, 0.45359)  # tens, and inches, feet and pounds in metric units
_DRAWN = 3_000


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
            yield f"{number(float(y))}, expected {number(float(low))} to {number(float(high))}", reasons

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
