"""The checks: those of a sample as a whole, and those that score every row."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd

from likely._files import TemporaryParquet
from likely._rows.contents import frame_keys
from likely._typing import Array, Index, Mask
from likely.auditing.checks.copies import ORDINARY, UNREAD, Twins, compared, first_copies, repeated_rows
from likely.auditing.checks.faulty_columns import faulty_columns
from likely.auditing.checks.gaps import gaps
from likely.auditing.checks.order import order
from likely.auditing.checks.overview import odd_cells, overview
from likely.auditing.columns.kinds import as_kind
from likely.auditing.identities.identity import tell_broken
from likely.auditing.odd_rows.odd_rows import NAMED, Certainty, OddRows
from likely.auditing.results.finding import Finding, OfAll
from likely.auditing.sample import Sample, Told

MAX_COPIED = 100_000_000  # rows of which exact copies are looked for: 16 bytes for each are in memory
# Scores of the rows of a block by name, given the block, its columns with their types, and places in the sample.
Score = Callable[[pd.DataFrame, pd.DataFrame, Index], Mapping[str, Any]]


class Scorer:
    """Reads blocks of a table as the sample was read, and scores their rows by all checks; it may be sent elsewhere."""

    def __init__(self, sample: Sample, checks: list[RowCheck]) -> None:
        self.kinds = {name: kind for name, kind in sample.columns.kinds.items() if kind not in UNREAD}
        self.scorers = [check.scorer() for check in checks]
        self.stride, self.sampled, self.id = sample.stride, len(sample), sample.id
        self.stand_ins = sample.stand_ins

    def __call__(self, block: Any, start: int) -> dict[str, Any]:
        """The scores of the rows of a block by name."""
        frame, _ = self.stand_ins.blanked(framed(block))
        rows = start + np.arange(len(frame))
        places = np.where(rows % self.stride == 0, rows // self.stride, self.sampled)
        typed = pd.DataFrame({name: as_kind(frame[name], kind) for name, kind in self.kinds.items()})
        scores = {"row": rows} | ({} if self.id is None else {"id": frame[self.id]})
        for score in self.scorers:
            scores |= score(frame, typed, places)
        return scores


def framed(block: Any) -> pd.DataFrame:
    """A block as a frame."""
    if isinstance(block, pd.DataFrame):
        return block.rename(columns=str).reset_index(drop=True)
    return pd.DataFrame(np.asarray(block), columns=[f"x{j}" for j in range(block.shape[1])])


class Judged(NamedTuple):
    """Which rows of a part of a long table have a problem, how badly, and what is written of each."""

    named: Mask | pd.Series[bool]
    harm: Array | pd.Series[float]
    written: dict[str, Any]


class RowCheck(ABC):
    """One kind of problem that a row may have: fitted to a sample, it scores all rows and tells of the worst.

    ``scores`` are those of all rows, and ``of_all`` says how many have the problem, once they are scored; both are None
    for a table in memory, which is its own sample.
    """

    def __init__(self, sample: Sample, fitted: Any = None) -> None:
        self.sample, self.fitted = sample, fitted
        self.scores: TemporaryParquet | None = None
        self.of_all: OfAll = None

    @classmethod
    @abstractmethod
    def fit(cls, sample: Sample) -> Self | None:
        """Learn from a sample; None where there is nothing to check."""

    @abstractmethod
    def scorer(self) -> Score:
        """What scores the rows of a block."""

    @abstractmethod
    def judge(self, part: pd.DataFrame) -> Judged:
        """The verdict on some rows by their scores."""

    @abstractmethod
    def tell(self, told: Told) -> Iterator[Finding | None]:
        """What is told of some rows."""


class OddRowCheck(RowCheck):
    """Rows that do not fit the rest."""

    @classmethod
    def fit(cls, sample: Sample) -> Self | None:
        sample.progress("looking for odd rows", 0.0)
        whole = len(sample) == sample.rows
        fitted = OddRows.fit(sample.columns, sample.leave_out, sample.twins.first, sample.identities, whole=whole)
        return None if fitted is None else cls(sample, fitted)

    def scorer(self) -> Score:
        fitted = self.fitted
        return lambda _, typed, places: fitted.score(typed, places)

    @cached_property
    def certainty(self) -> Certainty:
        """How surely rows are odd, by the scores of all."""
        return self.fitted.certainty(self.scores)

    def judge(self, part: pd.DataFrame) -> Judged:
        sure, scale = self.certainty(part), part["row_scale"]
        # Certainties that round to one are told apart by their scales.
        return Judged(sure >= NAMED, sure - 1e-6 / (1 + scale), {"row_scale": scale, "row_odd": sure})

    def tell(self, told: Told) -> Iterator[Finding]:
        yield self.fitted.tell(told.columns.typed, told.places, self.certainty, self.of_all)


class WrongTargetCheck(RowCheck):
    """Targets or labels that are probably wrong, and what else their models tell: leaks and groups."""

    @classmethod
    def fit(cls, sample: Sample) -> Self | None:
        if sample.target is None:
            return None
        from likely.auditing.target.target_check import LabelCheck, NumberCheck  # they need torch

        return cls(sample, NumberCheck(sample) if sample.task == "regression" else LabelCheck(sample))

    def scorer(self) -> Score:
        return self.fitted.score

    def judge(self, part: pd.DataFrame) -> Judged:
        written = {name: part[name] for name in self.fitted.verdict.scores}
        if self.sample.task == "regression":
            return Judged(part["target_wrong"] > 0.5, part["target_nll"], written)
        classes = np.array([*self.fitted.classes, ""], dtype=object)
        written["suggested"] = pd.Series(classes[part["suggested"]], dtype=str)
        return Judged(part["suggested"] >= 0, part["label_nll"], written)

    def tell(self, told: Told) -> Iterator[Finding | None]:
        from likely.auditing.checks.groups import groups_of

        finding = self.fitted.tell(told, self.of_all)
        yield finding
        yield self.fitted.leaks()
        yield groups_of(self.sample, finding)


class BrokenSumCheck(RowCheck):
    """Rows that break a sum of columns."""

    @classmethod
    def fit(cls, sample: Sample) -> Self | None:
        return cls(sample) if sample.identities else None

    def scorer(self) -> Score:
        identities = dict(zip(self._names, self.sample.identities, strict=True))
        return lambda _, typed, places: {name: identity.broken(typed) for name, identity in identities.items()}

    @property
    def _names(self) -> list[str]:
        return [f"broken {k}" for k in range(len(self.sample.identities))]

    def judge(self, part: pd.DataFrame) -> Judged:
        return Judged(part[self._names].to_numpy().any(1), np.zeros(len(part)), {})

    def tell(self, told: Told) -> Iterator[Finding | None]:
        table, identities = told.columns.typed, self.sample.identities
        broken = np.column_stack([identity.broken(table) for identity in identities])
        counts = broken.sum(0) if self.scores is None else np.array([self.scores[name].sum() for name in self._names])
        yield tell_broken(table, identities, broken, counts, self.of_all)


class CopyCheck(RowCheck):
    """Rows that repeat an earlier one: exactly, in the whole table, and almost, in the sample."""

    @classmethod
    def fit(cls, sample: Sample) -> Self | None:
        possible = sample.rows <= MAX_COPIED and compared(sample.columns, sample.target)
        return cls(sample) if possible else None

    def scorer(self) -> Score:
        names = compared(self.sample.columns, self.sample.target)
        return lambda _, typed, places: {"key": frame_keys(typed[names])}

    @cached_property
    def of(self) -> Index:
        """For each row of the table the first that equals it, -1 if none does."""
        if self.scores is None or len(self.sample) == self.sample.rows:
            return self.sample.twins.of
        return first_copies(self.scores["key"])

    @property
    def ordinary(self) -> bool:
        """Whether so many rows are copies that none is worth a word."""
        return bool((self.of >= 0).mean() > ORDINARY)

    def judge(self, part: pd.DataFrame) -> Judged:
        of = self.of[part["row"]]
        return Judged((of >= 0) & (not self.ordinary), np.zeros(len(part)), {"repeats_row": of})

    def tell(self, told: Told) -> Iterator[Finding | None]:
        sample = self.sample
        if self.of is sample.twins.of:
            yield repeated_rows(told.columns, sample.twins, sample.target)
        else:
            of = pd.Index(told.rows).get_indexer(self.of[told.rows])  # the leaders among the rows that are told of
            among = Twins.of_rows(of, of >= 0, told.columns.typed[sample.target] if sample.target else None)
            yield repeated_rows(told.columns, among, sample.target, (int((self.of >= 0).sum()), sample.rows))


ROW_CHECKS: tuple[type[RowCheck], ...] = (OddRowCheck, WrongTargetCheck, BrokenSumCheck, CopyCheck)
SAMPLE_CHECKS: tuple[Callable[[Sample], Finding | None], ...] = (
    lambda sample: overview(sample.columns, sample.target, sample.task, sample.rows, sample.gaps),
    lambda sample: odd_cells(sample.columns, sample.table.ragged, len(sample)),
    lambda sample: gaps(sample.columns, sample.target, sample.task, sample.words),
    lambda sample: faulty_columns(sample.table.frame, sample.columns, sample.target),
    lambda sample: order(sample.columns, sample.target),
)
