"""Regions where targets are noisy: a small tree over the columns, its levels measured on rows it was not grown on."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeRegressor

from likely._page import Table
from likely.auditing._columns import Columns, as_numbers
from likely.auditing._finding import Finding, are_years, number

_LEAVES, _ROWS = 8, 50_000
_NOISY = 1.3  # times the usual level


class Reading(NamedTuple):
    """What a column of the tree's table says: a number, or whether a category has this level."""

    column: str
    level: str | None = None
    missing: bool = False
    year: bool = False


class Region(NamedTuple):
    """Where, how many rows are there, and how noisy they are in units of the usual."""

    rule: str
    rows: int
    level: float
    error: float


def noisy_regions(
    columns: Columns, leave_out: set[str], rows: NDArray[np.int64], noise: NDArray[np.float64], what: str
) -> Finding:
    """Cut the rows into regions by how large ``noise`` is there, and name those well above the usual."""
    some = np.random.RandomState(0).permutation(len(rows))[:_ROWS]
    X, readings = _readable(columns, leave_out, rows[some])
    regions = grow(X, noise[some], readings, len(rows)) if len(readings) and len(rows) >= 100 else []
    regions.sort(key=lambda region: -region.level)
    noisy = [region for region in regions if region.level >= _NOISY and region.level - 2 * region.error > 1]
    frame = pd.DataFrame(regions, columns=["region", "rows", "noise", "± error"]).set_index("region")
    return Finding(
        "noise",
        "Where targets are noisy",
        f"Where {noisy[0].rule}, {what} is {noisy[0].level:.1f} times the average."
        if noisy
        else f"No region stands out: nowhere is {what} clearly more than {_NOISY:g} times the average.",
        numbers={"regions": [{"where": r.rule, "rows": r.rows, "noise": round(r.level, 3)} for r in noisy]},
        tables=(Table(frame, f"{what.capitalize()} by region, in units of the mean over all rows.", digits=2),)
        if len(regions) > 1
        else (),
    )


def grow(X: NDArray[np.float64], noise: NDArray[np.float64], readings: list[Reading], rows: int) -> list[Region]:
    """The leaves of a tree grown on one half of these, which stand for so many rows, with their levels on the other.

    >>> x = np.random.default_rng(0).uniform(size=(2000, 1))
    >>> noise = np.abs(np.random.default_rng(1).normal(size=2000)) * np.where(x[:, 0] > 0.5, 3, 1)
    >>> worst = max(grow(x, noise, [Reading("x")], 2000), key=lambda region: region.level)
    >>> worst.rule.startswith("x > 0."), 1.2 < worst.level < 1.8
    (True, True)
    """
    order = np.random.RandomState(0).permutation(len(noise))
    fit, held = order[::2], order[1::2]
    floor = max(20, len(fit) // 40)
    tree = DecisionTreeRegressor(max_leaf_nodes=_LEAVES, min_samples_leaf=floor, random_state=0).fit(X[fit], noise[fit])
    leaf, everywhere = tree.apply(X[held]), float(noise[held].mean()) or 1.0
    noise_by_leaf = {int(node): noise[held][leaf == node] / everywhere for node in np.unique(leaf)}
    share = rows / len(held)
    return [
        Region(
            _rule(tree.tree_, node, readings),
            round(len(values) * share),
            float(values.mean()),
            float(values.std() / np.sqrt(len(values))),
        )
        for node, values in noise_by_leaf.items()
    ]


def _rule(tree: Any, leaf: int, readings: list[Reading]) -> str:
    """The cuts on the way to a leaf, the last of each column and side."""
    sides = ((tree.children_left, 0), (tree.children_right, 1))
    parent = {int(child): (node, side) for children, side in sides for node, child in enumerate(children)}
    path: list[tuple[int, int]] = []
    node = leaf
    while node:
        node, side = parent[node]
        path.append((node, side))
    # By column: of each the last cut below and the last above.
    cuts: dict[int, dict[int, int]] = {}
    for node, side in reversed(path):
        cuts.setdefault(int(tree.feature[node]), {})[side] = node
    return ", ".join(_cut(tree, readings[column], ends) for column, ends in cuts.items()) or "everywhere"


def _cut(tree: Any, reading: Reading, ends: dict[int, int]) -> str:
    """The words for one column: ``ends`` has the cuts below which (0) and above which (1) the leaf lies."""
    if reading.level is not None:
        return f"{reading.column} is {'' if 1 in ends else 'not '}{reading.level}"
    at = {side: number(float(tree.threshold[node]), year=reading.year) for side, node in ends.items()}
    words = (
        f"{at[1]} < {reading.column} ≤ {at[0]}"
        if len(at) == 2
        else f"{reading.column} {'≤>'[min(at)]} {min(at.values())}"
    )
    with_missing = reading.missing and all(
        bool(tree.missing_go_to_left[node]) == (side == 0) for side, node in ends.items()
    )
    return f"{words} or missing" if with_missing else words


def _readable(
    columns: Columns, leave_out: set[str], rows: NDArray[np.int64]
) -> tuple[NDArray[np.float64], list[Reading]]:
    """Columns that a rule can name: numbers, and the levels of categories that have few."""
    parts, readings = [], []
    for name, kind in columns.kinds.items():
        if name in leave_out or kind not in ("number", "category"):
            continue
        numbers, levels = as_numbers(columns.typed[name])
        values = numbers[rows]
        if levels is None:
            parts.append(values)
            readings.append(Reading(name, None, bool(np.isnan(values).any()), are_years(values)))
            continue
        for place, level in enumerate(levels[:10] if len(levels) > 2 else levels[:1]):
            parts.append((values == place).astype(np.float64))
            readings.append(Reading(name, level))
    return (np.column_stack(parts) if parts else np.zeros((len(rows), 0))), readings
