"""Rows that calibrators of classifiers are fitted to: logits, labels, features and weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from torch import Tensor
from typing_extensions import override

from likely._rows.blocks import Rows
from likely._rows.checks import check_features
from likely._rows.contents import Keys, contents
from likely._rows.sources import spooled
from likely._typing import Array
from likely.calibration._held_out import HeldOutRows, check_weight
from likely.functional import softmax_nll

Labels = NDArray[np.int64]
KEPT_NUMBERS = 2**22  # maximum number of calibrated logits kept between two steps; more are recomputed at every pass
_HOPELESS = 1e6  # nats; an excluded true class costs ∞, which would hide all other differences of candidates


@dataclass(frozen=True)
class LabelledLogits(HeldOutRows):
    """Logits (the answers), labels, and features as :class:`~likely._rows.blocks.Rows`."""

    @classmethod
    def checked(
        cls, inputs: Any, y: Any, features: Any, sample_weight: Any, *, probabilities: bool = False
    ) -> LabelledLogits:
        """Return the rows of positive weight, after checks."""
        table = spooled("logits", inputs, y=y, features=features, sample_weight=sample_weight)
        inputs, y, features, sample_weight = table.arguments
        logits = check_logits(inputs, probabilities=probabilities)
        weight, extra = check_weight(sample_weight, logits), check_features(features, len(logits))
        return cls(logits, check_labels(y, logits), extra, weight, table=table).counted()

    @property
    def classes(self) -> int:
        """The number of classes."""
        return int(self.answers.shape[1])

    @property
    @override
    def kept(self) -> int:
        return KEPT_NUMBERS // self.classes

    @override
    def keys(self) -> Keys:
        return contents(self.answers, self.features, rounded=True)

    @override
    def fit(self, step: Any) -> Any:
        if step.inputs != "logits":
            kind = type(step).__name__
            raise ValueError(
                f"{kind} has inputs={step.inputs!r}, but steps receive logits: set inputs= of the composition"
            )
        fitted = clone(step)
        fitted.n_classes_ = self.classes
        return fitted._fit_rows(self)

    @override
    def after(self, fitted: Any) -> LabelledLogits:
        features = self.features
        logits = self.answers.mapped(lambda rows, z: fitted._calibrate(z, None if features is None else features[rows]))
        return replace(self, answers=Rows(logits.whole()) if self.few else logits)

    @override
    def nll(self, fitted: Any) -> Array:
        losses = []
        for part, logits in self.after(fitted).answers.read():
            labels = torch.as_tensor(self.y[part], device=logits.device)
            loss = softmax_nll(logits.double(), labels, temperature=1.0, reduction="none", validate_args=False)
            losses.append(loss.clamp(max=_HOPELESS).cpu())
        return torch.cat(losses).numpy()


def check_logits(logits: Any, *, probabilities: bool = False) -> Rows:
    """Return rows of logits, after a check of every value, block by block."""
    name = "probabilities" if probabilities else "logits"
    rows = _as_rows(logits, name)
    if len(rows) == 0:
        raise ValueError(f"{name} have no rows")
    for part, block in rows.read():
        # NaN and +∞ pass through a maximum.
        whole = (block >= 0).all(1) & ((block.sum(1) - 1).abs() < 1e-2) if probabilities else block.amax(1).isfinite()
        if not bool(whole.all()):
            row = f"row {part.start + int((~whole).nonzero()[0])} (counted from 0)"
            if probabilities:
                rule = "probabilities must be ≥ 0 and sum to one in every row"
                raise ValueError(f"{rule}, which {row} does not: for logits set inputs='logits'")
            raise ValueError(f"logits hold NaN or +∞, or nothing but -∞, in {row}: drop it or clean it first")
    if not probabilities:
        return rows
    # Of a probability of zero the logarithm of the smallest positive number is taken.
    return rows.mapped(lambda _, p: p.clamp(min=torch.finfo(p.dtype).tiny).log())


def _as_rows(logits: Any, name: str) -> Rows:
    array = logits if isinstance(logits, Tensor) or hasattr(logits, "dtype") else np.asarray(logits)
    if getattr(array, "ndim", 0) != 2 or array.shape[1] < 2:
        raise ValueError(f"{name} must have the shape (rows, classes) with two classes or more, got {array.shape}")
    return Rows(array if isinstance(array, Tensor) or array.dtype.kind == "f" else array.astype(np.float64))


def check_labels(y: Any, logits: Rows) -> Labels:
    """Return labels as integers 0 … C-1, one per row."""
    labels = y.detach().cpu().numpy() if isinstance(y, Tensor) else np.asarray(y)
    if labels.shape != (len(logits),):
        raise ValueError(f"y must hold one label per row, shape ({len(logits)},); got {labels.shape}")
    if labels.dtype.kind not in "iub" and not _are_whole(labels):
        raise ValueError("y must hold class numbers 0, 1, …: encode labels with sklearn's LabelEncoder")
    whole = labels.astype(np.int64)
    if whole.min() < 0 or whole.max() >= logits.shape[1]:
        raise ValueError(
            f"y holds classes {whole.min()} to {whole.max()}, but the logits have classes 0 to {logits.shape[1] - 1}"
        )
    return whole


def _are_whole(labels: NDArray[Any]) -> bool:
    try:
        numbers = labels.astype(np.float64)
    except (TypeError, ValueError):
        return False
    return labels.dtype.kind not in "US" and bool(np.isfinite(numbers).all() and (numbers == np.floor(numbers)).all())
