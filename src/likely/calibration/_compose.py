"""Calibrators one after the other."""

from __future__ import annotations

from typing import Any, Self, overload

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.metaestimators import _BaseComposition
from torch import Tensor

from likely._evidence import Rows
from likely.calibration._base import Calibrator, like

_KEPT = 2**22  # numbers: so many calibrated logits are kept between two steps, more are computed again at every pass


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
        self.fitted_: list[Calibrator] = []
        for position, (name, step) in enumerate(self.steps, 1):
            if step.inputs != "logits":
                raise ValueError(f"{name} has inputs={step.inputs!r}: steps are handed logits; say inputs= to compose")
            self.fitted_.append(clone(step)._fit_checked(logits, y, features, weight))
            if position < len(self.steps):
                logits = self._passed_on(step, logits, y, features, weight)

    def _passed_on(
        self,
        step: Calibrator,
        logits: Rows,
        y: NDArray[np.int64],
        features: Rows | None,
        weight: NDArray[np.float64] | None,
    ) -> Rows:
        """What the next step is fitted on: logits of rows the step was not fitted on, where they fit into memory."""
        if self.cv is None or len(logits) * logits.shape[1] > _KEPT or len(y) < 2 * self.cv:
            return _Calibrated(self.fitted_[-1], logits, features).kept()
        folds = deal(y, self.cv, np.random.RandomState(0))
        out = torch.empty(logits.shape, dtype=logits[slice(0, 1)].dtype, device=logits.device)
        for fold in folds:
            others = np.setdiff1d(np.arange(len(y)), fold)
            part = None if weight is None else weight[others]
            fitted = clone(step)._fit_checked(take(logits, others), y[others], take(features, others), part)
            out[torch.as_tensor(fold)] = fitted._calibrate(
                take(logits, fold)[slice(None)], None if features is None else take(features, fold)[slice(None)]
            )
        return Rows(out)

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


@overload
def take(rows: Rows, index: NDArray[np.int64]) -> Rows: ...
@overload
def take(rows: None, index: NDArray[np.int64]) -> None: ...
def take(rows: Rows | None, index: NDArray[np.int64]) -> Rows | None:
    """Some of the rows, in memory."""
    return None if rows is None else Rows(rows[index])  # type: ignore[index]


def deal(y: NDArray[np.int64], folds: int, random: np.random.RandomState) -> list[NDArray[np.int64]]:
    """Rows in folds: sorted by class and dealt out in turn, so that each has its share of every class, however rare."""
    dealt = np.lexsort((random.random_sample(len(y)), y))
    return [dealt[k::folds] for k in range(min(folds, len(y)))]


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
        small = len(self) * self.shape[1] <= _KEPT
        return Rows(torch.cat([self[part] for part in self.blocks()])) if small else self
