"""Two passes over the blocks of a long table: sums and a sample, and then the scores of all rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from likely._rows.sources import Source
from likely.auditing._audit import Progress
from likely.auditing._columns import Columns
from likely.auditing._duplicates import ORDINARY, Twins
from likely.auditing._identities import Identity
from likely.auditing._identity_search import find_identities
from likely.auditing.blocks._columns import BlockColumns, as_kind
from likely.auditing.blocks._rows import NAMED, Certainty, RowScores
from likely.auditing.blocks._scores import ScoreFile, Spread, Worst, first_copies
from likely.auditing.blocks._sums import Sums
from likely.auditing.blocks._targets import LabelScores, TargetScores
from likely.auditing.checks._sums import breaks

LISTED = 2_000  # rows of each kind of problem on the page
_BITS = 32  # most identities of columns
KEYS = 100_000_000  # rows of which exact copies are looked for: 16 bytes for each are in memory


def framed(block: Any) -> pd.DataFrame:
    """A block as a frame."""
    if isinstance(block, pd.DataFrame):
        return block.rename(columns=str).reset_index(drop=True)
    return pd.DataFrame(np.asarray(block), columns=[f"x{j}" for j in range(block.shape[1])])


@dataclass(frozen=True)
class _First:
    stride: int

    def __call__(self, block: Any, start: int) -> tuple[Sums, pd.DataFrame]:
        frame = framed(block)
        return Sums.of(frame), frame.iloc[-start % self.stride :: self.stride].copy()


def first_pass(source: Source, stride: int, rows: int, progress: Progress) -> tuple[Sums, pd.DataFrame]:
    """Sums over all rows, and the sample."""
    sums: Sums | None = None
    parts: list[pd.DataFrame] = []
    for block_sums, part in source.each(_First(stride), source.starts):
        sums = block_sums if sums is None else sums + block_sums
        parts.append(part)
        progress("reading", sums.rows / rows)
    assert sums is not None
    return sums, pd.concat(parts, ignore_index=True)


@dataclass(frozen=True)
class Fitted:
    """All models of the sample, which score a block."""

    columns: BlockColumns
    others: dict[str, str]  # further columns that copies have in common, by kind
    rows: RowScores | None
    target: TargetScores | LabelScores | None
    id: str | None
    stride: int
    sampled: int
    copies: bool
    identities: list[Identity]  # a row has a bit for each

    @classmethod
    def of(
        cls,
        columns: Columns,
        twins: Twins,
        target: str | None,
        task: str,
        id: str | None,
        stride: int,
        rows: int,
        seed: int,
        tell: Callable[[float], None],
    ) -> Fitted:
        """Fit to a sample."""
        leave_out = {target} if target else set()
        identities = find_identities(columns)[:_BITS]
        judge: TargetScores | LabelScores | None = None
        if target is not None and task == "regression":
            judge = TargetScores.of(columns, target, twins.groups, seed, tell, identities)
        elif target is not None:
            judge = LabelScores.of(columns, target, twins.groups, seed, tell)
        read = BlockColumns.of(columns, leave_out)
        unread = {*read.kinds, *leave_out, *columns.named("identifier", "name", "empty")}
        others = {name: "text" for name in columns.kinds if name not in unread}
        odd = RowScores.of(columns, leave_out, twins.first, identities)
        return cls(read, others, odd, judge, id, stride, len(columns.typed), rows <= KEYS, identities)

    def places(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Of each row its place in the sample, or the number of rows of the sample."""
        return np.where(rows % self.stride == 0, rows // self.stride, self.sampled)

    def __call__(self, block: Any, start: int) -> dict[str, Any]:
        frame = framed(block)
        typed = self.columns.typed(frame)
        places = self.places(start + np.arange(len(frame)))
        scores: dict[str, Any] = {} if self.id is None else {"id": frame[self.id]}
        scores |= {} if self.rows is None else self.rows(typed, places)
        scores |= {} if self.target is None else self.target(frame, typed, places)
        if self.copies:
            whole = typed.assign(**{name: as_kind(frame[name], kind) for name, kind in self.others.items()})
            scores["key"] = pd.util.hash_pandas_object(whole, index=False).to_numpy()
        if self.identities:
            scores["broken"] = breaks(self.summed(frame), self.identities) @ (1 << np.arange(len(self.identities)))
        return scores

    def summed(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The columns of identities, as numbers."""
        names = {name for identity in self.identities for name in identity.members}
        return pd.DataFrame({name: as_kind(frame[name], "number") for name in names}, index=frame.index)


@dataclass(frozen=True)
class Scored:
    """The scores of all rows, and what is made of them."""

    file: ScoreFile
    certainty: Certainty | None
    copies: NDArray[np.int64] | None
    ordinary: bool
    odd: Worst
    wrong: Worst
    broken: Worst
    breaking: NDArray[np.int64]
    flagged: int


def second_pass(source: Source, fitted: Fitted, rows: int, progress: Progress) -> Scored:
    """The scores of all rows, in a file, and the worst of them."""
    file, keys = ScoreFile(), []
    nats, scale = Spread(rows), Spread(rows)
    for part in source.each(fitted, source.starts):
        if fitted.copies:
            keys.append(part.pop("key"))
        if "row_scale" in part:
            scale.add(np.log(part["row_scale"]))
        if "nats" in part:
            nats.add(part["nats"])
        file.append(part if part else {"none": np.zeros(0, bool)})
        progress("scoring all rows", file.rows / rows)
    file.close()
    certainty = None
    if fitted.rows is not None:
        certainty = Certainty.of(nats.summary() if fitted.rows.pattern is not None else None, scale.summary())
    copies = first_copies(np.concatenate(keys)) if keys else None
    return _ranked(file, certainty, copies, len(fitted.identities))


def _ranked(file: ScoreFile, certainty: Certainty | None, copies: NDArray[np.int64] | None, identities: int) -> Scored:
    """The worst rows, and how many are suspicious."""
    odd, wrong, broken, flagged = Worst(LISTED), Worst(LISTED), Worst(LISTED), 0
    breaking = np.zeros(identities, np.int64)
    ordinary = copies is not None and bool((copies >= 0).mean() > ORDINARY)
    for start, part in file.batches():
        marked = np.zeros(len(part), bool)
        if certainty is not None:
            _, sure = certainty(part["row_scale"].to_numpy(), _column(part, "nats"))
            odd.add(start, sure >= NAMED, sure, part["row_scale"])
            marked |= sure >= NAMED
        if "odds" in part:
            named = named_wrong(part)
            wrong.add(start, named, part["odds"], np.zeros(len(part)))
            marked |= named
        if "broken" in part:
            bits = part["broken"].to_numpy()
            breaking += (bits[:, None] >> np.arange(identities) & 1).sum(0)
            broken.add(start, bits > 0, np.zeros(len(part)), np.zeros(len(part)))
            marked |= bits > 0
        if copies is not None and not ordinary:
            marked |= copies[start : start + len(part)] >= 0
        flagged += int(marked.sum())
    return Scored(file, certainty, copies, ordinary, odd, wrong, broken, breaking, flagged)


def named_wrong(part: pd.DataFrame) -> NDArray[np.bool_]:
    """Which targets or labels are named."""
    if "suggested" in part:
        return np.asarray(part["suggested"] >= 0)
    return np.asarray(part["target_wrong"] > 0.5)


def _column(part: pd.DataFrame, name: str) -> Any:
    return part[name].to_numpy() if name in part else None
