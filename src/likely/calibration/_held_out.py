"""Rows that a model was not trained on, and chains of calibrators fitted to them, each step once."""

import functools
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import joblib
import numpy as np
import torch

from likely._rows.blocks import Rows
from likely._rows.contents import Split, fold_numbers, splits_of
from likely._rows.sources import Spooled
from likely._typing import Array, Index

Chain = tuple[Any, ...]  # unfitted calibrators, the first one first


@dataclass(frozen=True)
class HeldOutRows:
    """A model's outputs for some rows, with their targets.

    Subclasses define ``keys()``, a number per row that depends on its contents only; ``fit(step)``, a copy of the
    calibrator that is fitted to these rows; ``after(fitted)``, the rows with the outputs that it maps theirs to; and
    ``nll(fitted)``, the loss of each row.
    """

    answers: Any  # the outputs that calibrators change: logits, or scales
    y: Any
    features: Rows | None
    weight: Array  # of each row
    table: Spooled = field(default=Spooled(()), kw_only=True)  # where the rows come from

    @property
    def kept(self) -> int:
        """The number of rows whose calibrated outputs can be kept in memory."""
        raise NotImplementedError

    @property
    def few(self) -> bool:
        """Whether those of all rows can."""
        return len(self.weight) <= self.kept

    def thinned(self) -> Self:
        """Return as many rows as can be kept, spread evenly over all, in memory."""
        stride = max(1, -(-len(self.weight) // max(1, self.kept)))
        return self if stride == 1 and not self.table.mapped else self.at(slice(None, None, stride))

    @property
    def count(self) -> float:
        """The number of rows, by weight."""
        return float(self.weight.sum())

    def counted(self) -> Self:
        """Return the rows of positive weight."""
        return self if self.weight.all() else self.at(np.flatnonzero(self.weight))

    def at(self, rows: Any) -> Self:
        """Return the rows of an index or a slice, in memory."""
        parts = {part.name: _at(getattr(self, part.name), rows) for part in fields(self) if part.name != "table"}
        return replace(self, **parts, table=Spooled(()))

    def loaded(self) -> Self:
        """Return the rows in memory, if they are few."""
        return self.thinned() if self.few else self

    def joined(self, parts: list[Self], order: Index) -> Self:
        """Return these rows, with the outputs of parts that together hold each of them once."""
        answers = [part.answers.whole() if isinstance(part.answers, Rows) else part.answers for part in parts]
        together = torch.cat(answers)[order]
        return replace(self, answers=Rows(together) if isinstance(self.answers, Rows) else together)


def check_features(features: Any, n: int) -> Rows | None:
    """Check every value of the features, block by block, and return them as rows."""
    if features is None:
        return None
    array = features if isinstance(features, torch.Tensor) or hasattr(features, "dtype") else np.asarray(features)
    if not isinstance(array, torch.Tensor) and array.dtype.kind != "f":
        array = np.asarray(array, dtype=np.float64)
    if array.ndim != 2 or len(array) != n:
        raise ValueError(f"features must have the shape ({n}, d), d numbers for each row; got {tuple(array.shape)}")
    rows = Rows(array)
    if not all(bool(block.isfinite().all()) for _, block in rows.read()):
        raise ValueError("features hold NaN or infinities: impute or clean them first")
    return rows


def _at(part: Any, rows: Any) -> Any:
    if part is None:
        return None
    taken = part[rows]
    return Rows(taken) if isinstance(part, Rows) and taken.ndim > 1 else taken


class CrossFits:
    """Fits of chains to the same rows, each step fitted once however many chains begin with it.

    A step's outputs on the rows it was fitted to are too good, and a temperature fitted to them is too low. So the next
    step is fitted to outputs for rows held out in folds; without folds, or with more outputs than can be kept, to the
    outputs as they are.
    """

    def __init__(self, rows: Any, *, cv: int | None, random_state: int = 0, n_jobs: int | None = None) -> None:
        rows = rows if cv is None else rows.loaded()
        self.rows, self.n_jobs = rows, n_jobs
        self.splits: list[Split] = []
        if cv is not None and rows.count >= 2 * cv and rows.few and len(rows.y) > 1:
            ties = torch.as_tensor(rows.y).double().cpu().numpy()
            self.splits = splits_of(fold_numbers(rows.keys(), cv, random_state=random_state, ties=ties))
            self._order = np.argsort(np.concatenate([out for _, out in self.splits]))
        self._steps: dict[str, Any] = {}
        # Each is computed once for all chains of the same steps.
        self.held_out, self._last_fitted = functools.cache(self._held_out), functools.cache(self._fit_last)
        self._by_fold = functools.cache(self._fit_by_fold)

    def _held_out(self, chain: Chain) -> Any:
        """Return the chain's outputs for rows that its steps were not fitted on."""
        if not chain:
            return self.rows
        before = self.held_out(chain[:-1])
        if not self.splits:
            return before.after(self._last_fitted(chain))
        return before.joined([before.at(out).after(fitted) for fitted, out in self._by_fold(chain)], self._order)

    def losses(self, chain: Chain) -> Array:
        """Return the loss of each row under the chain, by steps that were not fitted on it; there must be folds."""
        chain = self._known(chain)
        before = self.held_out(chain[:-1])
        parts = [before.at(out).nll(fitted) for fitted, out in self._by_fold(chain)]
        return np.concatenate(parts)[self._order]

    def fitted(self, chain: Chain) -> list[Any]:
        """Return the steps, each fitted to the outputs of the chain before it."""
        chain = self._known(chain)
        return [self._last_fitted(chain[:end]) for end in range(1, len(chain) + 1)]

    def _known(self, chain: Chain) -> Chain:
        """Return the chain with equal steps made the same."""
        return tuple(self._steps.setdefault(f"{type(step)} {step.get_params()}", step) for step in chain)

    def _fit_last(self, chain: Chain) -> Any:
        return self.held_out(chain[:-1]).fit(chain[-1])

    def _fit_by_fold(self, chain: Chain) -> list[tuple[Any, Index]]:
        """Return the last step fitted without each fold, with the fold."""
        before = self.held_out(chain[:-1])
        fits = (joblib.delayed(before.at(train).fit)(chain[-1]) for train, _ in self.splits)
        return list(zip(joblib.Parallel(n_jobs=self.n_jobs)(fits), (out for _, out in self.splits), strict=True))
