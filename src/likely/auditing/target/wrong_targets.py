"""Targets that are probably wrong: what was expected instead, and what would bring them back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from scipy.special import stdtrit

from likely._page import Picture
from likely._page.svg import MUTED, SERIES, panel, styled, to_svg
from likely._typing import Index
from likely.auditing.columns.limits import ColumnLimits
from likely.auditing.columns.scale import AsinhScale
from likely.auditing.results.finding import Explained, Finding, Reason, label, number, worst_first
from likely.auditing.target.counterfactuals import Swap, find_hint
from likely.auditing.target.target_verdict import TargetVerdict
from likely.auditing.target.wrong_labels import overall, spread_out

_DRAWN, _POINTS = 3_000, 1_000  # points of the picture, and points that are drawn as shapes
_LABELS = 6  # of an axis, at most


def wrong_targets(
    verdict: TargetVerdict,
    target: str,
    rows: Index,
    n: int,
    swaps: Callable[[Index], dict[int, list[Swap]]],
    of_all: tuple[int, int] | None = None,
) -> Finding:
    """Rows whose target is more likely wrong than right. ``rows`` are those with a target, of ``n`` in the data.

    ``of_all`` is the number of wrong targets and of rows, if there are more than these.
    """
    certainty, squash = spread_out(verdict.wrong, rows, n, 0.0), verdict.squash
    possible = ColumnLimits.of(squash.back(verdict.u))

    def explain(top: Index) -> Iterator[Explained]:
        places = np.searchsorted(rows, top)
        swapped = swaps(places)
        for place in places.tolist():
            yield _explained(verdict, squash, target, place, possible, swapped.get(place, []))

    count, total = (int((verdict.wrong > 0.5).sum()), len(rows)) if of_all is None else of_all
    return Finding(
        "targets",
        "Targets that are probably wrong",
        _sentence(verdict, count, total, target),
        scores={name: spread_out(values, rows, n) for name, values in verdict.scores.items()}
        | {"target_wrong": certainty},
        numbers={
            "rows": count,
            "judged": verdict.predictable,
            "share_wrong": verdict.share if verdict.predictable and not verdict.too_many else None,
            "df": verdict.df,
        },
        judged=verdict.predictable,
        pictures=(partial(_scatter, verdict, squash, target),) if verdict.predictable else (),
        **worst_first("targets", certainty, certainty > 0.5, explain),
    )


def _explained(
    verdict: TargetVerdict, squash: AsinhScale, target: str, row: int, possible: ColumnLimits, swapped: list[Swap]
) -> Explained:
    """What is said of one target."""
    u, mean, scale = (float(values[row]) for values in (verdict.u, verdict.mean, verdict.scale))
    reach = scale * float(stdtrit(verdict.df, 0.95))
    ends = np.array([u, mean, mean - scale, mean + scale, mean - reach, mean + reach])
    y, centre, below, above, low, high = squash.back(ends).tolist()
    expected = _with_noise(centre, (above - below) / 2)
    hint = find_hint(y, mean, scale, verdict.df, squash, possible, swapped)
    reasons = [
        Reason(target, number(y), "given", 1.0),
        Reason("expected", expected, f"90% between {number(low)} and {number(high)}"),
    ]
    reasons += [Reason("unit", hint.removesuffix(" would fit"), "would make it as expected")] if hint else []
    headline = f"{target} = {number(y)}, expected {expected}" + (f"; {hint}" if hint else "")
    return Explained(headline, reasons, far=abs(u - mean) / scale, group=hint)


def _with_noise(value: float, noise: float) -> str:
    """A value and its noise, to the first two digits of the noise.

    >>> _with_noise(979.8712, 71.23), _with_noise(0.123456, 0.0123), _with_noise(5.0, 0.0)
    ('980 ± 71', '0.123 ± 0.012', '5 ± 0')
    """
    if not 0 < noise < np.inf or not np.isfinite(value):
        return f"{number(value)} ± {number(noise)}"
    digits = 1 - int(np.floor(np.log10(noise)))
    return f"{number(round(value, digits))} ± {number(round(noise, digits))}"


def _sentence(verdict: TargetVerdict, count: int, rows: int, target: str) -> str:
    """How many targets are called wrong, or why none is."""
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


def round_numbers(low: float, high: float, squash: AsinhScale) -> list[float]:
    """Round numbers to label a squashed axis with, about evenly spaced on it.

    >>> round_numbers(-5.0, 30000.0, AsinhScale(20.0, 5.0)), round_numbers(9.0, 47.0, AsinhScale(23.0, 8.0))
    ([0.0, 20.0, 50.0, 300.0, 3000.0, 30000.0], [10.0, 20.0, 30.0])
    """
    even = squash.back(np.linspace(squash(low), squash(high), _LABELS))
    steps = np.pad(np.diff(even), 1, mode="edge")
    unit = 10.0 ** np.round(np.log10(np.minimum(steps[1:], steps[:-1])))
    labels = np.unique(np.round(even / unit) * unit + 0.0)
    return labels[(labels >= low) & (labels <= high)].tolist()


@styled
def _scatter(verdict: TargetVerdict, squash: AsinhScale, target: str) -> Picture:
    figure, axes = panel(4.6, 3.6)
    u, wrong = verdict.u, verdict.wrong > 0.5
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
