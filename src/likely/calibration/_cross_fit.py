"""Calibrators in chains, each step fitted once however many chains begin with it."""

from __future__ import annotations

import pickle
from typing import Any, Generic, TypeVar

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from torch import Tensor

from likely._rows.folds import Split, fold_numbers, splits_of
from likely._typing import Index
from likely.calibration._held_out import HeldOutRows

Chain = tuple[Any, ...]  # unfitted calibrators, the first one first


R = TypeVar("R", bound=HeldOutRows)


class CrossFits(Generic[R]):
    """Fits of chains to the same rows.

    A step's answers on its own rows are too good, and a temperature fitted to them too low. So the next one is fitted
    to answers on rows held out in folds; without folds, or with more answers than can be kept, on the answers as they
    are.

    Args:
        rows: the rows that all chains are fitted to.
        cv: number of folds, or None to hold nothing out.
        random_state: another number deals the rows otherwise.
        n_jobs: folds to fit at the same time.
    """

    def __init__(self, rows: R, *, cv: int | None, random_state: int, n_jobs: int | None = None) -> None:
        self.rows, self.n_jobs = rows, n_jobs
        self.splits: list[Split] = []
        if cv is not None and rows.count >= 2 * cv and rows.few and len(rows) > 1:
            self.splits = splits_of(fold_numbers(rows.keys(), cv, random_state=random_state, ties=_numbers(rows.y)))
        self._held: dict[tuple[str, ...], R] = {(): rows}
        self._blind: dict[tuple[str, ...], list[Any]] = {}
        self._fitted: dict[tuple[str, ...], Any] = {}

    def held_out(self, chain: Chain) -> R:
        """Return the chain's answers to rows that its steps were not fitted on."""
        key = _key(chain)
        if key not in self._held:
            before = self.held_out(chain[:-1])
            if self.splits:
                parts = [before.taken(out).after(fitted) for fitted, (_, out) in self._by_fold(chain)]
                self._held[key] = before.joined(parts, self._order)
            else:
                self._held[key] = before.after(self.fitted(chain)[-1])
        return self._held[key]

    def losses(self, chain: Chain) -> NDArray[np.float64]:
        """Return each row's loss under the chain, by steps that were not fitted on it."""
        before = self.held_out(chain[:-1])
        if not self.splits:
            return before.nll(self.fitted(chain)[-1])
        parts = [before.taken(out).nll(fitted) for fitted, (_, out) in self._by_fold(chain)]
        losses: NDArray[np.float64] = np.concatenate(parts)[self._order]
        return losses

    def fitted(self, chain: Chain) -> list[Any]:
        """Return the steps, each fitted to what the chain before it answers."""
        for end in range(1, len(chain) + 1):
            key = _key(chain[:end])
            if key not in self._fitted:
                self._fitted[key] = self.held_out(chain[: end - 1]).fit(chain[end - 1])
        return [self._fitted[_key(chain[:end])] for end in range(1, len(chain) + 1)]

    def _by_fold(self, chain: Chain) -> list[tuple[Any, Split]]:
        """The last step fitted without each fold, and the fold."""
        key = _key(chain)
        if key not in self._blind:
            before, step = self.held_out(chain[:-1]), chain[-1]
            fits = (joblib.delayed(before.taken(kept).fit)(step) for kept, _ in self.splits)
            self._blind[key] = joblib.Parallel(n_jobs=self.n_jobs)(fits)
        return list(zip(self._blind[key], self.splits, strict=True))

    @property
    def _order(self) -> Index:
        return np.argsort(np.concatenate([out for _, out in self.splits]))


def _numbers(y: Any) -> NDArray[Any]:
    return y.detach().double().cpu().numpy() if isinstance(y, Tensor) else np.asarray(y)


def _key(chain: Chain) -> tuple[str, ...]:
    return tuple(map(_told, chain))


def _told(step: Any) -> str:
    """The same for steps that would be fitted alike."""
    try:
        return str(joblib.hash(clone(step)))
    except pickle.PicklingError:  # a class of one's own that no module holds: each such step is only like itself
        return f"{type(step).__qualname__} at {id(step)}"
