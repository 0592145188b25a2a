"""What an audit finds: suspicious rows with reasons, one list of them, and tables about the rest."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from likely._page import Table
from likely._rows.reading.table import counted
from likely._typing import Array, Index, Mask, Values


class Chip(NamedTuple):
    """The word for a row with a kind of problem, and its colour where the row is odd; wrong is red."""

    word: str
    colour: str


# The kinds of problem in the order of a page; others come last. None: what is found concerns all rows.
KINDS: dict[str, Chip | None] = {
    "overview": None,
    "labels": Chip("label", "red"),
    "targets": Chip("target", "red"),
    "rows": Chip("odd row", "violet"),
    "cells": Chip("cell", "red"),
    "sums": Chip("sum", "red"),
    "duplicates": Chip("copy", "gold"),
    "leaks": None,
    "gaps": None,
    "columns": None,
    "order": None,
    "groups": None,
    "calibration": None,
}
# How many of all rows have a problem, and how many rows there are: None where those that are told of are all.
OfAll = tuple[int, int] | None
_FARTHEST = 50.0  # deviations: further off is not worse
_THOUSANDS = 10_000  # from which thousands are written apart
_ODD = 0.3  # of odd rows are taken to be wrong
_JUDGED = ("targets", "labels")
_SURE = 0.95  # the certainty of a row that surely breaks the pattern
EXPLAINED = 500  # suspicious rows of a finding that get reasons, where these take time; the CSV has all


@dataclass(frozen=True)
class Reason:
    """One line of why a row is suspicious.

    Args:
        what: the column, or another name for what is compared.
        value: its value in this row, as shown.
        expected: what similar rows have, in words.
        share: its share of the row's score, from 0 to 1.

    >>> Reason("age", "900", "usually 2 to 48", share=0.97).expected
    'usually 2 to 48'
    """

    what: str
    value: str
    expected: str = ""
    share: float = 0.0


@dataclass(frozen=True)
class Suspect:
    """A suspicious row.

    Args:
        row: its place in the data; the first is 0.
        kind: the kind of problem, a key of ``KINDS``.
        score: how sure that is, from 0 to 1.
        headline: what is wrong, in one line.
        reasons: the same, in several.
        far: how far off the value is, in usual deviations.
        wrong: whether it is probably wrong; else it is odd, and may be right.
        group: what is shared by all rows with the same problem, in a few words; empty if the row stands alone.

    >>> Suspect(7, "targets", 0.97, "27,100, expected 14 to 22", far=40.0).harm
    38.8
    """

    row: int
    kind: str
    score: float
    headline: str
    reasons: tuple[Reason, ...] = ()
    far: float = 1.0
    wrong: bool = True
    group: str = ""

    @property
    def harm(self) -> float:
        """Probability of being wrong times how far off the values are, which orders the page."""
        return self.score * min(self.far, _FARTHEST) * (1 if self.wrong else _ODD)


class Explained(NamedTuple):
    """What is said of one suspicious row; the fields are those of :class:`Suspect`."""

    headline: str
    reasons: Sequence[Reason] = ()
    far: float = 1.0
    wrong: bool = True
    group: str = ""


@dataclass(frozen=True)
class Finding:
    """One kind of problem, and the rows that have it.

    Args:
        name: the kind, such as ``"targets"``.
        title: its heading on the page.
        summary: the result in a sentence.
        rows: numbers of the suspicious rows, the worst first.
        certainty: how sure each of them is, from 0 to 1.
        suspects: the first of them, with reasons.
        scores: columns of the CSV, one value per row of the data.
        numbers: entries of the JSON summary.
        tables: tables of the page.
        judged: False where the data allow no verdict of this kind; ``summary`` gives the reason.
        known: the number of rows that were marked as fine before and are left out.
        found: False where there is nothing to tell but of ``rows``.

    >>> Finding("leaks", "Columns that give the target away", "None does.").rows.size
    0
    """

    name: str
    title: str
    summary: str
    rows: Index = field(default_factory=lambda: np.zeros(0, np.int64))
    certainty: Array = field(default_factory=lambda: np.zeros(0))
    suspects: tuple[Suspect, ...] = ()
    scores: Mapping[str, Values] = field(default_factory=dict)
    numbers: Mapping[str, Any] = field(default_factory=dict)
    tables: tuple[Table, ...] = ()
    judged: bool = True
    known: int = 0
    found: bool = True

    @property
    def clean(self) -> bool:
        """Whether this was looked for and nothing was found."""
        return self.judged and not self.found and not self.rows.size


def without_rows(finding: Finding, rows: Collection[int]) -> Finding:
    """The finding but for some rows, of which its sentence still speaks."""
    left = ~np.isin(finding.rows, list(rows))
    suspects = tuple(suspect for suspect in finding.suspects if suspect.row not in rows)
    return replace(finding, rows=finding.rows[left], certainty=finding.certainty[left], suspects=suspects)


def each_once(rows: Iterable[Index]) -> Index:
    """The rows of several lists, in order."""
    return np.unique(np.concatenate([np.zeros(0, np.int64), *rows]))


def worst_first(
    kind: str,
    certainty: Array,
    suspicious: Mask,
    explain: Callable[[Index], Iterable[Explained]],
    most: int | None = EXPLAINED,
) -> dict[str, Any]:
    """``rows``, ``certainty`` and ``suspects`` of a finding.

    ``explain(rows)`` tells what is wrong with each of some rows, at ``most`` so many; None: of all. Rows without a
    headline are left out.

    >>> import numpy as np
    >>> found = worst_first("odd", np.array([0.2, 0.9, 0.95]), np.array([False, True, True]),
    ...                     lambda rows: [Explained(f"row {row} is odd") for row in rows])
    >>> found["rows"], found["suspects"][0].headline
    (array([2, 1]), 'row 2 is odd')
    """
    rows = np.flatnonzero(suspicious)
    rows = rows[np.argsort(-certainty[rows], kind="stable")]
    top = rows[:most]
    suspects = tuple(
        Suspect(int(row), kind, float(certainty[row]), explained.headline, tuple(explained.reasons), *explained[2:])
        for row, explained in zip(top, explain(top) if len(top) else (), strict=True)
        if explained.headline
    )
    rows = np.array([*(suspect.row for suspect in suspects), *rows[len(top) :]], np.int64)
    return {"rows": rows, "certainty": certainty[rows], "suspects": suspects}


@dataclass(frozen=True)
class Entry:
    """One line of the list: a row, or all rows that share a problem.

    >>> findings = [Finding("targets", "", "", np.array([4, 2]), np.array([0.9, 0.8]), (
    ...     Suspect(4, "targets", 0.9, "44, expected 4", far=9.0, group="÷10 would fit"),
    ...     Suspect(2, "targets", 0.8, "22, expected 2", far=9.0, group="÷10 would fit")))]
    >>> entry, = entries(findings)
    >>> entry.headline, entry.rows, round(entry.harm, 1)
    ('2 rows: ÷10 would fit', array([4, 2]), 10.8)
    """

    kind: str
    headline: str
    rows: Index = field(compare=False)
    suspects: tuple[Suspect, ...]
    group: str = ""
    score: float = 0.0
    wrong: bool = True
    harm: float = 0.0


def entries(findings: Iterable[Finding]) -> tuple[Entry, ...]:
    """All findings about rows as one list, what does most harm first."""
    unsorted = [entry for finding in findings for entry in _of_one(finding)]
    return tuple(sorted(unsorted, key=lambda entry: (-entry.harm, entry.rows[0])))


def _of_one(finding: Finding) -> list[Entry]:
    """The entries of one kind of problem."""
    groups: dict[str, list[Suspect]] = {}
    for suspect in finding.suspects:
        groups.setdefault(suspect.group or f"row {suspect.row}", []).append(suspect)
    entries = [_entry(members) for members in groups.values()]
    rest = finding.rows[len(finding.suspects) :]
    if len(rest):
        entries.append(
            Entry(
                finding.name,
                f"{counted(len(rest), 'more row')} of this kind ({chip(finding.name).word}), less certain than others",
                rest,
                (),
                score=float(finding.certainty[len(finding.suspects)]),
                wrong=all(suspect.wrong for suspect in finding.suspects),
                harm=0.5 * min((suspect.harm for suspect in finding.suspects), default=0.0),
            )
        )
    return entries


def _entry(members: list[Suspect]) -> Entry:
    """One suspicious row, or several with the same problem."""
    members = sorted(members, key=lambda suspect: -suspect.harm)
    first, count = members[0], len(members)
    return Entry(
        first.kind,
        f"{count:,} rows: {first.group}" if count > 1 else first.headline,
        np.array([suspect.row for suspect in members]),
        tuple(members),
        first.group,
        max(suspect.score for suspect in members),
        2 * sum(suspect.wrong for suspect in members) > count,
        float(np.mean([suspect.harm for suspect in members]) * np.sqrt(count)),
    )


def one_entry_per_row(findings: Sequence[Finding]) -> list[Finding]:
    """Findings in which no row stands both as an odd row and as one with a wrong target.

    A row that holds a wrong value, or surely breaks the pattern of the columns, is listed for that: it explains why the
    target is not the expected one. A row that is only far out is listed for its target. What the other finding says
    becomes the last reason.

    >>> import numpy as np
    >>> size = Suspect(7, "rows", 0.99, "x = 0, where similar rows have 4–5", (Reason("x", "0"),))
    >>> price = Suspect(7, "targets", 0.9, "price = 900, expected 20 ± 3", (Reason("price", "900"),))
    >>> def holding(name, suspect):
    ...     return Finding(name, "", "1 row.", np.array([7]), np.array([suspect.score]), (suspect,))
    >>> rows, targets = one_entry_per_row([holding("rows", size), holding("targets", price)])
    >>> rows.suspects[0].reasons[-1].expected, len(targets.rows), targets.summary
    ('expected 20 ± 3', 0, '1 row. 1 row is listed under what explains it.')
    """
    by_name = {finding.name: finding for finding in findings}
    # A sum that is off tells more than the pattern that it breaks.
    pairs = [("sums", "rows"), *((cause, name) for cause in ("sums", "rows") for name in _JUDGED)]
    for cause, name in pairs:
        if cause in by_name and name in by_name:
            by_name[cause], by_name[name] = _listed_once(by_name[cause], by_name[name])
    return [by_name[finding.name] for finding in findings]


def _listed_once(odd: Finding, judged: Finding) -> tuple[Finding, Finding]:
    by_row = {suspect.row: suspect for suspect in judged.suspects}
    both = [(suspect, by_row[suspect.row]) for suspect in odd.suspects if suspect.row in by_row]
    blamed = {value.row: _joined(value, target) for value, target in both if value.wrong or value.score >= _SURE}
    others = {value.row: _joined(target, value) for value, target in both if value.row not in blamed}
    return _listed(odd, blamed, others), _listed(judged, others, blamed)


def _joined(suspect: Suspect, other: Suspect) -> Suspect:
    """The first, with what is said of the other among its reasons; it does as much harm as the worse of the two."""
    what = other.reasons[0].what if other.reasons else other.kind
    value = other.reasons[0].value if other.reasons else ""
    prefix = f"{what} = "  # stands beside the reason already
    expected = other.headline.partition(", ")[2] if other.headline.startswith(prefix) else other.headline
    worse = max(suspect.far, other.far) if other.wrong else suspect.far
    reasons = (*suspect.reasons, Reason(what, value, expected))
    return replace(suspect, far=worse, wrong=suspect.wrong or other.wrong, reasons=reasons)


def _listed(finding: Finding, joined: dict[int, Suspect], elsewhere: dict[int, Suspect]) -> Finding:
    """A finding with some suspects replaced, and without those that another finding lists."""
    if not joined and not elsewhere:
        return finding
    left = without_rows(finding, elsewhere)
    count = len(elsewhere)
    verb, them = ("is", "it") if count == 1 else ("are", "them")
    listed = f" {counted(count, 'row')} {verb} listed under what explains {them}."
    return replace(
        left,
        suspects=tuple(joined.get(suspect.row, suspect) for suspect in left.suspects),
        summary=finding.summary + (listed if count else ""),
    )


def number(value: float) -> str:
    """A number for people: four digits that matter, thousands apart from 10,000 on, so that years are written as such.

    >>> number(1234567.8), number(0.000123456), number(3.0), number(2008.0), number(float("nan"))
    ('1,234,568', '0.0001235', '3', '2008', 'missing')
    """
    if np.isnan(value):
        return "missing"
    if value == 0 or 1e-4 <= abs(value) < 1e9:
        digits = max(0, 3 - int(np.floor(np.log10(abs(value) or 1))))
        shown = f"{value:.{digits}f}" if abs(value) < _THOUSANDS else f"{value:,.{digits}f}"
        return shown.rstrip("0").rstrip(".") if "." in shown else shown
    return f"{value:.4g}"


def percent(share: float, error: float) -> str:
    """A share with its error, which has a digit that matters.

    >>> percent(0.934, 0.0031), percent(0.5, 0.04), percent(1.0, 0.0)
    ('93.4% ± 0.3%', '50% ± 4%', '100% ± 0%')
    """
    digits = 0 if error >= 0.0095 or error < 0.0005 else 1
    return f"{share:.{digits}%} ± {error:.{digits}%}"


def chance(p: float) -> str:
    """A probability for people, which is never said to be none or all.

    >>> chance(0.984), chance(0.99999), chance(0.0)
    ('98%', '99.9%', '0.1%')
    """
    p = min(max(p, 0.001), 0.999)
    return f"{p:.1%}" if p < 0.01 or p > 0.99 else f"{p:.0%}"


def chip(kind: str) -> Chip:
    """The word and the colour of a kind of problem.

    >>> chip("rows")
    Chip(word='odd row', colour='violet')
    """
    return KINDS.get(kind) or Chip(kind, "violet")


def cell_text(value: Any) -> str:
    """A cell of a table as text, the same for a whole number as for the float that equals it.

    >>> cell_text(3), cell_text(3.0), cell_text(None), cell_text("3.0")
    ('3', '3', 'missing', '3.0')
    """
    if isinstance(value, str):  # the usual kinds first: all cells of many rows may be asked for
        return value
    if isinstance(value, float | np.floating):
        return "missing" if value != value else str(value).removesuffix(".0")
    return "missing" if pd.api.types.is_scalar(value) and pd.isna(value) else str(value)


def verdict(wrong: bool) -> str:
    """In a word, what is thought of a row."""
    return "wrong" if wrong else "odd"


def plain(value: Any) -> Any:
    """NumPy's numbers as Python's, and what is not finite as null, which JSON lacks a word for."""
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not np.isfinite(value) else value
