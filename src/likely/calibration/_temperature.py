"""Temperatures: one for all rows, or one a row, read off its logits or features."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from likely._evidence import Rows, fit_linear
from likely.calibration._base import Calibrator, check_features, like
from likely.calibration._leading import fit_leading
from likely.constraints import ShiftedSoftplus

# How far temperatures are expected to spread over rows, as a share of the global one. Chosen on LeNet-5, ResNet-20,
# SVHN and cleanlab's CIFAR-10: at .4 a quarter of the splits of 250 rows gets worse, by up to .014; at .15 none does,
# and the gain on 5,000 rows is the same.
SPREAD = 0.15
LINK = ShiftedSoftplus(0.2)
_BOUND = 1e4


class GlobalTemperature(Calibrator):
    r"""Global Scaling (GS), Guo's temperature scaling: one temperature for all rows.

    It maximises the likelihood of the held-out labels under :math:`\mathrm{softmax}(z / T)`, by Newton's method in
    :math:`1/T`, where the problem is convex: a start from 2,000 rows, then two passes over all of them, in blocks.

    >>> import numpy as np
    >>> from likely.calibration import GlobalTemperature
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 3, 2000)
    >>> logits = 4 * (np.eye(3)[y] + rng.normal(size=(2000, 3)))     # four times too sure
    >>> round(GlobalTemperature().fit(logits, y).temperature_)
    4
    """

    def _fit(
        self, logits: Rows, y: NDArray[np.int64], features: Rows | None, weight: NDArray[np.float64] | None
    ) -> None:
        self.temperature_ = 1 / fit_inverse_temperature(logits, y, weight)

    def temperature(self, logits: Any, features: Any = None) -> Any:
        """The one temperature, for every row."""
        rows = self._rows(logits)
        return like(rows[slice(0, 0)].new_full((len(rows),), self.temperature_), logits)

    def _calibrate(self, logits: Tensor, features: Tensor | None) -> Tensor:
        return logits / self.temperature_


class _PredictedTemperature(Calibrator):
    """A temperature a row relative to the global one: 1/T = f(u)/T₀ with f(0) = 1, so the start *is* Global Scaling."""

    _leading = False

    def __init__(self, *, penalty: str | float | None = "evidence", inputs: str = "logits") -> None:
        super().__init__(inputs=inputs)
        self.penalty = penalty

    def _fit(
        self, logits: Rows, y: NDArray[np.int64], features: Rows | None, weight: NDArray[np.float64] | None
    ) -> None:
        inverse = fit_inverse_temperature(logits, y, weight)
        labels = torch.as_tensor(y)

        def evaluate(rows: slice, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            return relative(logits[rows], labels[rows].to(u.device), inverse, u)

        self.global_temperature_ = 1 / inverse
        fit = fit_leading if self._leading and self.penalty == "evidence" else fit_linear
        self.solution_ = fit(
            self._source(logits, features), evaluate, scale=SPREAD, penalty=self.penalty, sample_weight=weight
        )
        self.n_iter_ = self.solution_.n_iter
        self.precision_ = self.solution_.precision

    def temperature(self, logits: Any, features: Any = None) -> Any:
        """The temperature of each row."""
        rows = self._rows(logits)
        source = self._source(rows, check_features(features, len(rows)))
        parts = [self._temperature(source[part]) for part in rows.blocks()]
        return like(torch.cat(parts), logits)

    def _calibrate(self, logits: Tensor, features: Tensor | None) -> Tensor:
        source = self._source(logits, features)
        return logits / self._temperature(source).to(logits.dtype)[:, None]

    def _temperature(self, source: Tensor) -> Tensor:
        if source.shape[1] != len(self.solution_.coef):
            raise ValueError(f"features have {source.shape[1]} columns, the fit had {len(self.solution_.coef)}")
        temperature: Tensor = self.global_temperature_ / LINK(self.solution_(source))
        return temperature

    def _source(self, logits: Any, features: Any) -> Any:
        raise TypeError("use LinearTemperature or FeatureTemperature")


class LinearTemperature(_PredictedTemperature):
    r"""Linear Scaling (LS): a temperature a row, linear in its logits, that falls back to Global Scaling.

    :math:`1/T_i = f(b + w \cdot \tilde z_i) / T_0`, with the fitted global temperature :math:`T_0`, standardised
    logits and the shifted softplus f at .2. The ridge on w is learned by evidence;
    where spread does not pay, w is zero and this *is* Global Scaling. ``penalty=None`` is the paper's unregularised
    method, which overfits small sets.

    >>> import numpy as np
    >>> from likely.calibration import LinearTemperature
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 3, 4000)
    >>> hard = rng.random(4000) < 0.5                                # half of the rows are hard, and show it
    >>> logits = 3 * np.eye(3)[y] + np.where(hard, 3, 1)[:, None] * rng.normal(size=(4000, 3)) + 4 * hard[:, None]
    >>> ls = LinearTemperature().fit(logits, y)
    >>> t = ls.temperature(logits)
    >>> bool(t[hard].mean() > 2 * t[~hard].mean())
    True
    """

    def _source(self, logits: Any, features: Any) -> Any:
        parts = [logits] if isinstance(logits, Tensor) else (logits[part] for part in logits.blocks())
        if not all(bool(part.isfinite().all()) for part in parts):
            raise ValueError("LinearTemperature reads the logits and cannot take -∞: use FeatureTemperature")
        return logits


class FeatureTemperature(_PredictedTemperature):
    r"""Linear Feature Scaling (LFS): a temperature a row, linear in the network's last features.

    As :class:`LinearTemperature`, with the features in place of the logits. Unregularised it is the method that
    fails in the paper's table (ECE .173 where Global Scaling has .035): with 2048 features and a few thousand rows
    the fit memorises them. The evidence ridge is the cure; it is fitted along the 128 leading directions of the
    features where there are more.

    >>> import numpy as np
    >>> from likely.calibration import FeatureTemperature
    >>> rng = np.random.default_rng(0)
    >>> y, features = rng.integers(0, 3, 4000), rng.normal(size=(4000, 20))
    >>> noise = np.exp(features[:, :1])
    >>> logits = 3 * np.eye(3)[y] + noise * rng.normal(size=(4000, 3))
    >>> lfs = FeatureTemperature().fit(logits, y, features)
    >>> round(float(np.corrcoef(np.log(lfs.temperature(logits, features)), features[:, 0])[0, 1]), 1)
    1.0
    """

    _leading = True

    def _source(self, logits: Any, features: Any) -> Any:
        if features is None:
            raise ValueError("FeatureTemperature needs features=, the input of the network's last layer")
        return features


def tempered(logits: Tensor, labels: Tensor, inverse: Tensor | float) -> tuple[Tensor, Tensor, Tensor]:
    """The softmax NLL of each row at inverse temperature τ, its slope in τ and its curvature.

    The slope is E z - z_y and the curvature Var z under the tempered softmax: the Fisher information itself, since
    neither depends on the label.
    """
    tau = inverse[:, None] if isinstance(inverse, Tensor) else inverse
    # -∞ rules a class out; any finite stand-in keeps 0 · ∞ out of the moments.
    shifted = (logits - logits.amax(1, keepdim=True)).clamp_(min=-1e30)
    powers = (shifted * tau).exp_()
    total = powers.sum(1)
    chosen = shifted.gather(1, labels[:, None])[:, 0]
    first = powers.mul_(shifted).sum(1) / total
    second = powers.mul_(shifted).sum(1) / total
    scale = inverse if isinstance(inverse, Tensor) else float(inverse)
    return total.log() - scale * chosen, first - chosen, (second - first.square()).clamp(min=0)


def relative(logits: Tensor, labels: Tensor, inverse: float, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The NLL of each row at f(u) times an inverse temperature, its slope in u and its curvature."""
    nll, first, second = tempered(logits, labels, inverse * LINK(u))
    slope = inverse * LINK.slope(u)
    return nll, first * slope, second * slope.square()


def fit_inverse_temperature(
    logits: Rows, y: NDArray[np.int64], weight: NDArray[np.float64] | None, start: int = 2000
) -> float:
    """The 1/T of highest likelihood, right to about eight digits."""
    labels = torch.as_tensor(y)
    weights = None if weight is None else torch.as_tensor(weight)

    def pass_over(tau: float, stride: int) -> tuple[float, float]:
        first = second = 0.0
        for rows in logits.blocks(stride):
            block = logits[rows]
            _, slope, curvature = tempered(block, labels[rows].to(block.device), tau)
            if weights is not None:
                slope, curvature = (t * weights[rows].to(t) for t in (slope, curvature))
            first += float(slope.double().sum())
            second += float(curvature.double().sum())
        return first, second

    stride = max(1, len(logits) // start)  # spread over the rows, which may be sorted
    block = logits[next(logits.blocks(stride))]
    below = (block - block.amax(1, keepdim=True))[block.isfinite()]
    # Logits of unit deviation are where confidence starts; the bound keeps perfectly separated rows finite.
    centre = 1 / max(float(below.square().mean().sqrt()), 1e-30)
    log_tau = math.log(centre)
    for step, passes in ((stride, 40), (1, 20)) if stride > 1 else ((1, 60),):
        for _ in range(passes):
            tau = math.exp(log_tau)
            first, second = pass_over(tau, step)
            # Newton in τ; far from the optimum a step in log τ of at most one.
            move = -first / max(second, 1e-300) / tau
            move = math.log1p(move) if move > -0.5 else -1.0
            log_tau = min(
                max(log_tau + min(max(move, -1.0), 1.0), math.log(centre / _BOUND)), math.log(centre * _BOUND)
            )
            # Newton squares the error: what is below 1e-4 now is below 1e-8 after this step.
            if abs(move) < 1e-4:
                break
    return math.exp(log_tau)
