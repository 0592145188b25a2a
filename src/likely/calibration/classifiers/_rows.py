"""Rows that calibrators of classifiers are fitted to: logits, labels, features and weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from torch import Tensor

from likely._rows.blocks import Rows
from likely._rows.contents import Keys, contents
from likely.functional import softmax_nll

KEPT = 2**22  # numbers: so many calibrated logits are kept between two steps, more are computed again at every pass
_HOPELESS = 1e6  # nats: a true class that was ruled out costs ∞, and must not hide how candidates differ elsewhere


@dataclass(frozen=True)
class LabelledLogits:
    """Logits that a classifier gave to rows it was not trained on, with their labels."""

    logits: Rows
    y: NDArray[np.int64]
    features: Rows | None
    weight: NDArray[np.float64] | None

    def __len__(self) -> int:
        return len(self.y)

    @property
    def few(self) -> bool:
        """Whether calibrated logits can be kept in memory."""
        return len(self) * self.logits.shape[1] <= KEPT

    def thinned(self) -> LabelledLogits:
        """Return as many rows as can be kept, spread evenly over all."""
        stride = -(-len(self) // max(1, KEPT // self.logits.shape[1]))
        if stride == 1:
            return self
        some = slice(0, len(self), stride)
        features = None if self.features is None else Rows(self.features[some])
        weight = None if self.weight is None else self.weight[some]
        return LabelledLogits(Rows(self.logits[some]), self.y[some], features, weight)

    def keys(self) -> Keys:
        """Return a number per row that follows from its logits and features."""
        return contents(self.logits, self.features)

    def ties(self) -> NDArray[np.int64]:
        """Return the labels."""
        return self.y

    def taken(self, index: NDArray[np.intp]) -> LabelledLogits:
        """Return some of the rows, in memory."""
        features = None if self.features is None else self.features.taken(index)
        weight = None if self.weight is None else self.weight[index]
        return LabelledLogits(self.logits.taken(index), self.y[index], features, weight)

    def fit(self, step: Any) -> Any:
        """Return a copy of the calibrator, fitted to these rows."""
        if step.inputs != "logits":
            kind = type(step).__name__
            raise ValueError(f"{kind} has inputs={step.inputs!r}: steps are handed logits; say inputs= to the whole")
        return clone(step)._fit_checked(self.logits, self.y, self.features, self.weight)

    def nll(self, fitted: Any) -> NDArray[np.float64]:
        """Return the loss of each row under a fitted calibrator."""
        losses = []
        for part, logits in self.after(fitted).logits.read():
            labels = torch.as_tensor(self.y[part], device=logits.device)
            loss = softmax_nll(logits.double(), labels, temperature=1.0, reduction="none", validate_args=False)
            losses.append(loss.clamp(max=_HOPELESS).cpu())
        nll: NDArray[np.float64] = torch.cat(losses).numpy()
        return nll

    def after(self, fitted: Any) -> LabelledLogits:
        """Return the rows with calibrated logits, in memory where they are few."""
        calibrated: Rows = _Calibrated(fitted, self.logits, self.features)
        return replace(self, logits=Rows(calibrated.whole()) if self.few else calibrated)

    def joined(self, parts: list[LabelledLogits], order: NDArray[np.intp]) -> LabelledLogits:
        """Return these rows, with the logits of parts that together hold each of them once."""
        together = torch.cat([part.logits.whole() for part in parts])
        return replace(self, logits=Rows(together[torch.as_tensor(order, device=together.device)]))


class _Calibrated(Rows):
    """The logits a fitted calibrator gives, computed as they are read."""

    def __init__(self, calibrator: Any, logits: Rows, features: Rows | None) -> None:
        self.calibrator, self.logits, self.features = calibrator, logits, features
        self.shape, self.device = logits.shape, logits.device

    def __getitem__(self, rows: slice) -> Tensor:
        features = None if self.features is None else self.features[rows]
        calibrated: Tensor = self.calibrator._calibrate(self.logits[rows], features)
        return calibrated
