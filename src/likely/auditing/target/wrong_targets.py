"""Targets that are probably wrong: what was expected instead, and what would bring them back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from likely._page import Picture
from likely._page.svg import MUTED, SERIES, panel, styled, to_svg
from likely._typing import Array, Index
from likely.auditing.columns.limits import Possible
from likely.auditing.columns.scale import Squash
from likely.auditing.results.finding import Explained, Finding, Reason, label, number, worst_first
from likely.auditing.target.counterfactuals import Swap
from likely.auditing.target.hints import find_hint
from likely.auditing.target.label_verdict import overall, spread_out
from likely.auditing.target.target_verdict import TargetVerdict

_DRAWN, _POINTS = 3_000, 1_000  # points of the picture, and points that are drawn as shapes
_LABELS = 4  # an axis has this many labels if it can
Swaps = Callable[[Index], dict[int, list[Swap]]]


def wrong_targets(
    verdict: TargetVerdict,
    u: Array,
    squash: Squash,
    target: str,
    rows: Index,
    n: int,
    swaps: Swaps,
    factor: Array,
) -> Finding:
    """Rows whose target is more likely wrong than right."""
    certainty = spread_out(verdict.wrong, rows, n, 0.0)
    suspicious = certainty > 0.5
    place = np.full(n, -1)
    place[rows] = np.arange(len(rows))
    possible = Possible.of(squash.back(u))

    def explain(top: Index) -> Any:
        places = place[top]
        may_be_swapped = swaps(places)
        for i in places:
            columns = may_be_swapped.get(int(i), [])
            yield _explained(verdict, u, squash, target, int(i), columns, float(factor[i]), possible)

    count = int(suspicious.sum())
    return Finding(
        "targets",
        "Targets that are probably wrong",
        _sentence(verdict, count, target),
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


def _explained(
    verdict: TargetVerdict,
    u: Array,
    squash: Squash,
    target: str,
    row: int,
    columns: list[Swap],
    factor: float,
    possible: Possible,
) -> Explained:
    """What is said of one target."""
    mean, scale = float(verdict.mean[row]), float(verdict.scale[row])
    y, expected, above, below = (float(squash.back(np.array(v))) for v in (u[row], mean, mean + scale, mean - scale))
    low, high = (float(squash.back(end)[0]) for end in verdict.interval(np.array([row])))
    noise = (above - below) / 2
    hint = find_hint(y, mean, scale, verdict.df, squash, columns, factor, possible)
    reasons = [
        Reason(target, number(y), "given", 1.0),
        Reason("expected", _with_noise(expected, noise), f"90% between {number(low)} and {number(high)}"),
    ]
    if hint is not None:
        reasons.append(Reason("unit", hint.value, "would make it as expected"))
    return Explained(
        f"{target} = {number(y)}, expected {_with_noise(expected, noise)}" + (f"; {hint.headline}" if hint else ""),
        reasons,
        far=abs(float(u[row]) - mean) / scale,
        group=hint.group if hint else "",
    )


def _with_noise(value: float, noise: float) -> str:
    """A value and its noise, to the first two digits of the noise.

    >>> _with_noise(979.8712, 71.23), _with_noise(0.123456, 0.0123), _with_noise(5.0, 0.0)
    ('980 ± 71', '0.123 ± 0.012', '5 ± 0')
    """
    if not 0 < noise < np.inf or not np.isfinite(value):
        return f"{number(value)} ± {number(noise)}"
    digits = 1 - int(np.floor(np.log10(noise)))
    return f"{number(round(value, digits))} ± {number(round(noise, digits))}"


def _sentence(verdict: TargetVerdict, count: int, target: str) -> str:
    """How many targets are called wrong, or why none is."""
    rows = len(verdict.nll)
    if verdict.too_many:
        why = f"is far from expected in {verdict.far:.0%} of the rows: such values are normal, so none is listed."
        return f"{target} {why}" if verdict.predictable else f"{target} cannot be predicted from the columns, and {why}"
    if verdict.predictable:
        are = "is" if count == 1 else "are"
        return f"{count:,} of {rows:,} values of {target} {are} more likely wrong than right{overall(verdict.share)}."
    alone = (
        f"{target} cannot be predicted from the columns, so values are judged only by how far they lie from the others"
    )
    return f"{alone}: {count:,} of {rows:,} lie too far out."


def round_numbers(low: float, high: float, squash: Squash) -> list[float]:
    """Round numbers to label a squashed axis with, far enough apart.

    >>> round_numbers(-5.0, 30000.0, Squash(20.0, 5.0)), round_numbers(9.0, 47.0, Squash(23.0, 8.0))
    ([0.0, 20.0, 100.0, 1000.0, 10000.0], [10.0, 20.0, 30.0, 40.0])
    """
    labels = _labels_with((1, 2, 5), low, high, squash)
    return labels if len(labels) >= _LABELS else _labels_with(range(1, 10), low, high, squash)


def _labels_with(digits: Iterable[int], low: float, high: float, squash: Squash) -> list[float]:
    """Numbers that begin with one of these digits, and have no other."""
    sizes = [digit * 10.0**power for power in range(-9, 19) for digit in digits]
    inside = sorted(v for v in (0.0, *sizes, *(-size for size in sizes)) if low <= v <= high)
    apart = float(np.ptp(squash(np.array([low, high])))) / 9
    # The roundest first: zero, then powers of ten.
    chosen: list[float] = []
    for value in sorted(inside, key=lambda v: (v != 0, str(abs(v)).strip("0.")[:1] != "1", abs(v - squash.centre))):
        if all(abs(float(squash(np.array(value)) - squash(np.array(other)))) >= apart for other in chosen):
            chosen.append(value)
    return sorted(chosen)


@styled
def _scatter(verdict: TargetVerdict, u: Array, squash: Squash, target: str) -> Picture:
    figure, axes = panel(4.6, 3.6)
    wrong = verdict.wrong > 0.5
    random = np.random.RandomState(0)
    for mask, colour, name, size in (
        (~wrong, SERIES[1], "probably right", 6),
        (wrong, SERIES[4], "probably wrong", 16),
    ):
        some = random.permutation(np.flatnonzero(mask))[:_DRAWN]
        axes.scatter(
            verdict.mean[some],
            u[some],
            s=size,
            color=colour,
            alpha=0.6,
            linewidth=0,
            label=name,
            rasterized=len(some) > _POINTS,  # a raster keeps the colours of light mode in dark mode
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
        "One point per row; both axes are compressed far from the middle.",
    )
