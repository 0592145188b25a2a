"""Platt's and isotonic calibration, one class against the rest, through scikit-learn."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from likely._rows.blocks import Rows
from likely._typing import Array
from likely.calibration._sketches import odds_sketch
from likely.calibration.classifiers._base import Calibrator
from likely.calibration.classifiers._rows import Labels


class Sigmoid(NamedTuple):
    """A class's probability by Platt: σ(slope · o + intercept)."""

    slope: float
    intercept: float

    def predict(self, odds: Array) -> Array:
        """Return the probability at each log odds."""
        # A row may be hopeless under every class: e⁻⁸⁰ is still a float32.
        surprise: Array = np.logaddexp(0, -(self.slope * odds + self.intercept)).clip(max=80)
        return np.exp(-surprise)


class Polygon(NamedTuple):
    """A class's probability by isotonic regression: straight lines between knots, level beyond them."""

    odds: Array
    probability: Array

    def predict(self, odds: Array) -> Array:
        """Return the probability at each log odds."""
        return np.interp(odds, self.odds, self.probability)


class _OneVersusRest(Calibrator):
    """A curve per class, from its log odds to a probability; the probabilities are then made to sum to one.

    Of tables in blocks a histogram stands for the rows, whose bins are 3e-4 wide, or 3e-4 of the log odds where these
    are beyond ±1; with C > 32 classes they are C / 32 times as wide.
    """

    def _fit(self, logits: Rows, y: Labels, features: Rows | None, weight: Array) -> None:
        if logits.elsewhere:
            odds_of = logits.mapped(lambda _, block: _log_odds(block))
            self.curves_: list[Any] = [self._curve(*rows) for rows in odds_sketch(odds_of, y, weight)]
            return
        self.curves_ = []
        for k in range(logits.shape[1]):
            odds = np.concatenate([_log_odds(logits[part])[:, k].double().cpu().numpy() for part in logits.blocks()])
            self.curves_.append(self._curve(odds, y == k, weight))

    def _calibrate(self, logits: Tensor, features: Tensor | None) -> Tensor:
        odds = _log_odds(logits).double().cpu().numpy()
        columns = [curve.predict(odds[:, k]) for k, curve in enumerate(self.curves_)]
        probabilities = torch.as_tensor(np.stack(columns, axis=1)).to(logits)
        return (probabilities / probabilities.sum(1, keepdim=True)).log()

    def _curve(self, odds: Array, own: NDArray[np.bool_], weight: Array) -> Sigmoid | Polygon:
        raise TypeError("use PlattScaling or IsotonicCalibration")


class PlattScaling(_OneVersusRest):
    r"""Platt scaling: a sigmoid per class, :math:`\sigma(a_k o_k + c_k)` of its log odds, made to sum to one.

    Labels are smoothed as Platt does, (N₊+1)/(N₊+2) and 1/(N₋+2), so that the fit exists on separated classes too.
    It may change which class is on top.

    >>> import numpy as np
    >>> from likely.calibration import PlattScaling
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 3, 1000)
    >>> logits = 4 * (np.eye(3)[y] + rng.normal(size=(1000, 3)))
    >>> PlattScaling().fit(logits, y).predict_proba(logits[:1]).round(1)
    array([[0.6, 0.2, 0.2]])
    """

    def _curve(self, odds: Array, own: NDArray[np.bool_], weight: Array) -> Sigmoid:
        positive, negative = float(weight[own].sum()), float(weight[~own].sum())
        target = np.where(own, (positive + 1) / (positive + 2), 1 / (negative + 2))
        centre, scale = float(np.average(odds, weights=weight)), float(np.abs(odds).max())
        spread = float(np.abs(odds - centre).max())
        if spread <= 1e-9 * scale:  # odds that do not differ tell nothing: the class has its share, whatever they are
            share = float(np.average(target, weights=weight))
            return Sigmoid(0.0, float(np.log(share) - np.log1p(-share)))
        twice = np.concatenate([odds, odds])[:, None] / scale
        labels = np.repeat([1, 0], len(odds))
        model = LogisticRegression(C=np.inf, max_iter=1000, tol=1e-6)
        model.fit(twice, labels, sample_weight=np.concatenate([weight * target, weight * (1 - target)]))
        return Sigmoid(float(model.coef_[0, 0]) / scale, float(model.intercept_[0]))


class IsotonicCalibration(_OneVersusRest):
    """Isotonic calibration: a rising curve per class, from log odds to probability, made to sum to one.

    A curve that ends at zero would price its first surprise at infinity, so none goes below 1 / (nC). Rows with
    the same log odds share a value. It may change which class is on top, and merges rows.

    >>> import numpy as np
    >>> from likely.calibration import IsotonicCalibration
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 3, 1000)
    >>> logits = 4 * (np.eye(3)[y] + rng.normal(size=(1000, 3)))
    >>> IsotonicCalibration().fit(logits, y).predict_proba(logits[:1]).round(1)
    array([[0.6, 0.2, 0.2]])
    """

    def _curve(self, odds: Array, own: NDArray[np.bool_], weight: Array) -> Polygon:
        floor = 1 / (weight.sum() * self.n_classes_)
        model = IsotonicRegression(y_min=floor, y_max=1 - floor, out_of_bounds="clip")
        model.fit(odds, own.astype(np.float64), sample_weight=weight)
        return Polygon(model.X_thresholds_, model.y_thresholds_)


def _log_odds(logits: Tensor) -> Tensor:
    """log p - log(1 - p) of each class, without the cancellation of 1 - p."""
    others = torch.logsumexp(logits, 1, keepdim=True) + torch.log1p(-torch.softmax(logits, 1).clamp(max=0.5 + 1e-6))
    # Only for the top class is log(Σ - own) a difference of near equals: sum the others instead.
    top = logits.argmax(1, keepdim=True)
    others.scatter_(1, top, torch.logsumexp(logits.scatter(1, top, -torch.inf), 1, keepdim=True))
    return (logits - others).clamp(-1e4, 1e4)
