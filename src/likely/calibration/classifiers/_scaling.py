"""Affine maps of the logits, a step beyond temperatures: vector and structured matrix scaling."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from likely._rows.blocks import Rows
from likely._typing import Array
from likely.calibration.classifiers._affine import AffineProblem, affine, centred, fit_affine
from likely.calibration.classifiers._base import Calibrator
from likely.calibration.classifiers._inverse import fit_inverse_temperature
from likely.calibration.classifiers._logits import Labels


@dataclass(kw_only=True, eq=False, repr=False)
class VectorScaling(Calibrator):
    r"""Vector scaling (VS): a factor and a bias per class.

    The calibrated logits are :math:`z / T_0 + \delta \circ x + b`, with x the centred logits over the global
    temperature. With learned ridges it is structured vector scaling (SVS). Unlike a temperature it may change which
    class is the most probable.

    Args:
        inputs: ``"logits"``, or ``"probabilities"``, whose logarithm is taken.
        penalty: ridges on δ and b: ``"evidence"`` learns one for each, a number sets both, and None is Guo's
            unregularised method.

    Attributes:
        global_temperature_: the temperature :math:`T_0`.
        factors_: :math:`1 + \delta`, shape (C,).
        bias_: b, shape (C,), of mean zero.
        precision_: strength of each ridge.
        n_classes_: number C of classes.

    Example:
        >>> import numpy as np
        >>> from likely.calibration import GlobalTemperature, VectorScaling
        >>> rng = np.random.default_rng(0)
        >>> y = rng.integers(0, 3, 2000)
        >>> logits = 3 * np.eye(3)[y] + 2 * rng.normal(size=(2000, 3)) + [4, 0, 0]    # too fond of class 0
        >>> VectorScaling().fit(logits, y).bias_.round()
        array([-2.,  1.,  1.])

    See Also:
        :class:`StructuredMatrixScaling`, :class:`GlobalTemperature`; :func:`compose`, to follow it by a temperature.
    """

    _matrix = False
    mixing_ = np.zeros((0, 0))

    penalty: str | float | None = "evidence"

    def _fit(self, logits: Rows, y: Labels, features: Rows | None, weight: Array) -> None:
        if isinstance(self.penalty, str) and self.penalty != "evidence":
            raise ValueError(f"penalty must be 'evidence', None or a number ≥ 0, got {self.penalty!r}")
        inverse = fit_inverse_temperature(logits, y, weight).value
        theta, self.precision_ = fit_affine(AffineProblem(logits, y, weight, inverse, self._matrix), self.penalty)
        classes = self.n_classes_
        self.global_temperature_ = 1 / inverse
        self.factors_ = 1 + theta[:classes]
        # A constant added to all biases changes nothing.
        self.bias_ = theta[classes : 2 * classes] - theta[classes : 2 * classes].mean()
        self.mixing_ = theta[2 * classes :].reshape(-1, classes)  # without rows where there is no matrix

    def _calibrate(self, logits: Tensor, features: Tensor | None) -> Tensor:
        tempered = logits / self.global_temperature_
        x = centred(tempered)
        learned = (torch.as_tensor(part).to(x) for part in (self.factors_ - 1, self.bias_, self.mixing_))
        return affine(tempered, x, *learned)


class StructuredMatrixScaling(VectorScaling):
    r"""Structured matrix scaling (SMS): vector scaling plus a matrix W between classes.

    As :class:`VectorScaling`, with :math:`W x` added under a third ridge (Berta, Holzmüller, Jordan and Bach, 2025, fix
    the three strengths; here they are learned). The fitted W is ``mixing_``, shape (C, C).

    Args:
        inputs: ``"logits"``, or ``"probabilities"``, whose logarithm is taken.
        penalty: ridges: ``"evidence"`` learns the three, a number is the strength for δ and b and, times C - 1, for W,
            and None is no regularisation.

    Attributes:
        global_temperature_: the temperature :math:`T_0`.
        factors_: :math:`1 + \delta`, shape (C,).
        bias_: b, shape (C,), of mean zero.
        precision_: strength of each ridge.
        n_classes_: number C of classes.

    Example:
        >>> import numpy as np
        >>> from likely.calibration import StructuredMatrixScaling, VectorScaling
        >>> rng = np.random.default_rng(0)
        >>> y = rng.integers(0, 4, 4000)
        >>> evidence = 3 * np.eye(4)[y] + 2 * rng.normal(size=(4000, 4))
        >>> logits = evidence + 0.8 * np.roll(evidence, 1, axis=1)                 # each class leaks into the next
        >>> fitted = [c.fit(logits, y) for c in (VectorScaling(), StructuredMatrixScaling())]
        >>> [round(float((c.predict(logits) == y).mean()), 2) for c in fitted]
        [0.52, 0.71]

    See Also:
        :class:`VectorScaling`, without the matrix.
    """

    _matrix = True
