"""What an audit has found, before it is written down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from likely.auditing._finding import Finding, Suspect

ORDER = ("labels", "targets", "rows", "cells", "duplicates", "overlap", "noise", "calibration", "leaks")


@dataclass(frozen=True)
class Result:
    """What was found in some data: the findings, and what they add up to."""

    name: str
    rows: int
    task: str
    target: str | None
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()
    values: pd.DataFrame | None = None
    thumbnails: Callable[[int], str | None] | None = field(default=None, compare=False)
    source: Path | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "findings", tuple(sorted(self.findings, key=lambda own: ORDER.index(own.name))))

    @property
    def suspects(self) -> list[Suspect]:
        """Suspicious rows with reasons, the surest first; a row may be suspicious in more than one way."""
        found = [suspect for finding in self.findings for suspect in finding.suspects]
        return sorted(found, key=lambda suspect: -suspect.score)

    @property
    def suspicious(self) -> NDArray[np.int64]:
        """All suspicious rows."""
        return np.unique(np.concatenate([np.zeros(0, np.int64), *(finding.rows for finding in self.findings)]))

    @property
    def share(self) -> float:
        """The share of rows that are suspicious."""
        return len(self.suspicious) / self.rows

    @property
    def scores(self) -> pd.DataFrame:
        """The scores of every row."""
        columns: dict[str, Any] = {"suspicious": np.isin(np.arange(self.rows), self.suspicious)}
        for finding in self.findings:
            columns |= finding.scores
        found = pd.DataFrame(columns)
        why = np.full(self.rows, "", dtype=object)
        for suspect in reversed(self.suspects):
            why[suspect.row] = suspect.headline
        found["why"] = why
        found.index.name = "row"
        return found

    def summary(self) -> dict[str, Any]:
        """What was found, in numbers."""
        return {
            "data": self.name,
            "rows": self.rows,
            "task": self.task,
            "target": self.target,
            "suspicious": len(self.suspicious),
            "share_suspicious": self.share,
            "findings": {finding.name: dict(finding.numbers) for finding in self.findings},
            "notes": list(self.notes),
        }
