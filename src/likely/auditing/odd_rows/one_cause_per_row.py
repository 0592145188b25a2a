"""One entry per row: where a wrong value makes the target look wrong, too, the value is to blame."""

from collections.abc import Sequence
from dataclasses import replace

from likely._rows.reading.table import counted
from likely.auditing.results.finding import Finding, Reason, Suspect, without_rows

_JUDGED = ("targets", "labels")
_SURE = 0.95  # the certainty of a row that surely breaks the pattern


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
