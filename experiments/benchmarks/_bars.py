"""From bars to a result: the verdict, the words, and the worst of many."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from experiments.entries import Bar, Result
from experiments.entries.bar import Sign
from experiments.entries.entry import Verdict
from experiments.entries.parts import Picture, Table


def result_of(
    bars: Iterable[Bar], tables: Iterable[Table] = (), pictures: Iterable[Picture] = (), notes: str = ""
) -> Result:
    """What the bars say: that the claim holds, that it does in part where less than half are missed, or not."""
    bars = tuple(bars)
    wrong = [_said(bar) for bar in bars if bar.met is False]
    in_part = len(wrong) < sum(bar.met is True for bar in bars)
    verdict: Verdict = "holds" if not wrong else "holds in part" if in_part else "does not hold"
    words = f"Missed: {'; '.join(wrong)}." if wrong else "Every bar that could be measured is met."
    return Result(verdict, f"{words} {notes}".strip(), tuple(tables), tuple(pictures), bars)


def _said(bar: Bar) -> str:
    return f"{bar.name} is {bar.measured} ({bar.set_at})" + (f", {bar.case}" if bar.case else "")


def worst(
    name: str, values: pd.Series[float], sign: Sign, bar: float | None, *, unit: str = "", cases: str = "cases"
) -> Iterable[Bar]:
    """The bar of the value that is worst, with the row it stands in and how many miss; none where there is no value.

    >>> [found] = worst("error", pd.Series([0.1, 0.4, 0.3], ["a", "b", "c"]), "≤", 0.2, cases="sets")
    >>> found.value, found.case
    (0.4, 'b; 2 of 3 sets miss')
    """
    values = values.dropna()
    if not len(values):
        return
    row = int(values.argmax() if sign in ("<", "≤") else values.argmin())
    at = values.index[row]
    labels = zip(values.index.names, at if isinstance(at, tuple) else (at,), strict=True)
    label = ", ".join(part if isinstance(part, str) else f"{level} {part}" for level, part in labels)
    wrong = sum(Bar(name, float(value), sign, bar).met is False for value in values)
    case = f"{label}; {wrong} of {len(values)} {cases} miss" if wrong else label
    yield Bar(name, float(values.iloc[row]), sign, bar, unit, case=case)
