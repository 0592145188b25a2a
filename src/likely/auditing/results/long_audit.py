"""What an audit of a long table returns: findings about the worst rows, and the scores of all rows in a file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from likely._destination import write_together
from likely._files import replacing
from likely.auditing._row_checks import RowCheck
from likely.auditing.results.audit import Audit
from likely.auditing.results.score_file import ScoreFile


@dataclass(frozen=True, repr=False)
class LongAudit(Audit):
    """What was found in a table that was read by blocks.

    Attributes:
        findings: of the worst rows of each kind; ``summary`` and ``numbers`` of each count all.
        scores: a frame of the rows that are listed; ``save`` writes ``scores.parquet`` with all rows.
        listed: how many rows are listed.
        flagged: how many rows are suspicious.
        read: how many rows the models were fitted on.
        paths: the local files of the table.
    """

    file: ScoreFile | None = field(default=None, compare=False)
    checks: tuple[RowCheck, ...] = field(default=(), compare=False)
    flagged: int = 0
    read: int = 0
    paths: tuple[str, ...] = ()
    scores_file: ClassVar[str] = "scores.parquet"

    @property
    def listed(self) -> int:
        """How many suspicious rows are listed."""
        return len(self.suspicious)

    @property
    def count(self) -> int:
        """How many rows are suspicious, listed or not."""
        return max(self.flagged - self.hidden, self.listed)

    @property
    def scores(self) -> pd.DataFrame:
        """The scores of the rows that are listed."""
        rows = self.suspicious
        parts = [part[part["row"].isin(rows)] for part in self._parts()]
        return pd.concat(parts).set_index("row")

    def lede(self) -> str:
        """What was found, in one sentence."""
        more = self.count - self.listed
        sentence = super().lede()
        file = self.scores_file
        return sentence if more <= 0 else f"{sentence[:-1]}; {more:,} more, with less certainty, are in {file}."

    def summary(self) -> dict[str, Any]:
        """What was found, in numbers and in the order of the list."""
        return super().summary() | {"listed": self.listed, "rows_read": self.read}

    @property
    def inputs(self) -> tuple[str | os.PathLike[str], ...]:
        """The files that were read."""
        return self.paths

    def _write(self, folder: Path, contents: dict[Path, bytes]) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        with replacing(folder / self.scores_file) as beside:
            writer: Any = None
            try:
                for part in self._parts():
                    table = pa.Table.from_pandas(part, preserve_index=False)
                    writer = writer or parquet.ParquetWriter(beside, table.schema)
                    writer.write_table(table.cast(writer.schema))
            finally:
                if writer is not None:
                    writer.close()
            write_together(contents)

    def _parts(self) -> Iterator[pd.DataFrame]:
        """The scores of all rows, part by part, as they are written."""
        assert self.file is not None
        why = pd.Series({suspect.row: suspect.headline for suspect in reversed(self.suspects)}, dtype=object)
        for start, part in self.file.batches():
            rows = np.arange(start, start + len(part))
            columns: dict[str, Any] = {"row": rows} | ({} if self.id is None else {str(self.id): part["id"]})
            columns["suspicious"] = np.any([check.named(start, part)[0] for check in self.checks], axis=0)
            for check in self.checks:
                columns |= check.written(start, part)
            yield pd.DataFrame(columns | {"why": why.reindex(rows).fillna("").to_numpy(str)})
