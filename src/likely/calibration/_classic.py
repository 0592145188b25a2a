"""Platt scaling and isotonic calibration, one class against the rest, by scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.calibration import _sigmoid_calibration
from sklearn.isotonic import IsotonicRegression
from torch import Tensor

from likely._rows.blocks import Rows
from likely._typing import Array
from likely.calibration._calibrator import Calibrator, LabelledLogits, Labels


class Sigmoid(NamedTuple):
    """A class's probability by Platt scaling: σ(slope · o + intercept)."""

    slope: float
    intercept: float

    def predict(self, odds: Array) -> Array:
        """Return the probability at each log odds."""
        # A row may be improbable under every class: e⁻⁸⁰ is still a float32.
        nll: Array = np.logaddexp(0, -(self.slope * odds + self.intercept)).clip(max=80)
        return np.exp(-nll)


class Polygon(NamedTuple):
    """A class's probability by isotonic regression: linear between knots, constant beyond them."""

    odds: Array
    probability: Array

    def predict(self, odds: Array) -> Array:
        """Return the probability at each log odds."""
        return np.interp(odds, self.odds, self.probability)


class _OneVersusRest(Calibrator):
    """A curve per class, from its log odds to a probability; the probabilities are then normalised.

    A curve needs its rows at once: of a table in blocks, as many as can be kept, spread evenly over it.
    """

    curves_: list[Any]
    _curve: Callable[..., Any]  # of odds, whether they are of the class, and weights

    def _fit_rows(self, rows: LabelledLogits) -> Self:
        return super()._fit_rows(rows.thinned() if rows.table.mapped else rows)

    def _fit(self, logits: Rows, y: Labels, features: Rows | None, weight: Array) -> None:
        self.curves_ = []
        for k in range(logits.shape[1]):
            odds = np.concatenate([_log_odds(logits[part])[:, k].double().cpu().numpy() for part in logits.blocks()])
            self.curves_.append(self._curve(odds, y == k, weight))

    def _calibrate(self, logits: Tensor, features: Tensor | None) -> Tensor:
        odds = _log_odds(logits).double().cpu().numpy()
        columns = [curve.predict(odds[:, k]) for k, curve in enumerate(self.curves_)]
        probabilities = torch.as_tensor(np.stack(columns, axis=1)).to(logits)
        return (probabilities / probabilities.sum(1, keepdim=True)).log()


class PlattScaling(_OneVersusRest):
    r"""Platt scaling: a sigmoid per class, :math:`\sigma(a_k o_k + c_k)` of its log odds, then normalised.

    Labels are smoothed as Platt does, (N₊+1)/(N₊+2) and 1/(N₋+2), so that the fit exists for separated classes too. It
    may change which class is the most probable.

    Args:
        inputs: ``"logits"``, or ``"probabilities"``, whose logarithm is taken.

    Attributes:
        curves_: a sigmoid per class, with ``slope`` and ``intercept``.
        n_classes_: number of classes.

    Example:
        >>> import numpy as np
        >>> from likely.calibration import PlattScaling
        >>> rng = np.random.default_rng(0)
        >>> y = rng.integers(0, 3, 1000)
        >>> logits = 4 * (np.eye(3)[y] + rng.normal(size=(1000, 3)))
        >>> PlattScaling().fit(logits, y).predict_proba(logits[:1]).round(1)
        array([[0.6, 0.2, 0.2]])

    See Also:
        :class:`IsotonicCalibration`; :class:`GlobalTemperature`, with one parameter for all classes.
    """

    def _curve(self, odds: Array, positive: NDArray[np.bool_], weight: Array) -> Sigmoid:
        size = float(np.abs(odds).max()) or 1.0
        # Equal odds carry no information: the class gets its share.
        units = odds / size if np.ptp(odds) > 1e-9 * size else np.zeros_like(odds)
        slope, intercept = _sigmoid_calibration(*map(np.ascontiguousarray, (units, positive, weight)))
        return Sigmoid(-float(slope) / size, -float(intercept))


class IsotonicCalibration(_OneVersusRest):
    """Isotonic calibration: a monotone curve per class, from log odds to probability, then normalised.

    No curve goes below 1 / (nC), since an observed class of probability zero would cost infinity. Rows with the same
    log odds share a value. It may change which class is the most probable, and gives different rows equal
    probabilities.

    Args:
        inputs: ``"logits"``, or ``"probabilities"``, whose logarithm is taken.

    Attributes:
        curves_: a curve per class, with its knots ``odds`` and their ``probability``.
        n_classes_: number of classes.

    Example:
        >>> import numpy as np
        >>> from likely.calibration import IsotonicCalibration
        >>> rng = np.random.default_rng(0)
        >>> y = rng.integers(0, 3, 1000)
        >>> logits = 4 * (np.eye(3)[y] + rng.normal(size=(1000, 3)))
        >>> IsotonicCalibration().fit(logits, y).predict_proba(logits[:1]).round(1)
        array([[0.6, 0.2, 0.2]])

    See Also:
        :class:`PlattScaling`; :class:`IsotonicScale` for regressors.
    """

    def _curve(self, odds: Array, positive: NDArray[np.bool_], weight: Array) -> Polygon:
        floor = 1 / (weight.sum() * self.n_classes_)
        model = IsotonicRegression(y_min=floor, y_max=1 - floor, out_of_bounds="clip")
        model.fit(odds, positive.astype(np.float64), sample_weight=weight)
        return Polygon(model.X_thresholds_, model.y_thresholds_)


def _log_odds(logits: Tensor) -> Tensor:
    """log p - log(1 - p) of each class, without the cancellation of 1 - p."""
    others = torch.logsumexp(logits, 1, keepdim=True) + torch.log1p(-torch.softmax(logits, 1).clamp(max=0.5 + 1e-6))
    # For the top class log(Σ - z) would be a difference of near equals: the others are summed instead.
    top = logits.argmax(1, keepdim=True)
    others.scatter_(1, top, torch.logsumexp(logits.scatter(1, top, -torch.inf), 1, keepdim=True))
    return (logits - others).clamp(-1e4, 1e4)
