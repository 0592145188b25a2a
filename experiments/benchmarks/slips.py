"""Does an audit tell what happened? Slips of units, signs and columns in real tables that no default was chosen on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from experiments.benchmarks._audit_slips import (
    BEYOND_OWN,
    Noise,
    noise_of_columns,
    numbers_of,
    slips_in_columns,
    slips_in_target,
)
from experiments.benchmarks._bars import result_of
from experiments.data import Frame, list_frames, load_frame
from experiments.entries import Bar, Context, Result
from experiments.entries.parts import Table

NUMBERS = range(3, 21)  # columns of numbers of a table that slips are planted in
ROWS = 1_000
TARGET = "target of the table"
RIGHT_HINT = 0.9  # of the slips of more than four noise scales


NOTES = (
    "Noise scales are those of forests that have not seen the row, fitted before anything was planted. The bars count "
    "slips beyond four scales by the median deviation of the column, the same for all rows. Beside them: the same of "
    "the slips that lie beyond four scales by the tails of the column, and beyond four scales of the row's own noise. "
    "Without the packages there is no table."
)


def run(context: Context) -> Result:
    """Plant slips in the columns and in the target of each table, audit it, and read what is said of their rows."""
    seeds = range(context.seed, context.seed + (1 if context.quick else 3))
    names = [name for name in list_frames() if not load_frame(name).chosen_on]
    names = names[8:9] if context.quick else names
    slips, right = list[dict[str, Any]](), list[dict[str, Any]]()
    for done, name in enumerate(names, start=1):
        table = load_frame(name)
        frame = some_rows(table)
        if len(numbers_of(frame)) in NUMBERS:
            noise = noise_of_columns(frame)
            slips += planted_slips(table, frame, noise, seeds)
            right += [{"data": name, **own.right_and_far(frame[column])} for column, own in noise.items()]
        context.progress(done / len(names))
    told = pd.DataFrame(slips)
    return result_of(checks(told), _tables(told, pd.DataFrame(right)), notes=NOTES)


def some_rows(table: Frame) -> pd.DataFrame:
    """At most a thousand rows of a table, in any order, with the target as one of the columns."""
    frame = table.X.rename(columns=str).assign(**{TARGET: table.y})
    return frame.iloc[np.random.RandomState(0).permutation(len(frame))[:ROWS]].reset_index(drop=True)


def planted_slips(table: Frame, frame: pd.DataFrame, noise: dict[str, Noise], seeds: range) -> Iterator[dict[str, Any]]:
    """Plant units, signs and swaps in the columns of a table, and in its target if that is a number.

    Args:
        table: the table.
        frame: the rows of it that are audited.
        noise: the noise of each column of numbers.
        seeds: one planting each; in the target the first only.

    Yields:
        dict: what became of each slip.
    """
    for row in slips_in_columns(frame, noise, seeds):
        yield {"data": table.name, "in": "columns", **row}
    if table.task == "regression":
        noise_of_target = noise.get(TARGET) or Noise.of(frame, TARGET)
        for row in slips_in_target(frame, TARGET, noise_of_target, seeds[:1]):
            yield {"data": table.name, "in": "target", **row}


def checks(slips: pd.DataFrame) -> Iterator[Bar]:
    """The share of each kind that gets the right hint."""
    for place in ("columns", "target"):
        here = slips[slips["in"] == place] if len(slips) else slips
        for kind in dict.fromkeys(here["planted"]) if len(here) else ():
            share = here[here["planted"] == kind]["right hint"].mean()
            yield Bar(f"slips in the {place}, {kind}, told with the right hint", share, "≥", RIGHT_HINT)
    if not len(slips):
        yield Bar("slips told with the right hint", np.nan, "≥", RIGHT_HINT)


def _tables(slips: pd.DataFrame, right: pd.DataFrame) -> list[Table]:
    """The share of slips that are found and get the right hint, by kind and by table, and how far right values lie."""
    if not len(slips):
        return []
    shares = "found, with the right hint, and with the right hint of those beyond four scales by two other measures"
    tables = []
    for by, which in ((["in", "planted"], "kind"), (["in", "data"], "table")):
        groups = slips.groupby(by, sort=False)
        counts = {"slips": groups.size(), "beyond the row's own noise": groups[BEYOND_OWN].count()}
        shown = groups.mean(numeric_only=True).assign(**counts)
        caption = f"Slips of more than four noise scales by {which}: the share {shares}, and their numbers."
        tables.append(Table(shown, caption, {}, digits=3))
    caption = (
        "Right values beyond four noise scales: their share, by the measure of noise, before anything was planted."
    )
    return [*tables, Table(right.groupby("data", sort=False).mean(), caption, {}, digits=4)]
