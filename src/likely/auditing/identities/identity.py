"""Columns that add up, or multiply, to another, such as total = net + tax, and the rows in which they do not."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from likely._page import Table
from likely._rows.reading.table import counted, listed
from likely._typing import Array, Mask, Places
from likely.auditing.columns.scale import FACTORS
from likely.auditing.results.finding import Explained, Finding, OfAll, Reason, worst_first

PRECISION = 1e-6  # of the size of terms: what single precision leaves of an exact sum
_ROUNDINGS = 3.0  # tolerances by which a row must be off where columns were rounded: some were rounded twice
_SELDOM = 0.01  # of the rows: if more break an identity, it has exceptions, and they are odd, not wrong
_SURE, _DOUBTFUL = 0.99, 0.95  # the certainty of rows that break an identity seldom broken, and of exceptions
_PART = 0.1  # of the usual deviation of a total: an error of this size counts as one deviation
_TOLD, _SHOWN = 2, 15  # identities in the sentence, and in the table


class Identity(NamedTuple):
    """A total that is a weighted sum of its parts, or a product of their powers."""

    total: str
    parts: dict[str, float]
    constant: float
    product: bool
    units: dict[str, float]
    rounded: bool
    spread: float = 1.0

    @property
    def members(self) -> list[str]:
        """All columns of the identity."""
        return [name for name in (self.total, *self.parts) if name]

    @property
    def sides(self) -> tuple[str, str]:
        """What is equal: the total and its parts, or parts and the constant that they come to."""
        return (self.total, str(self)) if self.total else (str(self), f"{self.constant:.6g}")

    def expected(self, table: pd.DataFrame) -> Array:
        """What the parts of each row come to; NaN where one is missing."""
        with np.errstate(all="ignore"):
            if self.product:
                powers = [table[name].to_numpy(np.float64) ** power for name, power in self.parts.items()]
                return self.constant * np.prod(powers, axis=0)
            terms = [coefficient * table[name].to_numpy(np.float64) for name, coefficient in self.parts.items()]
            return (self.constant if self.total else 0.0) + np.sum(terms, axis=0)

    def given(self, table: pd.DataFrame) -> Array:
        """What they should come to."""
        return table[self.total].to_numpy(np.float64) if self.total else np.full(len(table), self.constant)

    def tolerance(self, table: pd.DataFrame, *, decimals: bool = False) -> Array:
        """How far each row may be off by floating point, and by rounding where that was found."""
        values = {name: np.abs(table[name].to_numpy(np.float64)) for name in self.parts}
        with np.errstate(all="ignore"):
            expected = np.abs(self.expected(table))
            sizes = [abs(c) * values[name] for name, c in self.parts.items()]
            slack = PRECISION * (expected if self.product else np.sum(sizes, axis=0) + abs(self.constant))
            for name, c in (*self.parts.items(), (self.total, 1.0)):
                unit = self.units.get(name, 0.0)
                if self.rounded or (decimals and unit < 1):
                    slope = expected / values[name] if self.product and name in values else 1.0
                    slack = slack + np.nan_to_num(abs(c) * slope) * unit / 2 * (1 + 1e-6)
        return slack

    def known(self, table: pd.DataFrame) -> Mask:
        """Whether each row has all values of the identity."""
        return np.isfinite(self.given(table)) & np.isfinite(self.expected(table))

    def off(self, table: pd.DataFrame) -> Array:
        """How much greater the total of each row is than what its parts come to; 0 where a value is missing."""
        with np.errstate(invalid="ignore"):
            return np.where(self.known(table), self.given(table) - self.expected(table), 0.0)

    def broken(self, table: pd.DataFrame) -> Mask:
        """Whether each row has all values, and they do not come to the total, rounding aside."""
        most = _ROUNDINGS if self.rounded else 1.0
        return np.abs(self.off(table)) > most * self.tolerance(table, decimals=True)

    def holds(self, table: pd.DataFrame) -> Mask:
        """Whether each row has all values, and they come to the total."""
        return self.known(table) & ~self.broken(table)

    def __str__(self) -> str:
        """The parts, as people write them: "net + tax", "(low + high) / 2", "quantity × price"."""
        return _product(self) if self.product else _sum(self)


def confirmed(sums: Iterable[Identity], table: pd.DataFrame) -> Mask:
    """Whether each row keeps to any of some identities."""
    return np.any([np.zeros(len(table), bool), *(identity.holds(table) for identity in sums)], axis=0)


def held(identities: Iterable[Identity], names: Sequence[str], table: pd.DataFrame) -> Mask:
    """Whether each value of some columns is one that an identity of these columns confirms."""
    mask = np.zeros((len(table), len(names)), bool)
    for identity in identities:
        if set(identity.members) <= set(names):
            places = [names.index(name) for name in identity.members]
            mask[:, places] |= identity.holds(table)[:, None]
    return mask


def _sum(identity: Identity) -> str:
    coefficients = list(identity.parts.values())
    inverse, constant = 1 / coefficients[0], identity.constant if identity.total else 0.0
    if len(set(coefficients)) == 1 and inverse > 1.5 and not constant:
        return f"({' + '.join(identity.parts)}) / {inverse:.4g}"
    terms = [(name if abs(c) == 1 else f"{abs(c):.4g} × {name}", c) for name, c in identity.parts.items()]
    terms = [*sorted(terms, key=lambda term: term[1] < 0), *([(f"{abs(constant):.6g}", constant)] if constant else [])]
    words = "".join(f" {'−' if c < 0 else '+'} {term}" for term, c in terms)
    return words[3:] if terms[0][1] > 0 else "−" + words[3:]


def _product(identity: Identity) -> str:
    powers = {name + {1: "", 2: "²", 3: "³"}[int(abs(c))]: c for name, c in identity.parts.items()}
    above, below = [name for name, c in powers.items() if c > 0], [name for name, c in powers.items() if c < 0]
    constant = identity.constant
    if constant != 1 and (constant > 1 or not above):
        above.append(f"{constant:.6g}")
    elif constant != 1:
        below.append(f"{1 / constant:.6g}")
    return " × ".join(above or ["1"]) + "".join(f" / {part}" for part in below)


def tell_broken(
    table: pd.DataFrame, identities: Sequence[Identity], broken: Mask, counts: Places, of_all: OfAll
) -> Finding:
    """Tell of rows that break identities."""
    suspicious = np.asarray(broken.any(1))
    wrong, rows = of_all or (int(suspicious.sum()), len(table))
    seldom = counts <= np.maximum(1, _SELDOM * rows)
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
        **worst_first("sums", certainty, suspicious, explain),
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
    part = part[identity.members]
    trials = [(name, factor, hint) for name in identity.members for factor, hint in FACTORS.items() if part[name].all()]
    changed = pd.concat([part, *(part.assign(**{name: part[name] * factor}) for name, factor, _ in trials)])
    fits = [trial for trial, fit in zip(trials, identity.holds(changed)[1:], strict=True) if fit]
    return f"{fits[0][0]} {fits[0][2]} would fit" if len(fits) == 1 else ""
