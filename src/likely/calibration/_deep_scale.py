"""Deep Scaling: a small network's scale a row, kept only as far as held-out rows agree with it."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from likely._evidence import moments
from likely.calibration._scale import Forecast, ScaleCalibrator, default_features
from likely.constraints import ShiftedSoftplus

_LINK = ShiftedSoftplus(0.2)
_FOLDS = 5


class DeepScale(ScaleCalibrator):
    r"""Deep Scaling (DS): a scale a row from a small network, that falls back to Global Scaling.

    :math:`\sigma_i' = c\,\sigma_i\,f(N(\tilde x_i))` with one hidden layer of tanh units and a last layer that starts
    at zero, which *is* Global Scaling. Five networks are trained at once, each on four fifths of the rows; the number
    of steps is the one of lowest NLL on the fifths left out, zero unless it beats Global Scaling by ``margin`` standard
    errors of the paired difference. The answer is the mean of the five. Same rows, same answer: the seed is fixed.

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
        margin: float = 1.0,
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
        source = default_features(forecast)
        n, d = source.shape
        self.mean_, self.deviation_ = moments(source, np.ones(n) if weight is None else weight)
        x = self._standardised(forecast)
        rng = torch.Generator().manual_seed(self.random_state)
        folds = torch.randperm(n, generator=rng) % _FOLDS
        weights = torch.ones(n) if weight is None else torch.as_tensor(weight, dtype=torch.float32)
        out = (torch.arange(_FOLDS)[:, None] == folds).float() * weights  # a row's weight where it is left out
        kept = weights - out
        own = z.float().cpu()
        layers = [
            torch.randn(_FOLDS, d, self.hidden, generator=rng) / math.sqrt(d),
            torch.randn(_FOLDS, 1, self.hidden, generator=rng),
            torch.zeros(_FOLDS, self.hidden, 1),
            torch.zeros(_FOLDS, 1, 1),
        ]
        self.layers_, self.n_iter_ = self._train(layers, x, own, kept, out)
        u = _network(self.layers_, x)
        self.range_ = (float(u.min()), float(u.max()))

    def _train(self, layers: list[Tensor], x: Tensor, z: Tensor, kept: Tensor, out: Tensor) -> tuple[list[Tensor], int]:
        """The layers after the best number of steps, and that number."""
        layers = [layer.requires_grad_() for layer in layers]
        optimizer = torch.optim.Adam(layers, lr=self.lr)
        start, best, best_step, answer = None, math.inf, 0, [layer.detach().clone() for layer in layers]
        worst_wait = max(20, self.max_iter // 5)
        with torch.enable_grad():
            for step in range(self.max_iter + 1):
                factor = _LINK(_network(layers, x, each=True))
                nll = self._family.nll(
                    torch.zeros_like(factor), z.expand_as(factor), scale=factor, reduction="none", validate_args=False
                )
                held = (nll.detach() * out).sum(0)
                start = held if start is None else start
                if float(held.sum()) < best:
                    best, best_step, gain = float(held.sum()), step, start - held
                    answer = [layer.detach().clone() for layer in layers]
                if step - best_step > worst_wait:
                    break
                optimizer.zero_grad()
                ((nll * kept).sum() / kept.sum()).backward()
                optimizer.step()
        # In standard errors of the paired difference to Global Scaling.
        self.gain_ = float(gain.sum()) / max(float(gain.std(correction=0)) * math.sqrt(len(gain)), 1e-30)
        if self.gain_ <= self.margin:
            return answer, 0
        return answer, best_step

    def _standardised(self, forecast: Forecast) -> Tensor:
        source = default_features(forecast)
        if source.shape[1] != len(self.mean_):
            raise ValueError(f"features have {source.shape[1]} columns, the fit had {len(self.mean_)}")
        x = source[slice(0, len(source))].double().cpu()
        return ((x - torch.as_tensor(self.mean_)) / torch.as_tensor(self.deviation_)).float()

    def _factor(self, forecast: Forecast) -> Tensor | float:
        x = self._standardised(forecast)
        if self.n_iter_ == 0:
            return 1.0
        with torch.no_grad():
            factor: Tensor = _LINK(_network(self.layers_, x).clamp(*self.range_))
        return factor.to(forecast.mean)


def _network(layers: list[Tensor], x: Tensor, each: bool = False) -> Tensor:
    first, shift, last, bias = layers
    u = (torch.tanh(x @ first + shift) @ last + bias)[..., 0]
    return u if each else u.mean(0)
