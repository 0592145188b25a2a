"""Rows that calibrators of classifiers are fitted to: logits, labels, features and weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from typing_extensions import override

from likely._rows.blocks import Rows
from likely._rows.contents import Keys, contents
from likely.calibration._held_out import HeldOutRows
from likely.functional import softmax_nll

KEPT = 2**22  # numbers: so many calibrated logits are kept between two steps, more are computed again at every pass
_HOPELESS = 1e6  # nats: a true class that was ruled out costs ∞, and must not hide how candidates differ elsewhere


@dataclass(frozen=True)
class LabelledLogits(HeldOutRows):
    """Logits (the answers), labels, and features as :class:`~likely._rows.blocks.Rows`."""

    @property
    @override
    def few(self) -> bool:
        return len(self) * int(self.answers.shape[1]) <= KEPT

    def thinned(self) -> LabelledLogits:
        """Return as many rows as can be kept, spread evenly over all."""
        stride = -(-len(self) // max(1, KEPT // self.answers.shape[1]))
        return self if stride == 1 else self.taken(np.arange(0, len(self), stride))

    @override
    def keys(self) -> Keys:
        return contents(self.answers, self.features, rounded=True)

    @override
    def fit(self, step: Any) -> Any:
        if step.inputs != "logits":
            kind = type(step).__name__
            raise ValueError(f"{kind} has inputs={step.inputs!r}: steps are handed logits; say inputs= to the whole")
        return clone(step)._fit_checked(self.answers, self.y, self.features, self.weight)

    @override
    def after(self, fitted: Any) -> LabelledLogits:
        features = self.features
        logits = self.answers.mapped(lambda rows, z: fitted._calibrate(z, None if features is None else features[rows]))
        return replace(self, answers=Rows(logits.whole()) if self.few else logits)

    @override
    def nll(self, fitted: Any) -> NDArray[np.float64]:
        losses = []
        for part, logits in self.after(fitted).answers.read():
            labels = torch.as_tensor(self.y[part], device=logits.device)
            loss = softmax_nll(logits.double(), labels, temperature=1.0, reduction="none", validate_args=False)
            losses.append(loss.clamp(max=_HOPELESS).cpu())
        nll: NDArray[np.float64] = torch.cat(losses).numpy()
        return nll
