"""A temperature a row from a small network, on a leash."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from torch import Tensor

from likely._evidence import Rows, moments
from likely.calibration._base import Calibrator, check_features, like
from likely.calibration._temperature import fit_inverse_temperature
from likely.constraints import ShiftedSoftplus
from likely.functional import softmax_nll

Layers = list[tuple[Tensor, Tensor]]
_LINK = ShiftedSoftplus(0.2)


class DeepTemperature(Calibrator):
    r"""Deep Scaling (DS): a temperature a row from a ReLU network that has to earn its keep.

    :math:`1/T_i = f(\mathrm{net}(\tilde x_i)) / T_0`, relative to the fitted global temperature, where x are the
    features if ``fit`` is given any, else the logits. The last layer starts at zero, so training starts at Global
    Scaling; it stops where a held-out fifth of the rows stops gaining. A gain there of less than ``guard`` standard
    errors is taken for luck, and the answer is Global Scaling exactly.

    >>> import numpy as np
    >>> from likely.calibration import DeepTemperature
    >>> rng = np.random.default_rng(0)
    >>> y, features = rng.integers(0, 3, 4000), rng.normal(size=(4000, 2))
    >>> noise = np.exp(np.abs(features[:, :1]))                     # no line through the features tells
    >>> logits = 3 * np.eye(3)[y] + noise * rng.normal(size=(4000, 3))
    >>> ds = DeepTemperature(random_state=0).fit(logits, y, features)
    >>> low, high = ds.temperature(logits[:2], np.array([[0.0, 0.0], [1.5, 0.0]]))
    >>> bool(high > 1.5 * low)
    True
    """

    def __init__(
        self,
        *,
        hidden: tuple[int, ...] = (32,),
        lr: float = 1e-2,
        weight_decay: float = 1e-2,
        max_iter: int = 400,
        patience: int = 40,
        batch_size: int = 1024,
        guard: float = 3.0,
        random_state: Any = None,
        inputs: str = "logits",
    ) -> None:
        super().__init__(inputs=inputs)
        self.hidden = hidden
        self.lr = lr
        self.weight_decay = weight_decay
        self.max_iter = max_iter
        self.patience = patience
        self.batch_size = batch_size
        self.guard = guard
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
        random = check_random_state(self.random_state)
        inverse = fit_inverse_temperature(logits, y, weight)
        self.global_temperature_ = 1 / inverse
        self.n_features_ = 0 if features is None else features.shape[1]
        source = logits if features is None else features
        # -∞ says a class is out, not how hard the row is.
        self.mean_, self.deviation_ = moments(_Finite(source), np.ones(len(y)) if weight is None else weight)
        weights = torch.ones(len(y)) if weight is None else torch.as_tensor(weight, dtype=torch.float32)
        labels = torch.as_tensor(y)
        order = random.permutation(len(y))
        held, kept = np.sort(order[: len(y) // 5]), order[len(y) // 5 :]
        self.layers_: list[tuple[NDArray[np.float32], NDArray[np.float32]]] = []
        self.n_iter_ = 0
        if len(held) < 2:
            return

        def losses(layers: Layers, rows: NDArray[np.int64]) -> Tensor:
            z = _take(logits, rows) * inverse
            u = self._forward(layers, self._standardised(_take(source, rows))).to(z)
            own = labels[rows].to(z.device)
            return softmax_nll(z, own, temperature=1 / _LINK(u), reduction="none") * weights[rows].to(z)

        layers = self._start(random, source)
        optimizer = torch.optim.AdamW([p for pair in layers for p in pair], lr=self.lr, weight_decay=self.weight_decay)
        start = losses(layers, held).detach()
        best = start.mean()
        saved, since = [(w.detach().clone(), b.detach().clone()) for w, b in layers], 0
        for iteration in range(1, self.max_iter + 1):
            self.n_iter_ = iteration
            batch = kept if len(kept) <= self.batch_size else random.choice(kept, self.batch_size, replace=False)
            optimizer.zero_grad()
            losses(layers, batch).mean().backward()
            optimizer.step()
            with torch.no_grad():
                now = losses(layers, held).mean()
            since += 1
            if now < best:
                best, since = now, 0
                saved = [(w.detach().clone(), b.detach().clone()) for w, b in layers]
            if since >= self.patience:
                break
        gain = start - losses(saved, held)
        if float(gain.mean()) > self.guard * float(gain.std()) / len(held) ** 0.5:
            self.layers_ = [(w.cpu().numpy(), b.cpu().numpy()) for w, b in saved]

    def _calibrate(self, logits: Tensor, features: Tensor | None) -> Tensor:
        return logits / self._temperature(logits, features)[:, None]

    def _temperature(self, logits: Tensor, features: Tensor | None) -> Tensor:
        if self.n_features_ and (features is None or features.shape[1] != self.n_features_):
            raise ValueError(f"this calibrator was fitted with {self.n_features_} features: give them here too")
        if not self.layers_:
            return logits.new_full((len(logits),), self.global_temperature_)
        source = features if self.n_features_ and features is not None else logits
        layers = [(torch.as_tensor(w).to(source.device), torch.as_tensor(b).to(source.device)) for w, b in self.layers_]
        u = self._forward(layers, self._standardised(source))
        temperature: Tensor = self.global_temperature_ / _LINK(u).to(logits)
        return temperature

    def _standardised(self, source: Tensor) -> Tensor:
        mean, deviation = torch.as_tensor(self.mean_).to(source), torch.as_tensor(self.deviation_).to(source)
        return ((_finite(source) - mean) / deviation).float()

    def _forward(self, layers: Layers, x: Tensor) -> Tensor:
        for weight, bias in layers[:-1]:
            x = torch.relu(x @ weight + bias)
        weight, bias = layers[-1]
        u: Tensor = (x @ weight + bias)[:, 0]
        return u

    def _start(self, random: Any, source: Rows) -> Layers:
        widths = [source.shape[1], *self.hidden, 1]
        layers: Layers = []
        for fan_in, fan_out in pairwise(widths):
            scale = 0.0 if fan_out == 1 and len(layers) == len(self.hidden) else (2 / fan_in) ** 0.5
            weight = torch.as_tensor(scale * random.standard_normal((fan_in, fan_out)), dtype=torch.float32)
            layers.append((weight.to(source.device), torch.zeros(fan_out, device=source.device)))
        return [(w.requires_grad_(), b.requires_grad_()) for w, b in layers]


class _Finite(Rows):
    """Rows whose -∞ have been replaced."""

    def __init__(self, rows: Rows) -> None:
        self.rows, self.shape, self.device = rows, rows.shape, rows.device

    def __getitem__(self, part: slice) -> Tensor:
        return _finite(self.rows[part])


def _finite(source: Tensor) -> Tensor:
    lowest = source.masked_fill(source == -torch.inf, torch.inf).amin(1, keepdim=True)
    return torch.maximum(source, lowest)


def _take(rows: Rows, index: NDArray[np.int64]) -> Tensor:
    return rows[index]  # type: ignore[index]
