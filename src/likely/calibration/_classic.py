"""Platt scaling and isotonic calibration, one class against the rest, by scikit-learn."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from scipy import optimize
from sklearn.calibration import _sigmoid_calibration
from sklearn.isotonic import IsotonicRegression
from torch import Tensor

from likely._rows.contents import fold_numbers, splits_of
from likely._typing import Array, Mask
from likely.calibration._calibrator import Calibrator, LabelledLogits, Labels
from likely.calibration._temperature import GlobalTemperature

_FOLDS = 5
_TINY = 1e-300


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

    Few rows cannot determine so many curves. So the result is a mixture with the probabilities of one temperature,
    whose shares maximise the likelihood of rows that were left out of the curves, in folds.

    A curve needs its rows at once: of a large table, as many as can be kept, spread evenly over it.
    """

    _curve: Callable[..., Any]  # of odds, whether they are of the class, and weights

    def _fit_rows(self, rows: LabelledLogits) -> Self:
        rows = rows.thinned()
        parts = [_log_odds(rows.answers[part]) for part in rows.answers.blocks()]
        odds, y, weight = np.concatenate(parts), rows.y, rows.weight
        self.curves_ = self._curves(odds, y, weight)
        tempered = rows.fit(GlobalTemperature())
        # One row's worth of curves at least, which rule no class out.
        self.temperature_, self.share_ = tempered.temperature_, 1 / (1 + float(weight.sum()))
        held_out = np.zeros(len(y))
        keys = replace(rows, features=None).keys()  # the curves read none
        folds = splits_of(fold_numbers(keys, max(2, min(_FOLDS, len(y) // 2)), ties=y))
        for train, out in folds if len(folds) > 1 else []:
            curves = self._curves(odds[train], y[train], weight[train])
            held_out[out] = _normalised(curves, odds[out])[np.arange(len(out)), y[out]]
        if held_out.all():
            self.share_ = _best_share(held_out, np.exp(-rows.nll(tempered)), weight, self.share_)
        return self

    def _curves(self, odds: Array, y: Labels, weight: Array) -> list[Any]:
        return [self._curve(column, y == k, weight) for k, column in enumerate(odds.T)]

    def _calibrate(self, logits: Tensor, features: Tensor | None) -> Tensor:
        if torch.compiler.is_compiling():
            raise TypeError(f"{type(self).__name__} cannot be exported: calibrate with a temperature or VectorScaling")
        probabilities = _normalised(self.curves_, _log_odds(logits))
        tempered = torch.softmax(logits.double() / self.temperature_, 1)
        return torch.lerp(tempered, torch.as_tensor(probabilities).to(tempered), self.share_).to(logits).log()


def _normalised(curves: list[Any], odds: Array) -> Array:
    """Return the probabilities that curves give the classes, of sum one."""
    columns = np.stack([curve.predict(column) for curve, column in zip(curves, odds.T, strict=True)], axis=1)
    return columns / columns.sum(1, keepdims=True)


def _best_share(curves: Array, tempered: Array, weight: Array, least: float) -> float:
    """Return the share of the first of two probabilities of the labels in the mixture of highest likelihood.

    Curves that are all of it have to gain a nat over one temperature: a few rows without an error prove little.
    """

    def loss(share: float) -> float:
        return share - float(weight @ np.log(np.maximum(tempered + share * (curves - tempered), _TINY)))

    inside = optimize.minimize_scalar(loss, bounds=(least, 1), method="bounded").x
    return min((least, 1.0, float(inside)), key=loss)


class PlattScaling(_OneVersusRest):
    r"""Platt scaling: a sigmoid per class, :math:`\sigma(a_k o_k + c_k)` of its log odds, then normalised.

    Labels are smoothed as Platt does, (N₊+1)/(N₊+2) and 1/(N₋+2), so that the fit exists for separated classes too. It
    may change which class is the most probable. The result is a mixture with one temperature, by the likelihood of
    rows held out in folds: few rows cannot determine a sigmoid per class.

    Args:
        inputs: ``"logits"``, or ``"probabilities"``, whose logarithm is taken.

    Attributes:
        curves_: a sigmoid per class, with ``slope`` and ``intercept``.
        share_: the share of the sigmoids in the result, from 0 to 1; the rest is that of one temperature.
        temperature_: that temperature.
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

    def _curve(self, odds: Array, positive: Mask, weight: Array) -> Sigmoid:
        size = float(np.abs(odds).max()) or 1.0
        # Equal odds carry no information: the class gets its share.
        units = odds / size if np.ptp(odds) > 1e-9 * size else np.zeros_like(odds)
        slope, intercept = _sigmoid_calibration(*map(np.ascontiguousarray, (units, positive, weight)))
        return Sigmoid(-float(slope) / size, -float(intercept))


class IsotonicCalibration(_OneVersusRest):
    """Isotonic calibration: a monotone curve per class, from log odds to probability, then normalised.

    No curve goes below 1 / (nC), since an observed class of probability zero would cost infinity. Rows with the same
    log odds share a value. It may change which class is the most probable. The result is a mixture with one
    temperature, by the likelihood of rows held out in folds: few rows cannot determine a curve per class.

    Args:
        inputs: ``"logits"``, or ``"probabilities"``, whose logarithm is taken.

    Attributes:
        curves_: a curve per class, with its knots ``odds`` and their ``probability``.
        share_: the share of the curves in the result, from 0 to 1; the rest is that of one temperature.
        temperature_: that temperature.
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

    def _curve(self, odds: Array, positive: Mask, weight: Array) -> Polygon:
        floor = 1 / (weight.sum() * self.n_classes_)
        model = IsotonicRegression(y_min=floor, y_max=1 - floor, out_of_bounds="clip")
        model.fit(odds, positive.astype(np.float64), sample_weight=weight)
        return Polygon(model.X_thresholds_, model.y_thresholds_)


def _log_odds(logits: Tensor) -> Array:
    """log p - log(1 - p) of each class, without the cancellation of 1 - p."""
    others = torch.logsumexp(logits, 1, keepdim=True) + torch.log1p(-torch.softmax(logits, 1).clamp(max=0.5 + 1e-6))
    # For the top class log(Σ - z) would be a difference of near equals: the others are summed instead.
    top = logits.argmax(1, keepdim=True)
    others.scatter_(1, top, torch.logsumexp(logits.scatter(1, top, -torch.inf), 1, keepdim=True))
    return (logits - others).clamp(-1e4, 1e4).double().cpu().numpy()
