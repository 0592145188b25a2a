"""Sums that do not add up: rows in which a total is not what its parts come to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from likely._page import Table
from likely._rows.reading.table import counted, listed
from likely._typing import Mask, Places
from likely.auditing.columns.scale import FACTORS
from likely.auditing.identities.identity import Identity
from likely.auditing.results.finding import EXPLAINED, Explained, Finding, Reason, worst_first

_SELDOM = 0.01  # of the rows: if more break an identity, it has exceptions, and they are odd, not wrong
_SURE, _DOUBTFUL = 0.99, 0.95  # the certainty of rows that break an identity seldom broken, and of exceptions
_PART = 0.1  # of the usual deviation of a total: an error of this size counts as one deviation
_TOLD, _SHOWN = 2, 15  # identities in the sentence, and in the table


def breaks(table: pd.DataFrame, identities: Sequence[Identity]) -> Mask:
    """Tell which rows break which identity."""
    return np.array([identity.broken(table) for identity in identities], bool).reshape(len(identities), len(table)).T


def tell_broken(
    table: pd.DataFrame,
    identities: Sequence[Identity],
    broken: Mask,
    counts: Places,
    wrong: int,
    rows: int,
) -> Finding | None:
    """Tell of rows that break identities."""
    if not identities:
        return None
    seldom = counts <= np.maximum(1, _SELDOM * rows)
    suspicious = np.asarray(broken.any(1))
    certainty = np.max(np.where(broken, np.where(seldom, _SURE, _DOUBTFUL), 0.0), axis=1)

    def explain(top: Places) -> Iterator[Explained]:
        for row in top.tolist():
            # Of several broken identities the one that is broken least often speaks.
            places = sorted(np.flatnonzero(broken[row]).tolist(), key=lambda k: int(counts[k]))
            which, part = [identities[k] for k in places], table.iloc[[row]]
            reasons = [_reason(identity, part) for identity in which]
            hint = _hint(which[0], part)
            headline = f"{reasons[0].what} = {reasons[0].value}, but {reasons[0].expected}"
            far = max(abs(float(identity.off(part)[0])) / (_PART * identity.spread) for identity in which)
            wrong, group = bool(seldom[places].any()), " is not ".join(which[0].sides)
            yield Explained(headline + (f"; {hint}" if hint else ""), reasons, max(far, 1.0), wrong, group)

    equations = [" = ".join(identity.sides) for identity in identities]
    lines = pd.DataFrame(
        {"rows that break it": [f"{count:,}" for count in counts]},
        index=pd.Index(equations, name="holds in nearly all rows"),
    ).head(_SHOWN)
    return Finding(
        "sums",
        "Columns that add up",
        _summary(equations, wrong),
        numbers={"rows": wrong, "identities": dict(zip(equations, map(int, counts), strict=True))},
        tables=(Table(lines, "Sums and products of columns, and how many rows do not keep to them."),),
        **worst_first("sums", certainty, suspicious, explain, most=EXPLAINED),
    )


def _summary(equations: list[str], wrong: int) -> str:
    told, one = listed(equations, most=_TOLD, last=" and "), len(equations) == 1
    hold = "holds" if one else "hold"
    if not wrong:
        return f"{told} {hold} in every row."
    verb = "breaks" if wrong == 1 else "break"
    return f"{told} {hold} in nearly all rows; {counted(wrong, 'row')} {verb} {'it' if one else 'one'}."


def _reason(identity: Identity, part: pd.DataFrame) -> Reason:
    """The total, and what the parts come to; or what these come to, and what they should."""
    left, right = identity.sides
    given, expected = float(identity.given(part)[0]), float(identity.expected(part)[0])
    # As many decimals as the columns have, or as it takes to see the difference.
    unit = min(identity.units[name] for name in identity.members) or abs(given - expected) / 10
    decimals = int(np.clip(np.ceil(-np.log10(max(unit, 1e-12)) - 1e-9), 0, 6))
    if not identity.total:
        return Reason(left, f"{expected:,.{decimals}f}", f"it should be {right}", 1.0)
    return Reason(left, f"{given:,.{decimals}f}", f"{right} = {expected:,.{decimals}f}", 1.0)


def _hint(identity: Identity, part: pd.DataFrame) -> str:
    """The one factor or sign of one column by which the row adds up; empty if there is none, or more than one."""
    trials = [(name, factor, hint) for name in identity.members for factor, hint in FACTORS.items()]
    changed = part[identity.members].iloc[[0] * len(trials)].astype(np.float64).reset_index(drop=True)
    for k, (name, factor, _) in enumerate(trials):
        changed.loc[k, name] *= factor
    fits = [trials[k] for k in np.flatnonzero(identity.holds(changed)) if changed.loc[k, trials[k][0]]]
    return f"{fits[0][0]} {fits[0][2]} would fit" if len(fits) == 1 else ""
