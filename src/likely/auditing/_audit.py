"""What an audit returns."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from likely.auditing._result import Result
from likely.auditing._write import write

Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Audit(Result):
    """What was found in some data. ``save`` writes a page, a CSV of scores and a JSON summary.

    ``findings`` has one :class:`Finding` a kind of problem, ``suspects`` the suspicious rows with reasons, the surest
    first, ``scores`` a frame with a row for every row of the data (0 is the first).

    >>> import likely, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(300, 2))
    >>> table = {"a": x[:, 0], "b": x[:, 1], "price": 20 + x.sum(1) + 0.1 * rng.normal(size=300)}
    >>> table["price"][7] *= 10
    >>> audit = likely.audit(table, target="price")
    >>> audit.suspects[0].row, audit.suspects[0].kind
    (7, 'targets')
    >>> sorted(audit.summary())
    ['data', 'findings', 'notes', 'rows', 'share_suspicious', 'suspicious', 'target', 'task']
    """

    def save(self, folder: str | os.PathLike[str], command: str = "") -> Path:
        """Write report.html, scores.csv and summary.json, and return the path of the page."""
        return write(self, Path(folder), command)
