"""The rows that models are fitted to, and the rows that are told of: the same, and the worst of all others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from likely._rows.reading.table import Table
from likely._typing import Index
from likely.auditing.columns.kinds import Columns, as_kind
from likely.auditing.copies.twins import Twins
from likely.auditing.identities.identity import Identity
from likely.auditing.results.audit import Progress


@dataclass(frozen=True)
class Sample:
    """Rows of a table: all of one in memory, every so many-th of a longer one."""

    table: Table
    columns: Columns
    target: str | None
    task: str
    id: str | None
    twins: Twins
    identities: list[Identity]
    seed: int
    progress: Progress
    second: Table | None = None
    stride: int = 1
    rows: int = 0  # of the whole table

    @property
    def leave_out(self) -> set[str]:
        """What is not compared with other columns: the target."""
        return set() if self.target is None else {self.target}

    def __len__(self) -> int:
        return len(self.columns.typed)

    def places(self, rows: Index) -> Index:
        """Of each row of the table its place in the sample, or the number of rows of the sample."""
        return np.where(rows % self.stride == 0, rows // self.stride, len(self))


@dataclass(frozen=True)
class Told:
    """The rows that findings are about, the sample first; the index of ``frame`` is their place in the table."""

    sample: Sample
    frame: pd.DataFrame
    columns: Columns

    @classmethod
    def of(cls, sample: Sample, further: pd.DataFrame | None = None) -> Told:
        """The sample, and further rows."""
        columns = sample.columns
        if further is None:
            return cls(sample, sample.table.frame, columns)
        index = np.concatenate([sample.stride * np.arange(len(sample)), further.index.to_numpy(np.int64)])
        typed: dict[str, Any] = {}
        for name, kind in columns.kinds.items():
            known = columns.typed[name].to_numpy()
            numbers = kind not in ("category", "date") and pd.api.types.is_numeric_dtype(known.dtype)
            typed[name] = np.concatenate([known, as_kind(further[name], "number" if numbers else kind)])
        both = pd.concat([sample.table.frame, further[list(sample.table.frame.columns)]], ignore_index=True)
        frame = both.set_index(pd.Index(index))
        return cls(sample, frame, replace(columns, typed=pd.DataFrame(typed, index=frame.index)))

    @property
    def rows(self) -> Index:
        """Their places in the table."""
        return np.asarray(self.frame.index, np.int64)

    @property
    def further(self) -> pd.DataFrame:
        """The rows outside the sample, with their own types."""
        return self.columns.typed.iloc[len(self.sample) :]

    @property
    def places(self) -> Index:
        """Places in the sample, or the number of its rows for each of the others."""
        return np.minimum(np.arange(len(self.frame)), len(self.sample))
