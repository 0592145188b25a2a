"""Rows that repeat another of the same table, or of a second one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy.spatial import cKDTree

from likely._rows.reading.table import Table, counted, listed
from likely._typing import Index
from likely.auditing.columns.kinds import Columns, as_numbers, design, read_columns, standardised
from likely.auditing.copies.twins import ORDINARY, Twins, find_twins
from likely.auditing.results.accepted import RowNames
from likely.auditing.results.finding import Explained, Finding, Reason, number, worst_first

_ALIKE, _NEARLY, _CONTRARY = 0.05, 0.1, 0.3  # how far off a copy is: exact, nearly, with another target
_ASKED, _AMONG = 500, 5_000  # rows whose nearest neighbour is looked up, and rows among which it is
_USUAL = 2.0  # times the usual difference of neighbours: copies that differ by less are repeated measurements
_NOISY = 0.1  # of neighbours have another label: where fewer do, labels are determined
_OFTEN = 0.5  # of the share of neighbours with another label: copies that differ as often are no mistakes


def repeated_rows(columns: Columns, twins: Twins, target: str | None, repeats: int | None = None) -> Finding | None:
    """Report the rows that repeat an earlier one, of so many in the whole table if that is longer."""
    suspicious = twins.of >= 0
    count = int(suspicious.sum()) if repeats is None else repeats
    if not count:
        return None
    if repeats is not None or count > len(columns.typed) * ORDINARY:
        return Finding(
            "duplicates",
            "Duplicate rows",
            f"{count:,} rows repeat an earlier one: with so few columns or values, that is expected.",
            numbers={"rows": 0, "repeated": count},
        )
    near, disagree = int((suspicious & ~twins.exact).sum()), int(twins.disagree.sum())
    explained = scatter_of_copies(columns, twins, target) if disagree and target is not None else ""

    def explain(rows: Index) -> Iterator[Explained]:
        return _explanations(columns, twins, target, rows, _ALIKE if explained else _CONTRARY)

    almost, differ = "almost " if near == count else "", _but(columns.named("identifier"))
    parts = [f"{counted(count, f'row {almost}repeats', f'rows {almost}repeat')} an earlier one{differ}"]
    parts += [f"{near:,} of them almost"] if 0 < near < count else []
    parts += [f"{disagree:,} with a different {target}"] if disagree else []
    certainty = np.where(twins.disagree, 1.0, np.where(twins.exact, 0.99, 0.9)) * suspicious
    return Finding(
        "duplicates",
        "Duplicate rows",
        ", ".join(parts) + "." + explained,
        scores={"repeats_row": twins.of},
        numbers={"rows": count, "near": near, "other_target": disagree, "by_noise": bool(explained)},
        **worst_first("duplicates", certainty, suspicious, explain, most=None),
    )


def _explanations(
    columns: Columns, twins: Twins, target: str | None, rows: Index, contrary: float
) -> Iterator[Explained]:
    """What is said of some copies; ``contrary`` is how far off one with another target is."""
    differ, places = columns.named("identifier"), columns.typed.index
    names = RowNames(columns.typed, next(iter(columns.named("name")), None))
    values = columns.typed[target].to_numpy() if target is not None else np.zeros(0)
    others, exact, disagree = (of_all[rows].tolist() for of_all in (twins.of, twins.exact, twins.disagree))
    for row, other, same, contradicts in zip(rows.tolist(), others, exact, disagree, strict=True):
        nearly, which = "" if same else "almost ", names.called(int(places[other]))
        reasons = [Reason("all columns" if same else "nearly all", f"as in {which}{_but(differ)}", share=1.0)]
        headline, group = f"{nearly}equals {which}{_but(differ)}", f"{nearly}equal to another row{_but(differ)}"
        far = _ALIKE if same else _NEARLY
        if contradicts and target is not None:
            headline, far = f"{headline}, but has a different {target}", contrary
            group = f"{nearly}equal to another row{_but([*differ, 'the target'])}"
            reasons.append(Reason(target, _shown(values[row]), f"{_shown(values[other])} in {which}", 1.0))
        yield Explained(headline, reasons, far, wrong=False, group=group)


def _but(names: list[str]) -> str:
    """The columns in which copies differ, such as those that hold another value in every row."""
    return f" but for {listed(names, most=3, last=' and ')}" if names else ""


def _shown(value: object) -> str:
    return number(value) if isinstance(value, float) else str(value)


def scatter_of_copies(columns: Columns, twins: Twins, target: str) -> str:
    """Say whether copies with another target differ no more than neighbouring rows do."""
    pairs = _neighbours(columns, twins, target)
    if len(pairs) < 20:
        return ""
    values, levels = as_numbers(columns.typed[target])
    apart = np.abs(values[pairs[:, 0]] - values[pairs[:, 1]])
    copies = np.flatnonzero(twins.disagree)
    if levels is not None or columns.kinds[target] not in ("number", "date"):
        repeated = int((twins.of >= 0).sum())
        usual, here = float(np.mean(apart > 0)), len(copies) / repeated
        if usual < _NOISY or here < _OFTEN * usual or len(copies) < 3:
            return ""
        return (
            f" Copies have a different {target} in {here:.0%} of cases, neighbouring rows in {usual:.0%}: the columns "
            f"do not determine {target}, so this alone is no sign of an error."
        )
    copy_gaps = np.abs(values[copies] - values[twins.of[copies]])
    usual, here = float(np.nanmedian(apart)), float(np.nanmedian(copy_gaps))
    if not here <= _USUAL * usual:
        return ""
    return (
        f" Copies with a different {target} are {number(here)} apart, neighbouring rows {number(usual)}: that is the "
        f"usual spread of {target}, and no sign of an error."
    )


def _neighbours(columns: Columns, twins: Twins, target: str) -> Index:
    """Pairs of a row and the nearest that does not repeat it, for some rows."""
    rows = np.flatnonzero((twins.of < 0) & columns.typed[target].notna().to_numpy())
    rows = np.random.RandomState(0).permutation(rows)[:_AMONG]
    kinds = {name: kind for name, kind in columns.kinds.items() if name != target}
    X, _ = design(columns.typed.iloc[rows], kinds)
    if not X.shape[1] or len(rows) < 2:
        return np.zeros((0, 2), np.int64)
    X = np.nan_to_num(standardised(X), nan=-9.0)
    nearest = cKDTree(X).query(X[:_ASKED], k=2)[1]
    asked = np.arange(len(nearest))
    other = np.where(nearest[:, 0] == asked, nearest[:, 1], nearest[:, 0])
    return np.column_stack([rows[asked], rows[other]])


def across(frame: pd.DataFrame, test: Table, target: str | None, id: str | None = None) -> Finding:
    """Report the rows of a table that are rows of a second one, too, exactly or almost."""
    names = [name for name in frame.columns if name in test.frame.columns]
    if not names:
        raise ValueError(f"{test.name} has no column in common with the first table")
    both = read_columns(pd.concat([frame[names], test.frame[names]], ignore_index=True), id)
    twins = find_twins(both, target if target in names else None)
    shared = np.zeros(len(frame), bool)
    later = np.flatnonzero((twins.of >= 0) & (twins.of < len(frame)) & (np.arange(len(twins.of)) >= len(frame)))
    shared[twins.of[later]] = True
    partner = {int(twins.of[row]): int(row) - len(frame) for row in reversed(later)}

    def explain(rows: Index) -> Iterator[Explained]:
        for row in rows:
            other = partner[int(row)]
            reasons = [Reason("all columns", f"as in row {other} of {test.name}")]
            headline = f"is also row {other} of {test.name}"
            yield Explained(headline, reasons, _NEARLY, wrong=False, group=f"is also in {test.name}")

    return Finding(
        "overlap",
        "Rows that are in both tables",
        f"{len(later):,} of the {len(test.frame):,} rows of {test.name} are also in the first table."
        if len(later)
        else f"No row of {test.name} is in the first table.",
        numbers={"rows": int(shared.sum()), "test_rows": len(later)},
        **worst_first("overlap", shared.astype(np.float64), shared, explain, most=None),
    )
