"""Whether values are missing at random: do gaps depend on the target?"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import chi2_contingency, fisher_exact, mannwhitneyu

from likely._page import Table
from likely._rows.reading.table import counted, listed
from likely._typing import Mask
from likely.auditing.checks.holm import SURE, holm
from likely.auditing.columns.kinds import Columns, ranked
from likely.auditing.results.finding import Finding, number, percent

_FEWEST = 5  # gaps, and values, that a test needs
_EXPECTED = 5.0  # rows that a class must have among the gaps, by chance, to be looked at by itself
_LARGE = 1_000  # rows from which an exact test is the same as an approximate one
_SHOWN = 20


class Dependence(NamedTuple):
    """What gaps of one column have to do with the target.

    ``with_gap`` and ``without`` are the share of one class, or the target's median, in rows with a gap and in the
    others; ``error`` is the standard error of the first. ``what`` says which of these it is.
    """

    p_value: float
    what: str
    with_gap: str
    without: str
    error: float


def gaps(columns: Columns, target: str | None, task: str) -> Finding | None:
    """Report how many values each column lacks, and whether that depends on the target.

    The test is a χ² test of gap by class (Fisher's for two by two), or a rank-sum test of the target between rows with
    and without a gap; p-values are corrected for the number of columns (Holm).
    """
    missing = columns.typed.isna()
    share = missing.mean()
    names = [name for name in share.index[share > 0] if name != target and columns.kinds[name] not in ("empty", "name")]
    empty_rows = np.flatnonzero(missing[[name for name in missing.columns if name != target]].all(axis=1).to_numpy())
    if not names and not len(empty_rows):
        return None
    tests: dict[str, Dependence | None] = dict.fromkeys(names)
    if target is not None and task != "none":
        known = columns.typed[target].notna().to_numpy()
        y = columns.typed[target][known]
        tests = {name: depends(missing[name].to_numpy()[known], y, classes=task == "classification") for name in names}
    corrected = holm([test.p_value if test else np.nan for test in tests.values()])
    by = {name: test for (name, test), p in zip(tests.items(), corrected, strict=True) if test and p < SURE}
    rows = [
        {
            "missing": f"{share[name]:.1%}",
            **_compared(test, target),
            "p, corrected": "" if np.isnan(p) else f"{p:.2g}",
        }
        for (name, test), p in zip(tests.items(), corrected, strict=True)
    ]
    frame = pd.DataFrame(rows, index=pd.Index(names, name="column"))
    frame = frame.iloc[np.argsort(-share[names].to_numpy(), kind="stable")[:_SHOWN]]
    return Finding(
        "gaps",
        "Missing values",
        _sentence(share, names, by, target, len(empty_rows)),
        numbers={
            "missing": {str(name): round(float(share[name]), 4) for name in names},
            "depend_on_target": list(by),
            "empty_rows": empty_rows[:100].tolist(),
        },
        tables=(
            Table(frame, "Missing values by column, and the target where the value is missing and where it is not."),
        )
        if names
        else (),
    )


def _compared(dependence: Dependence | None, target: str | None) -> dict[str, str]:
    if target is None:
        return {}
    if dependence is None:
        return {"compared": "", "where missing": "", "elsewhere": ""}
    return {"compared": dependence.what, "where missing": dependence.with_gap, "elsewhere": dependence.without}


def _sentence(
    share: pd.Series[float], names: list[str], by: dict[str, Dependence], target: str | None, empty_rows: int
) -> str:
    most = sorted(names, key=lambda name: -share[name])
    shown = listed([f"{name} {share[name]:.1%}" for name in most], most=3) if most else ""
    parts = [f"{len(names):,} column{'s have' if len(names) > 1 else ' has'} missing values: {shown}."] if names else []
    if empty_rows:
        parts.append(counted(empty_rows, "row is", "rows are") + " empty throughout.")
    if by:
        first, dependence = min(by.items(), key=lambda item: item[1].p_value)
        parts.append(
            f"Missing values in {listed(list(by), last=' and ')} depend on {target}: where {first} is missing, "
            f"{dependence.what} is {dependence.with_gap}, elsewhere {dependence.without}. A model could "
            "use this: will the same values be missing in use?"
        )
    elif target is not None and names:
        parts.append(f"None of this depends on {target}, by {counted(len(names), 'test')}.")
    return " ".join(parts)


def depends(gap: Mask, y: pd.Series[Any], *, classes: bool) -> Dependence | None:
    """Test whether a gap and the target have to do with each other.

    >>> rng = np.random.default_rng(1)
    >>> price = pd.Series(rng.normal(size=500), name="price")
    >>> depends(rng.uniform(size=500) < 0.1, price, classes=False).p_value > 0.01
    True
    >>> depends(price.to_numpy() > 1, price, classes=False).p_value < 1e-9
    True
    """
    count = int(gap.sum())
    if count < _FEWEST or len(gap) - count < _FEWEST:
        return None
    return _of_classes(gap, y) if classes else _of_numbers(gap, y)


def _of_numbers(gap: Mask, y: pd.Series[Any]) -> Dependence | None:
    values = y.to_numpy(np.float64)
    if values.min() == values.max():
        return None
    here, there = values[gap], values[~gap]
    p = float(mannwhitneyu(here, there, method="asymptotic").pvalue)
    low, middle, high = np.quantile(here, [0.25, 0.5, 0.75])
    error = 1.25 * float(high - low) / 1.35 / float(np.sqrt(len(here)))  # of a median, if the middle were normal
    shown = f"{number(middle)} ± {number(float(f'{error:.1g}'))}"
    return Dependence(p, f"the median of {y.name}", shown, number(float(np.median(there))), error)


def _of_classes(gap: Mask, y: pd.Series[Any]) -> Dependence | None:
    codes, levels = ranked(y)
    counts = np.array([np.bincount(codes[gap == side], minlength=len(levels)) for side in (True, False)])
    expected = counts.sum(0) * counts.sum(1).min() / counts.sum()
    rare = expected < _EXPECTED
    if rare.all():  # an exact test of the most frequent class against the rest asks for no more
        rare[np.argmax(expected)] = False
    merged = np.column_stack([counts[:, ~rare], counts[:, rare].sum(1)]) if rare.any() else counts
    merged = merged[:, merged.sum(0) > 0]
    if merged.shape[1] < 2:
        return None
    exact = merged.shape[1] == 2 and merged.min() < _LARGE
    p = float(fisher_exact(merged).pvalue) if exact else float(chi2_contingency(merged, correction=False).pvalue)
    shares = counts / counts.sum(1, keepdims=True)
    level = int(np.argmax(np.abs(shares[0] - shares[1])))
    here, there = shares[:, level]
    error = float(np.sqrt(max(here * (1 - here), 1e-12) / gap.sum()))
    what = f"the share of {y.name} = {levels[level]}"
    return Dependence(p, what, percent(here, error), f"{there:.0%}", error)
