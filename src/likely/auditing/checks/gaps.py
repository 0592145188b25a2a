"""Whether values are missing at random: do gaps depend on the target?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import chi2_contingency, fisher_exact, mannwhitneyu

from likely._numerics.significance import SURE, holm
from likely._page import Table
from likely._rows.reading.table import counted, listed
from likely._typing import Array, Mask
from likely.auditing.columns.kinds import Columns, Words, ranked
from likely.auditing.results.finding import Finding, number, percent

_FEWEST = 5  # gaps, and values, that a test needs
_EXPECTED = 5.0  # rows of a class by chance: rarer classes are taken together
_LARGE = 1_000  # rows from which an exact test is the same as an approximate one
_SHOWN = 20


class Dependence(NamedTuple):
    """What gaps of one column have to do with the target.

    ``where_missing`` and ``elsewhere`` are the share of one class, or the target's median, in rows with a gap and in
    the others; ``compared`` says which of these it is.
    """

    p_value: float = np.nan
    compared: str = ""
    where_missing: str = ""
    elsewhere: str = ""


def gaps(columns: Columns, target: str | None, task: str, words: Iterable[Words] = ()) -> Finding | None:
    """Report how many values each column lacks, and whether that depends on the target.

    The test is a χ² test of gap by class (Fisher's for two by two), or a rank-sum test of the target between rows with
    and without a gap; p-values are corrected for the number of columns (Holm).
    """
    stand_ins: dict[str, list[str]] = defaultdict(list)
    for name, some in (pair for part in words for pair in part.items()):
        stand_ins[name] = sorted({*stand_ins[name], *some})
    missing = columns.typed.drop(columns=[target] if target else []).isna()
    empty_rows = np.flatnonzero(missing.all(axis=1))
    share = missing.mean().drop(columns.named("empty", "name"), errors="ignore")
    share = share[share > 0].rename_axis("column")
    if share.empty and not len(empty_rows):
        return None
    tests = [Dependence()] * len(share)
    if target is not None and task != "none":
        known = columns.typed[target].notna()
        y = columns.typed[target][known]
        gap = missing[known]
        tests = [depends(gap[name].to_numpy(), y, classes=task == "classification") for name in share.index]
    table = pd.DataFrame(tests, share.index, Dependence._fields).rename(columns={"where_missing": "where missing"})
    table["p"] = holm(table["p_value"])
    by = table[table["p"] < SURE].sort_values("p_value", kind="stable")
    shown = pd.DataFrame({"missing": share.map("{:.1%}".format)})
    if target is not None:
        shown = shown.join(table[["compared", "where missing", "elsewhere"]])
    shown["p, corrected"] = ["" if np.isnan(p) else f"{p:.2g}" for p in table["p"]]
    most = share.sort_values(ascending=False, kind="stable").index
    caption = "Missing values by column, and the target where the value is missing and where it is not."
    depend = [name for name in share.index if name in by.index]
    return Finding(
        "gaps",
        "Missing values",
        " ".join(_sentences(share[most], stand_ins, by, depend, target, len(empty_rows))),
        numbers={
            "missing": share.round(4).to_dict(),
            "stand_ins": stand_ins,
            "depend_on_target": depend,
            "empty_rows": empty_rows[:100].tolist(),
        },
        tables=(Table(shown.loc[most[:_SHOWN]], caption),) if len(share) else (),
    )


def _sentences(
    share: pd.Series[float], stand_ins: Words, by: pd.DataFrame, depend: list[str], target: str | None, empty_rows: int
) -> Iterator[str]:
    if len(share):
        shown = listed([f"{name} {part:.1%}" for name, part in share.items()], most=3)
        yield f"{len(share):,} column{'s have' if len(share) > 1 else ' has'} missing values: {shown}."
    if stand_ins:
        read = [f"{' and '.join(f'“{word}”' for word in words)} in {name}" for name, words in stand_ins.items()]
        yield f"Taken for missing values: {listed(read, most=4)}; the option missing says otherwise."
    if empty_rows:
        yield counted(empty_rows, "row is", "rows are") + " empty throughout."
    if depend:
        first = by.iloc[0]
        yield (
            f"Missing values in {listed(depend, last=' and ')} depend on {target}: where {first.name} is missing, "
            f"{first['compared']} is {first['where missing']}, elsewhere {first['elsewhere']}. A model could "
            "use this: will the same values be missing in use?"
        )
    elif target is not None and len(share):
        yield f"None of this depends on {target}, by {counted(len(share), 'test')}."


def depends(gap: Mask, y: pd.Series[Any], *, classes: bool) -> Dependence:
    """Test whether a gap and the target have to do with each other.

    >>> rng = np.random.default_rng(1)
    >>> price = pd.Series(rng.normal(size=500), name="price")
    >>> depends(rng.uniform(size=500) < 0.1, price, classes=False).p_value > 0.01
    True
    >>> depends(price.to_numpy() > 1, price, classes=False).p_value < 1e-9
    True
    """
    if min(gap.sum(), (~gap).sum()) < _FEWEST or y.nunique() < 2:
        return Dependence()
    return _of_classes(gap, y) if classes else _of_numbers(gap, y.to_numpy(np.float64), str(y.name))


def _of_numbers(gap: Mask, y: Array, name: str) -> Dependence:
    here, there = y[gap], y[~gap]
    p = float(mannwhitneyu(here, there, method="asymptotic").pvalue)
    low, middle, high = np.quantile(here, [0.25, 0.5, 0.75])
    error = 1.25 * float(high - low) / 1.35 / float(np.sqrt(len(here)))  # of a median, if the middle were normal
    shown = f"{number(middle)} ± {number(float(f'{error:.1g}'))}"
    return Dependence(p, f"the median of {name}", shown, number(float(np.median(there))))


def _of_classes(gap: Mask, y: pd.Series[Any]) -> Dependence:
    codes, levels = ranked(y)
    counts = np.array([np.bincount(codes[gap == side], minlength=len(levels)) for side in (True, False)])
    rare = counts.sum(0) * counts.sum(1).min() / counts.sum() < _EXPECTED
    rare[0] = False  # an exact test of the most frequent class against the rest asks for no more
    merged = np.column_stack([counts[:, ~rare], counts[:, rare].sum(1)]) if rare.any() else counts
    exact = merged.shape[1] == 2 and merged.min() < _LARGE
    p = fisher_exact(merged).pvalue if exact else chi2_contingency(merged, correction=False).pvalue
    here, there = counts / counts.sum(1, keepdims=True)
    level = int(np.argmax(np.abs(here - there)))
    share = float(here[level])
    error = float(np.sqrt(max(share * (1 - share), 1e-12) / gap.sum()))
    return Dependence(
        float(p), f"the share of {y.name} = {levels[level]}", percent(share, error), f"{there[level]:.0%}"
    )
