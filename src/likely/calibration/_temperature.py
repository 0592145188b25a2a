"""Temperatures: one for all rows, or one a row, read off its logits or features."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from likely._rows.blocks import Rows
from likely._solvers.evidence import Solution, fit_linear
from likely._solvers.ridge import RATE
from likely.calibration._base import Calibrator, check_features, like
from likely.calibration._inverse import LINK as LINK
from likely.calibration._inverse import fit_inverse_temperature, relative
from likely.calibration._inverse import tempered as tempered
from likely.calibration._leading import fit_leading


class GlobalTemperature(Calibrator):
    r"""Global Scaling (GS), Guo's temperature scaling: one temperature for all rows.

    It maximises the likelihood of the held-out labels under :math:`\mathrm{softmax}(z / T)`, by Newton's method in
    :math:`1/T`, where the problem is convex: a start from 2,000 rows, then two passes over all of them, in blocks. Rows
    without a single error would ask for T = 0; the probability of an error is then taken to be ½ in n + 1. Logits
    without spread leave T at one.

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
        self.temperature_ = 1 / fit_inverse_temperature(logits, y, weight).value

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
        inverse, source = fit_inverse_temperature(logits, y, weight), self._source(logits, features)
        self.global_temperature_ = 1 / inverse.value
        if inverse.informed or self.penalty != "evidence":
            self.solution_ = self._solve(logits, y, source, inverse.value, weight)
        else:  # without an error, or without spread, no row differs from the others
            none = np.zeros(source.shape[1])
            self.solution_ = Solution(none, np.ones_like(none), none, 0.0, np.inf, 0)
        self.n_iter_ = self.solution_.n_iter
        self.precision_ = self.solution_.precision

    def _solve(
        self, logits: Rows, y: NDArray[np.int64], source: Rows, inverse: float, weight: NDArray[np.float64] | None
    ) -> Solution:
        labels = torch.as_tensor(y)

        def evaluate(rows: slice, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            return relative(logits[rows], labels[rows].to(u.device), inverse, u)

        fit = fit_leading if self._leading and self.penalty == "evidence" else fit_linear
        return fit(source, evaluate, rate=RATE, penalty=self.penalty, sample_weight=weight)

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


class FiniteRows(Rows):
    """Logits with -∞ replaced as by :func:`finite`, computed as they are read."""

    def __init__(self, rows: Rows) -> None:
        self.rows, self.shape, self.device = rows, rows.shape, rows.device

    def __getitem__(self, part: slice) -> Tensor:
        return finite(self.rows[part])


def finite(logits: Tensor) -> Tensor:
    """-∞ says that a class is out, not how hard the row is: the row's lowest finite number stands in.

    Args:
        logits: tensor of shape (rows, classes), with a finite number in every row.

    Returns:
        A tensor of the same shape without -∞.
    """
    lowest = logits.masked_fill(logits == -torch.inf, torch.inf).amin(1, keepdim=True)
    return torch.maximum(logits, lowest)


class LinearTemperature(_PredictedTemperature):
    r"""Linear Scaling (LS): a temperature a row, linear in its logits, that falls back to Global Scaling.

    :math:`1/T_i = f(b + w \cdot \tilde z_i) / T_0`, with the fitted global temperature :math:`T_0`, standardised
    logits (the row's lowest in place of -∞) and the shifted softplus f at .2. The ridge on w is learned by evidence;
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
        return finite(logits) if isinstance(logits, Tensor) else FiniteRows(logits)


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
