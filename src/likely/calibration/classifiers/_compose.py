"""Calibrators one after the other."""

from __future__ import annotations

from typing import Self

from torch import Tensor

from likely.calibration._composition import Composed, named
from likely.calibration.classifiers._base import Calibrator
from likely.calibration.classifiers._rows import LabelledLogits


class Composition(Composed, Calibrator):
    """Calibrators in a row, each fitted on the logits the one before it gives. Made by :func:`compose`.

    >>> from likely.calibration import GlobalTemperature, VectorScaling, compose
    >>> [name for name, _ in compose(VectorScaling(), GlobalTemperature()).steps]
    ['vectorscaling', 'globaltemperature']
    """

    def __init__(self, steps: list[tuple[str, Calibrator]], *, cv: int | None = 5, inputs: str = "logits") -> None:
        Calibrator.__init__(self, inputs=inputs)  # past scikit-learn's _BaseComposition, which has another one
        self.steps = steps
        self.cv = cv

    def _fit_rows(self, rows: LabelledLogits) -> Self:
        self.n_classes_ = rows.answers.shape[1]
        self._fit_steps(rows)
        return self

    def _calibrate(self, logits: Tensor, features: Tensor | None) -> Tensor:
        for step in self.fitted_:
            logits = step._calibrate(logits, features)
        return logits

    def _temperatures(self, logits: Tensor, features: Tensor | None) -> Tensor:
        total = logits.new_ones(len(logits))
        for step in self.fitted_:
            total = total * step._temperatures(logits, features)
            logits = step._calibrate(logits, features)
        return total


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
    return Composition(named(calibrators), cv=cv, inputs=inputs)
