"""The checks that score every row: odd rows, wrong targets and labels, broken sums, exact copies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from likely._rows.reading.table import counted
from likely._typing import Array, Index, Mask
from likely.auditing.columns.kinds import ColumnReader, as_kind
from likely.auditing.copies.repeated_rows import repeated_rows
from likely.auditing.copies.twins import ORDINARY, Twins
from likely.auditing.identities.identity import Identity
from likely.auditing.identities.sums import breaks, tell_broken
from likely.auditing.odd_rows.odd_rows import NAMED, Certainty, OddRows
from likely.auditing.results.finding import Finding
from likely.auditing.results.score_file import first_copies
from likely.auditing.results.spread import Spread
from likely.auditing.sample import Sample, Told
from likely.auditing.target.target_check import LabelCheck, TargetCheck

_BITS = 32  # most identities of columns: a row has a bit for each
_KEYS = 100_000_000  # rows of which exact copies are looked for: 16 bytes for each are in memory
Scores = dict[str, Any]


class Scorer:
    """Reads blocks of a table as the sample was read, and scores their rows by all checks; it may be sent elsewhere."""

    def __init__(self, sample: Sample, checks: list[RowCheck]) -> None:
        self.columns = ColumnReader.of(sample.columns, sample.leave_out)
        self.scorers = [check.scorer() for check in checks]
        self.stride, self.sampled, self.id = sample.stride, len(sample), sample.id

    def __call__(self, block: Any, start: int) -> Scores:
        """The scores of the rows of a block by name."""
        frame = framed(block)
        rows = start + np.arange(len(frame))
        places = np.where(rows % self.stride == 0, rows // self.stride, self.sampled)
        scores: Scores = {} if self.id is None else {"id": frame[self.id]}
        typed = self.columns.typed(frame)
        for score in self.scorers:
            scores |= score(frame, typed, places)
        return scores


def framed(block: Any) -> pd.DataFrame:
    """A block as a frame."""
    if isinstance(block, pd.DataFrame):
        return block.rename(columns=str).reset_index(drop=True)
    return pd.DataFrame(np.asarray(block), columns=[f"x{j}" for j in range(block.shape[1])])


class RowCheck(ABC):
    """One kind of problem that a row may have: fitted to a sample, it scores all rows and tells of the worst."""

    @abstractmethod
    def scorer(self) -> Any:
        """What scores the rows of a block, given the block, its columns with their types, and places in the sample."""

    def take(self, scores: Scores) -> None:  # noqa: B027 (most need nothing)
        """Keep of the scores of a block what all rows are judged by; what is taken out is not written."""

    @abstractmethod
    def named(self, start: int, scores: pd.DataFrame) -> tuple[Mask, Array]:
        """Which of the rows scored have the problem, and by how much."""

    @abstractmethod
    def written(self, start: int, scores: pd.DataFrame) -> Scores:
        """The columns of the file of scores."""

    @abstractmethod
    def tell(self, told: Told, count: int | None = None) -> Finding | None:
        """What is told of some rows; ``count`` rows of all have the problem (None: these are all)."""


class OddRowCheck(RowCheck):
    """Rows that do not fit the rest."""

    def __init__(self, fitted: OddRows, rows: int) -> None:
        self.fitted, self.rows = fitted, rows
        self.spreads: dict[str, Spread] = {}
        self._certainty: Certainty | None = None

    def scorer(self) -> Any:
        fitted = self.fitted
        return lambda _, typed, places: fitted.score(typed, places)

    def take(self, scores: Scores) -> None:
        for name in {"row_scale", "nats"} & self.fitted.scores.keys():
            self.spreads.setdefault(name, Spread(self.rows)).add(scores[name])

    @property
    def certainty(self) -> Certainty:
        """How surely rows are odd, by the scores of all."""
        if self._certainty is None:
            self._certainty = self.fitted.certainty(self.spreads, self.rows)
        return self._certainty

    def named(self, start: int, scores: pd.DataFrame) -> tuple[Mask, Array]:
        sure = self.certainty(scores)[1]
        return sure >= NAMED, np.column_stack([sure, scores["row_scale"]])

    def written(self, start: int, scores: pd.DataFrame) -> Scores:
        return {"row_scale": scores["row_scale"], "row_odd": self.certainty(scores)[1].astype(np.float32)}

    def tell(self, told: Told, count: int | None = None) -> Finding:
        scores = self.fitted.score(told.columns.typed, told.places)
        return self.fitted.tell(told.columns.typed, told.places, scores, self.certainty, count, self.rows)


class WrongTargetCheck(RowCheck):
    """Targets or labels that are probably wrong."""

    def __init__(self, fitted: TargetCheck, rows: int) -> None:
        self.fitted, self.rows = fitted, rows
        self.classes = fitted.classes if isinstance(fitted, LabelCheck) else None

    def scorer(self) -> Any:
        return self.fitted.score

    def named(self, start: int, scores: pd.DataFrame) -> tuple[Mask, Array]:
        named = scores["target_wrong"] > 0.5 if self.classes is None else scores["suggested"] >= 0
        return np.asarray(named), np.column_stack([scores["odds"], np.zeros(len(scores))])

    def written(self, start: int, scores: pd.DataFrame) -> Scores:
        if self.classes is None:
            return {name: scores[name] for name in ("target_wrong", "target_nll", "expected")}
        names = np.array([*self.classes, ""], dtype=object)
        suggested = pd.Series(names[scores["suggested"].to_numpy(np.int64)], dtype=str)
        return {name: scores[name] for name in ("label_wrong", "label_nll", "temperature")} | {"suggested": suggested}

    def tell(self, told: Told, count: int | None = None) -> Finding:
        return self.fitted.tell(told, count, self.rows)


class BrokenSumCheck(RowCheck):
    """Rows that break a sum of columns."""

    def __init__(self, identities: list[Identity], rows: int) -> None:
        self.identities, self.rows = identities[:_BITS], rows
        self.counts = np.zeros(len(self.identities), np.int64)

    def scorer(self) -> Any:
        identities = self.identities
        names = list(dict.fromkeys(name for identity in identities for name in identity.members))

        def score(frame: pd.DataFrame, _typed: pd.DataFrame, _places: Index) -> Scores:
            table = pd.DataFrame({name: as_kind(frame[name], "number") for name in names}, index=frame.index)
            return {"broken": breaks(table, identities) @ (1 << np.arange(len(identities)))}

        return score

    def take(self, scores: Scores) -> None:
        self.counts += (scores["broken"][:, None] >> np.arange(len(self.identities)) & 1).sum(0)

    def named(self, start: int, scores: pd.DataFrame) -> tuple[Mask, Array]:
        return scores["broken"].to_numpy() > 0, np.zeros((len(scores), 2))

    def written(self, start: int, scores: pd.DataFrame) -> Scores:
        return {}

    def tell(self, told: Told, count: int | None = None) -> Finding | None:
        table = told.columns.typed
        broken = breaks(table, self.identities)
        if count is None:
            return tell_broken(table, self.identities, broken, broken.sum(0), int(broken.any(1).sum()), len(broken))
        return tell_broken(table, self.identities, broken, self.counts, count, self.rows)


class CopyCheck(RowCheck):
    """Rows that repeat an earlier one: exactly, in the whole table, and almost, in the sample."""

    def __init__(self, sample: Sample) -> None:
        self.sample, self.keys = sample, list[NDArray[np.uint64]]()
        self.looked = sample.rows <= _KEYS
        self._of: Index | None = None

    def scorer(self) -> Any:
        columns, looked = self.sample.columns, self.looked
        unread = {*self.sample.leave_out, *columns.named("identifier", "name", "empty")}
        kinds = {name: kind for name, kind in columns.kinds.items() if name not in unread}

        def score(frame: pd.DataFrame, _typed: pd.DataFrame, _places: Index) -> Scores:
            if not looked:
                return {}
            whole = pd.DataFrame({name: as_kind(frame[name], kind) for name, kind in kinds.items()})
            return {"key": pd.util.hash_pandas_object(whole, index=False).to_numpy()}

        return score

    def take(self, scores: Scores) -> None:
        if self.looked:
            self.keys.append(scores.pop("key"))

    @property
    def of(self) -> Index:
        """For each row of the table the first that equals it, -1 if none does."""
        if self._of is None:
            self._of = first_copies(np.concatenate(self.keys))
            if len(self._of) == len(self.sample):
                self._of = self.sample.twins.of
        return self._of

    @property
    def ordinary(self) -> bool:
        """Whether so many rows are copies that none is worth a word."""
        return not self.looked or bool((self.of >= 0).mean() > ORDINARY)

    def named(self, start: int, scores: pd.DataFrame) -> tuple[Mask, Array]:
        n = len(scores)
        named = np.zeros(n, bool) if self.ordinary else self.of[start : start + n] >= 0
        return named, np.zeros((n, 2))

    def written(self, start: int, scores: pd.DataFrame) -> Scores:
        return {"repeats_row": self.of[start : start + len(scores)]} if self.looked else {}

    def tell(self, told: Told, count: int | None = None) -> Finding | None:
        if count is None or len(told.sample) == told.sample.rows:
            return repeated_rows(told.columns, told.sample.twins, told.sample.target)
        if not self.looked:
            return None
        repeats = int((self.of >= 0).sum())
        if self.ordinary:
            return repeated_rows(told.columns, told.sample.twins, None, repeats) if repeats else None
        twins = _among(told, self.of)
        finding = repeated_rows(told.columns, twins, told.sample.target)
        if finding is None:
            return None
        summary = f"{counted(repeats, 'row repeats', 'rows repeat')} an earlier one; {len(finding.rows):,} are listed."
        return replace(finding, summary=summary, numbers={**finding.numbers, "rows": repeats})


def _among(told: Told, of: Index) -> Twins:
    """The copies among the rows told of, whose leaders are among them."""
    rows = told.rows
    place = pd.Series(np.arange(len(rows)), index=rows)
    leader = place.reindex(of[rows]).to_numpy(np.float64)
    found = np.where(np.isnan(leader), -1, leader).astype(np.int64)
    disagree = np.zeros(len(rows), bool)
    if told.sample.target is not None:
        targets = pd.factorize(told.columns.typed[told.sample.target])[0]
        disagree = (found >= 0) & (targets != targets[found])
    return Twins(found, found >= 0, disagree)


def row_checks(sample: Sample, target: TargetCheck | None, rows: int) -> list[RowCheck]:
    """The checks of the rows of a table, in the order in which rows are scored."""
    whole = len(sample) == rows
    odd = OddRows.fit(sample.columns, sample.leave_out, sample.twins.first, sample.identities, whole=whole)
    checks: list[RowCheck] = [] if odd is None else [OddRowCheck(odd, rows)]
    checks += [] if target is None else [WrongTargetCheck(target, rows)]
    return [*checks, BrokenSumCheck(sample.identities, rows), CopyCheck(sample)]
