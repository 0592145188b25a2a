"""Deep Scaling: a small network's scale a row, kept only as far as held-out rows agree with it."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from likely._rows.blocks import moments
from likely.calibration._deep_network import FOLDS, few, fit_networks
from likely.calibration._held_out import contents, fold_numbers
from likely.calibration._scale import LINK, Forecast, ScaleCalibrator, default_features


class DeepScale(ScaleCalibrator):
    r"""Deep Scaling (DS): a scale a row from a small network, that falls back to Global Scaling.

    :math:`\sigma_i' = c\,\sigma_i\,f(N(\tilde x_i))` with one hidden layer of tanh units and a last layer that starts
    at zero, which *is* Global Scaling. Five networks are trained at once, each on four fifths of the rows; the number
    of steps is the one of greatest gain on the fifths left out, less ``margin`` standard errors of it: zero where no
    gain is sure. The answer is the mean of the five. Same rows, same answer: the seed is fixed.

    >>> import numpy as np
    >>> from likely.calibration import DeepScale
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-2, 2, size=(1000, 1))
    >>> noise = 0.5 + x[:, 0] ** 2                               # no line can follow this
    >>> mean, y = np.zeros(1000), noise * rng.normal(size=1000)
    >>> ds = DeepScale(max_iter=200).fit(mean, None, y, features=x)
    >>> bool(np.corrcoef(ds.predict_scale(mean, None, features=x), noise)[0, 1] > 0.9)
    True
    """

    def __init__(
        self,
        *,
        hidden: int = 32,
        max_iter: int = 500,
        lr: float = 0.003,
        margin: float = 2.0,
        likelihood: str = "normal",
        random_state: int = 0,
    ) -> None:
        super().__init__(likelihood=likelihood)
        self.hidden = hidden
        self.max_iter = max_iter
        self.lr = lr
        self.margin = margin
        self.random_state = random_state

    def _fit(self, z: Tensor, forecast: Forecast, weight: NDArray[np.float64] | None) -> None:
        source, family = default_features(forecast), self._family
        weights = np.ones(len(source)) if weight is None else weight
        self.mean_, self.deviation_ = moments(source, weights)
        rows = few(len(source), max(self.hidden, source.shape[1]))
        own = z[rows].float()

        def evaluate(u: Tensor) -> tuple[Tensor, Tensor]:
            return family.relative(own, u)[:2]

        self.networks_ = fit_networks(
            self._standardised(forecast)[rows],
            evaluate,
            torch.as_tensor(weights[rows]),
            hidden=self.hidden,
            lr=self.lr,
            max_iter=self.max_iter,
            margin=self.margin,
            seed=self.random_state,
            folds=torch.as_tensor(fold_numbers(contents(source)[rows], FOLDS, self.random_state, own.cpu().numpy())),
        )
        self.n_iter_, self.gain_ = self.networks_.n_iter, self.networks_.gain

    def _standardised(self, forecast: Forecast) -> Tensor:
        source = self._source(forecast)
        x = source[slice(0, len(source))].double()
        return ((x - torch.as_tensor(self.mean_).to(x)) / torch.as_tensor(self.deviation_).to(x)).float()

    def _factor(self, forecast: Forecast) -> Tensor | float:
        x = self._standardised(forecast)
        if self.n_iter_ == 0:
            return 1.0
        factor: Tensor = LINK(self.networks_(x))
        return factor.to(forecast.mean)
