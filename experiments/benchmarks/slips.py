"""Does an audit tell what happened? Slips of units, signs and columns in real tables that no default was chosen on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from experiments.benchmarks._audit_slips import numbers_of, slips_in_columns, slips_in_target
from experiments.benchmarks._bars import result_of
from experiments.data import list_frames, load_frame
from experiments.entries import Bar, Context, Result
from likely._page import Table

NUMBERS = range(3, 21)  # columns of numbers of a table that slips are planted in
ROWS = 1_000
TARGET = "target of the table"
RIGHT_HINT = 0.9  # of the slips of more than four noise scales


def run(context: Context) -> Result:
    """Plant slips in the columns and in the target of each table, audit it, and read what is said of their rows."""
    seeds = range(context.seed, context.seed + (1 if context.quick else 3))
    names = [name for name in list_frames() if not load_frame(name).chosen_on]
    names = names[8:9] if context.quick else names
    slips = list[dict[str, Any]]()
    for done, name in enumerate(names, start=1):
        slips += planted_slips(name, seeds)
        context.progress(done / len(names))
    found = pd.DataFrame(slips)
    notes = "Noise scales are those of a forest that has not seen the row. Without the packages there is no table."
    return result_of(checks(found), _tables(found), notes=notes)


def planted_slips(name: str, seeds: range) -> Iterator[dict[str, Any]]:
    """Units, signs and swaps in the columns of a table, and in its target if that is a number."""
    table = load_frame(name)
    frame = table.X.rename(columns=str).assign(**{TARGET: table.y})
    frame = frame.iloc[np.random.RandomState(0).permutation(len(frame))[:ROWS]].reset_index(drop=True)
    if len(numbers_of(frame)) not in NUMBERS:
        return
    for row in slips_in_columns(frame, seeds):
        yield {"data": name, "in": "columns", **row}
    if table.task == "regression":
        for row in slips_in_target(frame, TARGET, seeds[:1]):
            yield {"data": name, "in": "target", **row}


def checks(slips: pd.DataFrame) -> Iterator[Bar]:
    """The share of each kind that is told with the right hint."""
    for place in ("columns", "target"):
        own = slips[slips["in"] == place] if len(slips) else slips
        for kind in dict.fromkeys(own["planted"]) if len(own) else ():
            told = own[own["planted"] == kind]["right hint"].mean()
            yield Bar(f"slips in the {place}, {kind}, told with the right hint", told, "≥", RIGHT_HINT)
    if not len(slips):
        yield Bar("slips told with the right hint", np.nan, "≥", RIGHT_HINT)


def _tables(slips: pd.DataFrame) -> list[Table]:
    """The share of slips found and told, by kind and by table."""
    if not len(slips):
        return []
    shares = "found, told with the right hint, and the same of those that lie beyond the tails of the noise, too"
    found = []
    for by, which in ((["in", "planted"], "kind"), (["in", "data"], "table")):
        groups = slips.groupby(by, sort=False)
        shown = groups.mean(numeric_only=True).assign(slips=groups.size())
        caption = f"Slips of more than four noise scales by {which}: the share {shares}."
        found.append(Table(shown, caption, {}, digits=3))
    return found
