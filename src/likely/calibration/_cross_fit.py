"""Calibrators in chains, each step fitted once however many chains begin with it."""

from __future__ import annotations

import pickle

import joblib
import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from torch import Tensor

from likely._rows.blocks import Rows
from likely.calibration._base import Calibrator
from likely.calibration._held_out import contents, deal_by_content, take

KEPT = 2**22  # numbers: so many calibrated logits are kept between two steps, more are computed again at every pass
Chain = tuple[Calibrator, ...]


class CrossFits:
    """Fits of chains to the same rows.

    A step's answers on its own rows are too good, and a temperature fitted to them too low. So the next one is fitted
    to answers on rows held out in folds; without folds, or with more logits than can be kept, on the answers as they
    are.
    """

    def __init__(
        self,
        logits: Rows,
        y: NDArray[np.int64],
        features: Rows | None,
        weight: NDArray[np.float64] | None,
        *,
        cv: int | None,
        seed: int,
        n_jobs: int | None = None,
    ) -> None:
        self.logits, self.y, self.features, self.weight = logits, y, features, weight
        self.n_jobs = n_jobs
        count = len(y) if weight is None else weight.sum()
        few = cv is not None and count >= 2 * cv and len(logits) * logits.shape[1] <= KEPT
        self.folds = deal_by_content(contents(logits, features), cv, seed, y) if cv is not None and few else None
        self._held: dict[tuple[str, ...], Rows] = {(): logits}
        self._fitted: dict[tuple[str, ...], Calibrator] = {}

    def held_out(self, chain: Chain) -> Rows:
        """The chain's answers to rows that its steps were not fitted on."""
        key = _key(chain)
        if key not in self._held:
            before = self.held_out(chain[:-1])
            self._held[key] = (
                _Calibrated(self.fitted(chain)[-1], before, self.features).kept()
                if self.folds is None
                else self._cross_fitted(chain[-1], before, self.folds)
            )
        return self._held[key]

    def fitted(self, chain: Chain) -> list[Calibrator]:
        """The steps, each fitted to what the chain before it answers."""
        for end in range(1, len(chain) + 1):
            key, step = _key(chain[:end]), chain[end - 1]
            if key not in self._fitted:
                if step.inputs != "logits":
                    raise ValueError(
                        f"{type(step).__name__} has inputs={step.inputs!r}: steps are handed logits; "
                        "say inputs= to the whole"
                    )
                before = self.held_out(chain[: end - 1])
                self._fitted[key] = clone(step)._fit_checked(before, self.y, self.features, self.weight)
        return [self._fitted[_key(chain[:end])] for end in range(1, len(chain) + 1)]

    def _cross_fitted(self, step: Calibrator, logits: Rows, folds: list[NDArray[np.int64]]) -> Rows:
        everyone = np.arange(len(self.y))

        def answers(fold: NDArray[np.int64]) -> Tensor:
            kept = np.setdiff1d(everyone, fold)
            part = None if self.weight is None else self.weight[kept]
            fitted: Calibrator = clone(step)._fit_checked(
                take(logits, kept), self.y[kept], take(self.features, kept), part
            )
            extra = None if self.features is None else take(self.features, fold)[slice(None)]
            return fitted._calibrate(take(logits, fold)[slice(None)], extra)

        found: list[Tensor] = joblib.Parallel(n_jobs=self.n_jobs)(joblib.delayed(answers)(fold) for fold in folds)
        order = np.argsort(np.concatenate(folds))
        return Rows(torch.cat(found)[torch.as_tensor(order)])


def _key(chain: Chain) -> tuple[str, ...]:
    return tuple(map(_told, chain))


def _told(step: Calibrator) -> str:
    """The same for steps that would be fitted alike."""
    try:
        return str(joblib.hash(clone(step)))
    except pickle.PicklingError:  # a class of one's own that no module holds: each such step is only like itself
        return f"{type(step).__qualname__} at {id(step)}"


class _Calibrated(Rows):
    """The logits a fitted calibrator gives, computed as they are read."""

    def __init__(self, calibrator: Calibrator, logits: Rows, features: Rows | None) -> None:
        self.calibrator, self.logits, self.features = calibrator, logits, features
        self.shape, self.device = logits.shape, logits.device

    def __getitem__(self, rows: slice) -> Tensor:
        features = None if self.features is None else self.features[rows]
        return self.calibrator._calibrate(self.logits[rows], features)

    def kept(self) -> Rows:
        """The same rows, in memory where they are few."""
        small = len(self) * self.shape[1] <= KEPT
        return Rows(torch.cat([self[part] for part in self.blocks()])) if small else self
