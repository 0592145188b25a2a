"""The audit: which findings there are for a table, for a model's outputs, and what they add up to."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from likely.auditing._finding import Finding, Suspect

Progress = Callable[[str, float], None]
ORDER = ("labels", "targets", "rows", "cells", "duplicates", "overlap", "noise", "calibration", "leaks")


@dataclass(frozen=True)
class Audit:
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

    def save(self, folder: str | os.PathLike[str], command: str = "") -> Path:
        """Write report.html, scores.csv and summary.json, and return the path of the page."""
        from likely.auditing._write import write

        return write(self, Path(folder), command)


def audit(
    data: Any = None,
    target: Any = None,
    *,
    task: str = "auto",
    logits: Any = None,
    labels: Any = None,
    features: Any = None,
    images: Any = None,
    classes: Sequence[str] | None = None,
    test: Any = None,
    seed: int = 0,
    progress: Progress = lambda _what, _share: None,
) -> Audit:
    """Find what is wrong with a data set: odd rows, wrong labels and targets, noise, copies, leaks.

    Give one of

    - ``data``, a table (a path to CSV, Parquet, Arrow or npz, a pandas, Polars or Arrow frame, an array, a mapping of
      columns) and, to judge its labels or targets, ``target``, the name of that column. ``task`` is
      ``"classification"`` or ``"regression"`` where the column does not speak for itself. ``test`` is a second table
      that should share no row with the first;
    - ``logits`` and ``labels`` (arrays or .npy files) of a classifier on rows it was not trained on, with ``features``
      (its last layer's input) and ``images`` (a folder, or an array) if there are any;
    - a torch model as ``data`` and a loader of (input, target) batches it was not trained on as ``target``. Its
      temperature, or its scale, is fitted on the input of its last linear layer.

    Predictions are out of fold throughout: no row is judged by a model that has seen it. Nothing is written; call
    ``save`` on the answer.

    >>> import likely, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.integers(0, 2, 400)
    >>> table = {"x": truth + 0.1 * rng.normal(size=400), "z": rng.normal(size=400), "label": np.where(truth, "a", "b")}
    >>> table["label"][3] = "b" if truth[3] else "a"
    >>> audit = likely.audit(table, target="label")
    >>> [suspect.row for suspect in audit.suspects if suspect.kind == "labels"]
    [3]
    """
    if logits is not None or labels is not None:
        from likely.auditing._outputs import audit_logits

        if data is not None or target is not None:
            raise ValueError("give data (and target), or logits and labels, not both")
        if logits is None or labels is None:
            raise ValueError("logits and labels go together: give both")
        return audit_logits(logits, labels, features, images, classes, seed, progress)
    if data is None:
        raise ValueError("give a table, or logits and labels, or a model and a loader")
    if callable(data) and hasattr(data, "parameters"):
        from likely.auditing._model import audit_model

        return audit_model(data, target, task, images, classes, seed, progress)
    from likely.auditing._table import audit_table

    return audit_table(data, target, task, test, seed, progress)
