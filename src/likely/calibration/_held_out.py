"""Rows that a model was not trained on, to which calibrators are fitted."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from likely._rows.blocks import Rows
from likely._rows.contents import Keys


@dataclass(frozen=True)
class HeldOutRows:
    """What a model answered for some rows, and the truth. Subclasses say how calibrators are fitted to them."""

    answers: Any  # what calibrators change: logits, or scales
    y: Any
    features: Any
    weight: NDArray[np.float64] | None  # how many rows each row counts for; None for one

    def __len__(self) -> int:
        return len(self.y)

    @property
    def count(self) -> float:
        """How many rows these stand for."""
        return float(len(self) if self.weight is None else self.weight.sum())

    def folds(self, cv: int) -> int:
        """Return how many folds these rows can fill with two each: ``cv``, or fewer, but not fewer than two."""
        return max(2, min(cv, int(self.count) // 2))

    @property
    def few(self) -> bool:
        """Whether what calibrators answer can be kept in memory."""
        return True

    def keys(self) -> Keys:
        """Return a number per row that follows from what it holds."""
        raise NotImplementedError

    def fit(self, step: Any) -> Any:
        """Return a copy of the calibrator, fitted to these rows."""
        raise NotImplementedError

    def after(self, fitted: Any) -> Self:
        """Return the rows with what a fitted calibrator makes of the answers."""
        raise NotImplementedError

    def nll(self, fitted: Any) -> NDArray[np.float64]:
        """Return the loss of each row under a fitted calibrator."""
        raise NotImplementedError

    def taken(self, index: NDArray[np.intp]) -> Self:
        """Return some of the rows, in memory."""
        return replace(self, **{field.name: taken(getattr(self, field.name), index) for field in fields(self)})

    def joined(self, parts: list[Self], order: NDArray[np.intp]) -> Self:
        """Return these rows, with the answers of parts that together hold each of them once."""
        answers = [part.answers.whole() if isinstance(part.answers, Rows) else part.answers for part in parts]
        together = torch.cat(answers) if isinstance(answers[0], Tensor) else np.concatenate(answers)
        together = taken(together, order)
        return replace(self, answers=Rows(together) if isinstance(self.answers, Rows) else together)


def taken(part: Any, index: NDArray[np.intp]) -> Any:
    """Return some rows of a column or table, of the kind it has."""
    if part is None or isinstance(part, Rows):
        return None if part is None else part.taken(index)
    return part[torch.as_tensor(index, device=part.device)] if isinstance(part, Tensor) else np.asarray(part)[index]
