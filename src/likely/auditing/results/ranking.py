"""One list of everything that was found, what does most harm first; rows with the same problem are one entry."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from likely._rows.reading.table import counted
from likely._typing import Index
from likely.auditing.results.finding import Finding, Suspect, chip


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
    return tuple(sorted(unsorted, key=lambda entry: (-entry.harm, int(entry.rows[0]))))


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
    together = count > 1
    return Entry(
        first.kind,
        f"{count:,} rows: {first.group}" if together else first.headline,
        np.array([suspect.row for suspect in members]),
        tuple(members),
        first.group,
        max(suspect.score for suspect in members),
        2 * sum(suspect.wrong for suspect in members) > count,
        float(np.mean([suspect.harm for suspect in members]) * np.sqrt(count)),
    )
