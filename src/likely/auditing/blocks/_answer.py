"""What an audit of a long table returns: findings about the worst rows, and the scores of all rows in a file."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from likely._destination import keep_inputs, writable, write_together
from likely._files import replacing
from likely.auditing._audit import PAGE, SUMMARY, Audit, _json
from likely.auditing._finding import cell_text
from likely.auditing._found import plain
from likely.auditing._known import RowNames
from likely.auditing._report import page
from likely.auditing.blocks._scores import ScoreFile

SCORES = "scores.parquet"
FILES = (PAGE, SCORES, SUMMARY)
Finish = Callable[[int, pd.DataFrame], dict[str, Any]]


@dataclass(frozen=True)
class KeptRows:
    """Some rows of a table, under the places they have in it."""

    frame: pd.DataFrame
    place: dict[int, int]
    sampled: int  # rows of the sample

    @property
    def columns(self) -> pd.Index[Any]:
        """The names of the columns."""
        return self.frame.columns

    @property
    def iloc(self) -> KeptRows:
        """These rows: ``kept.iloc[rows]`` is a frame, as of a frame."""
        return self

    def below(self, rows: Sequence[int], places: NDArray[np.int64]) -> list[int]:
        """The places of rows in a sample to which these rows were appended."""
        n = self.sampled
        return [int(at) if at < n else n + self.place[int(row)] for row, at in zip(rows, places, strict=True)]

    def __getitem__(self, rows: Sequence[int]) -> pd.DataFrame:
        return self.frame.iloc[[self.place[int(row)] for row in rows]]


@dataclass(frozen=True)
class KeptNames(RowNames):
    """How rows are told from each other, of those that were kept."""

    place: dict[int, int] = field(default_factory=dict)

    def called(self, row: int) -> str:
        """A row by its name, and by its place if it has none, or shares it with others."""
        name = self.written(row)
        if self._column is None or pd.isna(self._column.iat[self.place[row]]):
            return f"row {row}"
        return f"{self.id} {name}" + (f" (row {row})" if self.shared[self.place[row]] else "")

    def name(self, row: int) -> str | None:
        """The name of a row, if rows have names, and no other row has the same."""
        return None if self._column is None or self.shared[self.place[row]] else self.written(row)

    def written(self, row: int) -> str:
        """What stands in the column of names."""
        return "" if self._column is None else cell_text(self._column.iat[self.place[row]])

    def keys(self, rows: Any) -> list[str]:
        """A short text per row that follows from what the row holds."""
        return super().keys([self.place[int(row)] for row in rows])


@dataclass(frozen=True, repr=False)
class BlocksAudit(Audit):
    """What was found in a table that was read by blocks.

    Attributes:
        findings: of the worst rows of each kind; ``summary`` and ``numbers`` of each count all.
        scores: a frame of the rows that are listed; ``save`` writes ``scores.parquet`` with all rows.
        listed: how many rows are listed.
        flagged: how many rows are suspicious.
        read: how many rows the models were fitted on.
    """

    kept: KeptRows | None = None
    file: ScoreFile | None = field(default=None, compare=False)
    finish: Finish | None = field(default=None, compare=False)
    flagged: int = 0
    read: int = 0
    inputs: tuple[str, ...] = ()
    scores_file: ClassVar[str] = SCORES

    @cached_property
    def names(self) -> RowNames:
        """How rows are told from each other."""
        assert self.kept is not None
        return KeptNames(self.kept.frame, self.id, place=self.kept.place)

    @property
    def listed(self) -> int:
        """How many suspicious rows are listed."""
        return len(self.suspicious)

    @property
    def share(self) -> float:
        """The share of rows that are suspicious."""
        return max(self.flagged - self.hidden, self.listed) / self.rows

    @property
    def scores(self) -> pd.DataFrame:
        """The scores of the rows that are listed."""
        rows, parts = self.suspicious, []
        for start, final in self._final():
            in_part = rows[(rows >= start) & (rows < start + len(final))]
            parts.append(final.iloc[in_part - start])
        return pd.concat(parts).set_index("row")

    def lede(self) -> str:
        """What was found, in one sentence."""
        more = self.flagged - self.hidden - self.listed
        sentence = super().lede()
        return sentence if more <= 0 else f"{sentence[:-1]}; {more:,} more, with less certainty, are in {SCORES}."

    def summary(self) -> dict[str, Any]:
        """What was found, in numbers and in the order of the list."""
        suspicious = max(self.flagged - self.hidden, self.listed)
        totals = {
            "suspicious": suspicious,
            "share_suspicious": self.share,
            "listed": self.listed,
            "rows_read": self.read,
        }
        return super().summary() | totals

    def save(self, folder: str | os.PathLike[str], command: str = "") -> Path:
        """Write report.html, scores.parquet and summary.json: all three or none, and never over the data."""
        folder = Path(folder)
        keep_inputs([folder / name for name in FILES], {f"the data ({path})": path for path in self.inputs})
        with writable(folder, create=True):
            texts = {SUMMARY: _json(plain(self.summary())), PAGE: page(self, command)}
            contents = {folder / name: text.encode("utf-8", "backslashreplace") for name, text in texts.items()}
            with replacing(folder / SCORES) as beside:
                self._write(beside)
                write_together(contents)
        return folder / PAGE

    def _write(self, path: Path) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        writer: Any = None
        try:
            for _, final in self._final():
                table = pa.Table.from_pandas(final, preserve_index=False)
                writer = writer or parquet.ParquetWriter(path, table.schema)
                writer.write_table(table.cast(writer.schema))
        finally:
            if writer is not None:
                writer.close()

    def _final(self) -> Any:
        """The scores of all rows, part by part."""
        assert self.file is not None
        assert self.finish is not None
        why = {suspect.row: suspect.headline for suspect in reversed(self.suspects)}
        noted: NDArray[np.int64] = np.array(sorted(why), np.int64)
        for start, part in self.file.batches():
            final = pd.DataFrame({"row": np.arange(start, start + len(part)), **self.finish(start, part)})
            words = np.full(len(part), "", dtype=object)
            for row in noted[(noted >= start) & (noted < start + len(part))]:
                words[row - start] = why[int(row)]
            yield start, final.assign(why=pd.Series(words, dtype=str))
