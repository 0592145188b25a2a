"""What an audit returns, and the three files it is written to: a page for people, a CSV, a JSON for programs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from likely._destination import keep_inputs, writable, write_together
from likely.auditing._found import Found, plain
from likely.auditing._report import extract, page

Progress = Callable[[str, float], None]
PAGE, SUMMARY = "report.html", "summary.json"
FILES = PAGE, "scores.csv", "scores.parquet", SUMMARY  # one of the two files of scores is written
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


@dataclass(frozen=True, repr=False)
class Audit(Found):
    """What was found in some data.

    Attributes:
        name: the name of the data, such as that of its file.
        rows: the number of rows.
        task: ``"regression"``, ``"classification"`` or ``"none"``.
        target: the name of the target, or None.
        notes: sentences about what was read and left out.
        values: a frame of the values that the page shows, or None.
        source: the path of the data, or None for what was in memory.
        id: the name of the column that identifies rows, or None for row numbers.
        accepted: what was marked as fine before.
        neighbours: the comparison of a row with similar ones, or None.
        findings: one :class:`Finding` per kind of problem, and per question about the table as a whole.
        entries: one list across kinds, what does most harm first; rows with the same problem are one entry.
        suspects: the suspicious rows with reasons, in the same order.
        scores: a frame with a row for every row of the data (0 is the first).

    >>> import likely, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(300, 2))
    >>> table = {"a": x[:, 0], "b": x[:, 1], "price": 20 + x.sum(1) + 0.1 * rng.normal(size=300)}
    >>> table["price"][7] *= 10
    >>> report = likely.audit(table, target="price")
    >>> report.suspects[0].row, report.suspects[0].kind
    (7, 'targets')
    >>> list(report.frame().columns)
    ['row', 'kind', 'verdict', 'certainty', 'far', 'harm', 'group', 'what']
    >>> sorted(report.summary())[:4]
    ['data', 'entries', 'findings', 'known']
    """

    def save(self, folder: str | os.PathLike[str], command: str = "") -> Path:
        """Write report.html, scores.csv and summary.json: all three or none, and never over the data.

        The scores of a table that was read in blocks are written to scores.parquet instead.

        Args:
            folder: where to write; it is made if it is not there.
            command: what made the audit, to be shown on the page.

        Returns:
            The path of the page.
        """
        folder = Path(folder)
        files = (PAGE, self.scores_file, SUMMARY)
        keep_inputs([folder / name for name in files], {f"the data ({path})": path for path in self.inputs})
        with writable(folder, create=True):
            texts = {SUMMARY: _json(plain(self.summary())), PAGE: page(self, command)}
            # The name of a file may hold what is no Unicode.
            self._write(
                folder, {folder / name: text.encode("utf-8", "backslashreplace") for name, text in texts.items()}
            )
        return folder / PAGE

    @property
    def inputs(self) -> tuple[str | os.PathLike[str], ...]:
        """The files that were read."""
        return () if self.source is None else (self.source,)

    def _write(self, folder: Path, contents: dict[Path, bytes]) -> None:
        """Write the scores and these files, all or none."""
        scores = scores_csv(self.scores).encode("utf-8", "backslashreplace")
        write_together({folder / self.scores_file: scores, **contents})

    def _repr_html_(self) -> str:
        return extract(self)


def _json(summary: dict[str, Any]) -> str:
    """A summary that people can read, with a line per entry: there may be a hundred thousand marks."""

    def written(value: Any, indent: int | None = 1) -> str:
        return json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)

    lines = {key: written(value) for key, value in summary.items()}
    lines["entries"] = "[" + ",".join(f"\n  {written(entry, None)}" for entry in summary["entries"]) + "]"
    return "{\n " + ",\n ".join(f"{written(key)}: {text}" for key, text in lines.items()) + "\n}\n"


def scores_csv(scores: pd.DataFrame) -> str:
    """A CSV in which no cell is a formula, by column: pandas takes three times as long for a million rows."""
    names = [scores.index.name or "", *map(str, scores.columns)]
    columns = [_cells(scores.index.to_series()), *(_cells(scores[name]) for name in scores.columns)]
    return "\n".join([",".join(map(_quoted, names)), *map(",".join, zip(*columns, strict=True)), ""])


def _cells(column: pd.Series[Any]) -> list[str]:
    """The values of a column as they are written; a missing one is empty."""
    if pd.api.types.is_float_dtype(column.dtype):
        return ["" if value != value else f"{value:.6g}" for value in column.tolist()]
    if pd.api.types.is_numeric_dtype(column.dtype) and not column.hasnans:
        return list(map(str, column.tolist()))
    codes, levels = pd.factorize(column)  # most texts, such as a kind of finding, are those of many rows
    return np.array([*(_quoted(str(level)) for level in levels), ""], object)[codes].tolist()


def _quoted(text: str) -> str:
    text = harmless(text)
    return '"' + text.replace('"', '""') + '"' if "," in text or '"' in text else text


def harmless(text: str) -> str:
    """The text, after an apostrophe if a spreadsheet would take it for a formula, and without line ends.

    >>> harmless("=1+1"), harmless("fine"), harmless(" @SUM(A1)")
    ("'=1+1", 'fine', "' @SUM(A1)")
    """
    guarded = "'" + text if text.startswith(_FORMULA) or text.lstrip().startswith(_FORMULA) else text
    return guarded.replace("\r", " ").replace("\n", " ")
