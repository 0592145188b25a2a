"""Calibrators one after the other."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.metaestimators import _BaseComposition
from torch import Tensor

from likely._rows.blocks import Rows
from likely.calibration._base import Calibrator, like
from likely.calibration._cross_fit import Chain, CrossFits


class Composition(Calibrator, _BaseComposition):
    """Calibrators in a row, each fitted on the logits the one before it gives. Made by :func:`compose`.

    >>> from likely.calibration import GlobalTemperature, VectorScaling, compose
    >>> [name for name, _ in compose(VectorScaling(), GlobalTemperature()).steps]
    ['vectorscaling', 'globaltemperature']
    """

    def __init__(self, steps: list[tuple[str, Calibrator]], *, cv: int | None = 5, inputs: str = "logits") -> None:
        super().__init__(inputs=inputs)
        self.steps = steps
        self.cv = cv

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters, those of the steps as ``name__parameter``."""
        params: dict[str, Any] = self._get_params("steps", deep=deep)
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters, those of the steps as ``name__parameter``."""
        self._set_params("steps", **params)
        return self

    def temperature(self, logits: Any, features: Any = None) -> Any:
        """The product of the steps' temperatures, where all have one."""
        rows = self._rows(logits)
        current = torch.cat([rows[part] for part in rows.blocks()])
        total = torch.ones_like(current[:, 0])
        for step in self.fitted_:
            total = total * step.temperature(current, features)
            current = step.transform(current, features)
        return like(total, logits)

    def _fit(
        self, logits: Rows, y: NDArray[np.int64], features: Rows | None, weight: NDArray[np.float64] | None
    ) -> None:
        if not self.steps:
            raise ValueError("compose needs at least one calibrator")
        fits = CrossFits(logits, y, features, weight, cv=self.cv, seed=0)
        self.fitted_ = fits.fitted(self.chain)

    @property
    def chain(self) -> Chain:
        """The steps without their names."""
        return tuple(step for _, step in self.steps)

    def _calibrate(self, logits: Tensor, features: Tensor | None) -> Tensor:
        for step in self.fitted_:
            logits = step._calibrate(logits, features)
        return logits


def compose(*calibrators: Calibrator, cv: int | None = 5, inputs: str = "logits") -> Composition:
    """Calibrators one after the other, each fitted on the logits the one before it gives.

    Features go to every step that reads them. A step's answers on its own rows are too good, and a temperature fitted
    to them too low; so the next step is fitted on answers to rows held out in ``cv`` folds (``None``, or logits
    too many to keep: on the answers as they are). The parts stay visible, as in a scikit-learn pipeline:

    >>> import numpy as np
    >>> from likely.calibration import LinearTemperature, VectorScaling, compose
    >>> both = compose(VectorScaling(), LinearTemperature())
    >>> both.get_params()["lineartemperature__penalty"]
    'evidence'
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 3, 500)
    >>> logits = 4 * (np.eye(3)[y] + rng.normal(size=(500, 3))) + [2, 0, 0]
    >>> both.fit(logits, y).predict_proba(logits[:1]).round(1)
    array([[0., 0., 1.]])
    """
    kinds = [type(calibrator).__name__.lower() for calibrator in calibrators]
    names = [kind if kinds.count(kind) == 1 else f"{kind}-{i + 1}" for i, kind in enumerate(kinds)]
    return Composition(list(zip(names, calibrators, strict=True)), cv=cv, inputs=inputs)
