"""The rows that models are fitted to, and the rows that are told of: the same, and the worst of all others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from likely._rows.reading.table import Table
from likely._typing import Index
from likely.auditing.checks.copies import Twins
from likely.auditing.columns.kinds import Columns, StandIns, Words, as_kind
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
    stride: int
    rows: int  # of the whole table
    gaps: pd.Series[float] | None  # the share of missing values by column, where the sample is not the whole table
    stand_ins: StandIns
    words: Sequence[Words]  # that stood for missing values, by column, of each part of the table

    @property
    def leave_out(self) -> set[str]:
        """What is not compared with other columns: the target."""
        return set() if self.target is None else {self.target}

    def __len__(self) -> int:
        return len(self.columns.typed)


@dataclass(frozen=True)
class Told:
    """The rows that findings are about, the sample first; the index of ``frame`` is their place in the table."""

    sample: Sample
    frame: pd.DataFrame
    columns: Columns

    @classmethod
    def of(cls, sample: Sample, further: pd.DataFrame) -> Told:
        """The sample, and further rows."""
        columns, own = sample.columns, sample.table.frame
        index = pd.Index([*range(0, sample.stride * len(sample), sample.stride), *further.index])
        typed: dict[str, Any] = {}
        for name, kind in columns.kinds.items():
            known = columns.typed[name].to_numpy()
            numbers = kind not in ("category", "date") and pd.api.types.is_numeric_dtype(known.dtype)
            typed[name] = np.concatenate([known, as_kind(further[name], "number" if numbers else kind)])
        frame = pd.concat([own, further[list(own.columns)]], ignore_index=True).set_index(index)
        return cls(sample, frame, replace(columns, typed=pd.DataFrame(typed, index=index)))

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
