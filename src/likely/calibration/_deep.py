"""A temperature a row from small networks, kept only as far as held-out rows agree with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from likely._rows.blocks import Rows, moments
from likely.calibration._base import Calibrator, check_features, like
from likely.calibration._deep_network import FOLDS, few, fit_networks
from likely.calibration._held_out import contents, fold_numbers
from likely.calibration._inverse import LINK, fit_inverse_temperature, relative
from likely.calibration._temperature import finite


class DeepTemperature(Calibrator):
    r"""Deep Scaling (DS): a temperature a row from a small network, that falls back to Global Scaling.

    :math:`1/T_i = f(N(\tilde x_i)) / T_0`, relative to the fitted global temperature, where x are the features if
    ``fit`` is given any, else the logits. N has one hidden layer of tanh units and a last layer that starts at zero,
    which *is* Global Scaling. Five networks are trained at once, each on four fifths of the rows; the number of steps
    is the one of greatest gain on the fifths left out, less ``margin`` standard errors of it: zero where no gain is
    sure. The answer is the mean of the five. Same rows, same answer: the seed is fixed.

    >>> import numpy as np
    >>> from likely.calibration import DeepTemperature
    >>> rng = np.random.default_rng(0)
    >>> y, features = rng.integers(0, 3, 2000), rng.normal(size=(2000, 2))
    >>> noise = np.exp(np.abs(features[:, :1]))                     # no line through the features tells
    >>> logits = 3 * np.eye(3)[y] + noise * rng.normal(size=(2000, 3))
    >>> ds = DeepTemperature().fit(logits, y, features)
    >>> low, high = ds.temperature(logits[:2], np.array([[0.0, 0.0], [1.5, 0.0]]))
    >>> bool(high > 1.5 * low)
    True
    """

    def __init__(
        self,
        *,
        hidden: int = 32,
        max_iter: int = 500,
        lr: float = 0.003,
        margin: float = 2.0,
        random_state: int = 0,
        inputs: str = "logits",
    ) -> None:
        super().__init__(inputs=inputs)
        self.hidden = hidden
        self.max_iter = max_iter
        self.lr = lr
        self.margin = margin
        self.random_state = random_state

    def temperature(self, logits: Any, features: Any = None) -> Any:
        """The temperature of each row."""
        rows = self._rows(logits)
        extra = check_features(features, len(rows))
        parts = [self._temperature(rows[part], extra[part] if extra else None) for part in rows.blocks()]
        return like(torch.cat(parts), logits)

    def _fit(
        self, logits: Rows, y: NDArray[np.int64], features: Rows | None, weight: NDArray[np.float64] | None
    ) -> None:
        inverse = fit_inverse_temperature(logits, y, weight)
        self.global_temperature_ = 1 / inverse.value
        self.n_features_ = 0 if features is None else features.shape[1]
        source = logits if features is None else features
        weights = np.ones(len(y)) if weight is None else weight
        rows = few(len(y), max(logits.shape[1], source.shape[1]))
        x, z = finite(source[rows]), logits[rows]
        self.mean_, self.deviation_ = moments(Rows(x), weights[rows])
        labels = torch.as_tensor(y[rows]).to(z.device)

        def evaluate(u: Tensor) -> tuple[Tensor, Tensor]:
            return relative(z, labels, inverse.value, u)[:2]

        self.networks_ = fit_networks(
            self._standardised(x),
            evaluate,
            torch.as_tensor(weights[rows]),
            hidden=self.hidden,
            lr=self.lr,
            max_iter=self.max_iter if inverse.informed else 0,
            margin=self.margin,
            seed=self.random_state,
            folds=torch.as_tensor(fold_numbers(contents(Rows(x)), FOLDS, self.random_state, y[rows])),
        )
        self.n_iter_, self.gain_ = self.networks_.n_iter, self.networks_.gain

    def _calibrate(self, logits: Tensor, features: Tensor | None) -> Tensor:
        return logits / self._temperature(logits, features)[:, None]

    def _temperature(self, logits: Tensor, features: Tensor | None) -> Tensor:
        if self.n_features_ and (features is None or features.shape[1] != self.n_features_):
            raise ValueError(f"this calibrator was fitted with {self.n_features_} features: give them here too")
        if self.n_iter_ == 0:
            return logits.new_full((len(logits),), self.global_temperature_)
        source = features if self.n_features_ and features is not None else logits
        temperature: Tensor = self.global_temperature_ / LINK(self.networks_(self._standardised(source))).to(logits)
        return temperature

    def _standardised(self, source: Tensor) -> Tensor:
        mean, deviation = torch.as_tensor(self.mean_).to(source), torch.as_tensor(self.deviation_).to(source)
        return ((finite(source) - mean) / deviation).float()
