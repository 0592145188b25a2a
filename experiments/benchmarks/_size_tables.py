"""Ratios by size as tables that people read and records keep, and back."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator

import pandas as pd

from experiments.benchmarks._loss_cases import CASES, HAND, HAND_AND_STEP, KINDS
from experiments.benchmarks._loss_sizes import COLUMNS, KEY, WAYS
from experiments.entries.parts import Table

OVER = "our time over the rival's, by the number of elements: median (quartiles)"
MICROSECONDS = "our microseconds of forward and backward, by the number of elements"
RIVAL, OURS = ["against", "loss", "parameter"], ["loss", "parameter"]
_CELL = re.compile(r"([\d.]+) \(([\d.]+)–([\d.]+)\)")


def size_tables(ratios: pd.DataFrame) -> Iterator[Table]:
    """Two tables for each place and way: ratios, those to the loss by hand first, and our times."""
    for (where, way), rows in ratios.groupby(["where", "way"], sort=False):
        cells = [cell(*three) for three in rows[["ratio", "low", "high"]].itertuples(index=False, name=None)]
        rank = {name: place for place, name in enumerate(dict.fromkeys([HAND, *rows["against"]]))}
        first = rows.assign(ratio=cells, rank=rows["against"].map(rank)).sort_values("rank", kind="stable")
        yield Table(by_size(first, RIVAL, "ratio").fillna("–"), f"{where} · {way} · {OVER}.")
        own = rows.drop_duplicates([*OURS, "elements"])
        microseconds = by_size(own, OURS, "microseconds").astype(float).round(1)
        yield Table(microseconds, f"{where} · {way} · {MICROSECONDS}.", digits=1)


def ratios_of(tables: Iterable[Table]) -> pd.DataFrame:
    """What `size_tables` made its tables of, to the digits they show."""
    found: dict[str, list[pd.Series]] = {OVER: [], MICROSECONDS: []}
    for table in tables:
        where, _, rest = table.caption.partition(" · ")
        way, _, what = rest.partition(" · ")
        if (what := what.rstrip(".")) in found:
            cells = table.frame.rename(columns=elements).stack().rename(what)
            found[what].append(pd.concat({(where, way): cells}, names=["where", "way"]))
    if not found[OVER]:
        return pd.DataFrame(columns=COLUMNS)
    ratios, own = (pd.concat(found[what]).rename_axis(index={None: "elements"}).reset_index() for what in found)
    three = [match.groups() if (match := _CELL.fullmatch(str(text))) else (math.nan,) * 3 for text in ratios[OVER]]
    ratios[["ratio", "low", "high"]] = pd.DataFrame(three, ratios.index).astype(float)
    joined = ratios.dropna(subset=["ratio"]).merge(own.rename(columns={MICROSECONDS: "microseconds"}))
    return joined[COLUMNS]


def same_work(ratios: pd.DataFrame) -> pd.DataFrame:
    """Ratios to the loss by hand that does what ours does.

    The rows of a Data parameter step in our backward pass. Where the loss by hand was timed with such a step, that is
    its ratio, under the name of the loss by hand.
    """
    key = [name for name in KEY if name != "against"]
    stepped = ratios[ratios["against"] == HAND_AND_STEP].assign(against=HAND)
    return pd.concat([stepped, ratios[ratios["against"] == HAND]]).drop_duplicates(key).sort_index()


def is_about_sizes(table: Table) -> bool:
    """Whether `size_tables` made the table."""
    return table.caption.rstrip(".").endswith((OVER, MICROSECONDS))


def by_size(rows: pd.DataFrame, index: list[str], values: str) -> pd.DataFrame:
    """A column for each size; the rows in the order in which they come."""
    order = list(dict.fromkeys(rows[index].itertuples(index=False, name=None)))
    wide = rows.pivot(index=index, columns="elements", values=values).sort_index(axis=1).loc[order]
    wide.columns = pd.Index([power_of_ten(int(size)) for size in wide.columns])
    return wide


def merged(before: pd.DataFrame, now: pd.DataFrame) -> pd.DataFrame:
    """What was measured now, and of before what was not, in the order of the losses."""
    parts = [frame for frame in (before, now) if len(frame)]
    both = pd.concat(parts, ignore_index=True).drop_duplicates(KEY, keep="last") if parts else now
    rank: dict[str, Callable[[str], int]] = {
        "loss": list(CASES).index,
        "parameter": KINDS.index,
        "way": WAYS.index,
    }
    return both.sort_values(
        ["way", "loss", "parameter", "elements"],
        key=lambda column: column.map(rank[str(column.name)]) if column.name in rank else column,
        kind="stable",
        ignore_index=True,
    )


def cell(ratio: float, low: float, high: float) -> str:
    """A median and its quartiles.

    >>> cell(1.618, 1.53, 12.0)
    '1.62 (1.53–12.0)'
    """
    median, lower, upper = (f"{x:.2f}" if x < 10 else f"{x:.1f}" for x in (ratio, low, high))
    return f"{median} ({lower}–{upper})"


def power_of_ten(size: int) -> str:
    """A size for people.

    >>> power_of_ten(1), power_of_ten(10**7), power_of_ten(2560)
    ('1', '10⁷', '2,560')
    """
    power = len(str(size)) - 1
    if size == 10**power and power:
        return "10" if power == 1 else "10" + "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(digit)] for digit in str(power))
    return f"{size:,}"


def elements(label: str) -> int:
    """The size that `power_of_ten` wrote.

    >>> [elements(power_of_ten(size)) for size in (1, 10, 10**7, 2560)]
    [1, 10, 10000000, 2560]
    """
    base, power = re.fullmatch(r"([\d,]+?)([⁰¹²³⁴⁵⁶⁷⁸⁹]*)", label).groups()  # type: ignore[union-attr]
    number = int(base.replace(",", ""))
    return int(number ** int("".join(str("⁰¹²³⁴⁵⁶⁷⁸⁹".index(sign)) for sign in power))) if power else number
