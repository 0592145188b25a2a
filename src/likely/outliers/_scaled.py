"""Autoencoders whose scale is read off the row: rows that are hard to rebuild get a large one."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_random_state
from torch import Tensor, nn

from likely._training import train
from likely.losses import LikelihoodLoss, NormalLoss, RobustLoss, StudentTLoss
from likely.outliers._base import Contamination, OutlierDetector
from likely.outliers._columns import Array
from likely.parameters import Predicted

LIKELIHOODS: dict[str, type[LikelihoodLoss]] = {"normal": NormalLoss, "student_t": StudentTLoss, "robust": RobustLoss}
_FAR = 1e3  # deviations: what a network is shown


class ScaledDetector(OutlierDetector):
    """What PCA+S and AE+S share. Subclasses write ``_autoencoder(rows, components)``."""

    module_: Autoencoder

    def __init__(
        self,
        *,
        n_components: int | None,
        likelihood: str,
        dimension: str,
        score_by: str,
        hidden: int,
        dropout: float,
        learning_rate: float,
        batch_size: int,
        max_steps: int,
        contamination: Contamination,
        random_state: Any,
    ) -> None:
        super().__init__(contamination=contamination)
        self.n_components = n_components
        self.likelihood = likelihood
        self.dimension = dimension
        self.score_by = score_by
        self.hidden = hidden
        self.dropout = dropout
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_steps = max_steps
        self.random_state = random_state

    def scale(self, X: Any) -> Any:
        """σ of each row; with one for each feature, their geometric mean."""
        return np.exp(self._judged(self._table(X))[0])

    def explain(self, X: Any) -> Any:
        """The squared error with which each feature is rebuilt, over the mean in training: one is usual."""
        return super().explain(X)

    def _autoencoder(self, rows: Array, components: int) -> tuple[nn.Module, nn.Module]:
        raise TypeError("use ScaledPCADetector or ScaledAutoencoderDetector")

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name, allowed in (
            ("likelihood", LIKELIHOODS),
            ("dimension", ("row", "feature")),
            ("score_by", ("scale", "nll")),
        ):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}; got {getattr(self, name)!r}")
        if self.n_components is not None and not (isinstance(self.n_components, Integral) and self.n_components >= 1):
            raise ValueError(f"n_components must be a positive integer or None, got {self.n_components!r}")

    def _learn(self, table: Array, weight: Array | None) -> Array:
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        z = self.columns_.standard(table)
        width = z.shape[1]
        seen = np.isfinite(z)
        components = min(self.n_components or max(1, round(width**0.5)), width)
        own = seen * (1.0 if weight is None else weight[:, None])
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            encoder, decoder = self._autoencoder(_shown(z).double().numpy(), components)
            shape = () if self.dimension == "row" else (width,)
            scale = Predicted(width, shape, hidden=(self.hidden,), normalize=False)
            loss_fn = LIKELIHOODS[self.likelihood](scale=scale)
            self.module_ = Autoencoder(encoder, decoder, loss_fn)
        x, mass = _shown(z), torch.as_tensor(own, dtype=torch.float32)
        size = min(self.batch_size, len(x))

        def loss(step: int) -> Tensor:
            rows = torch.randint(len(x), (size,)) if size < len(x) else slice(None)
            value: Tensor = self.module_(x[rows], mass[rows])
            return value

        optimizer = torch.optim.Adam(self.module_.parameters(), lr=self.learning_rate, fused=True)
        train(loss, self.module_.train(), optimizer, max_steps=self.max_steps, seed=seed)
        # In double precision a row's score does not depend on the rows beside it.
        self.module_.double().eval()
        log_scale, nll, errors = self._judged(table)
        self._usual = (own * errors).sum(0) / np.maximum(own.sum(0), 1e-12) + 1e-12
        return log_scale if self.score_by == "scale" else nll

    def _scores(self, table: Array) -> Array:
        log_scale, nll, _ = self._judged(table)
        return log_scale if self.score_by == "scale" else nll

    def _contributions(self, table: Array) -> Array:
        found: Array = self._judged(table)[2] / self._usual
        return found

    @torch.no_grad()
    def _judged(self, table: Array) -> tuple[Array, Array, Array]:
        """Of each row: log σ, the NLL a value, and the squared errors."""
        log_scale, nll, errors = np.empty(len(table)), np.empty(len(table)), np.empty((len(table), self._width))
        for rows, z in self.columns_.blocks(table):
            x, seen = _shown(z).double(), np.isfinite(z)
            rebuilt = self.module_.rebuilt(x)
            loss_fn = self.module_.loss_fn
            scale: Tensor = loss_fn.scale(features=x)  # type: ignore[operator]
            each, _ = loss_fn._elementwise(rebuilt, x, x, None)
            counted = np.maximum(seen.sum(1), 1)
            log_scale[rows] = scale.log().reshape(len(x), -1).mean(1).numpy()
            nll[rows] = np.where(seen, each.numpy(), 0.0).sum(1) / counted
            errors[rows] = np.where(seen, (rebuilt - x).square().numpy(), 0.0)
        return log_scale, nll, errors

    @property
    def _width(self) -> int:
        return len(self.columns_.owner)


class Autoencoder(nn.Module):
    """An encoder, a decoder, and a likelihood of what is rebuilt with a scale that is read off the row."""

    def __init__(self, encoder: nn.Module, decoder: nn.Module, loss_fn: LikelihoodLoss) -> None:
        super().__init__()
        self.encoder, self.decoder, self.loss_fn = encoder, decoder, loss_fn

    def rebuilt(self, x: Tensor) -> Tensor:
        """Rows through the code and back."""
        found: Tensor = self.decoder(self.encoder(x))
        return found

    def forward(self, x: Tensor, weight: Tensor) -> Tensor:
        """The mean NLL."""
        loss: Tensor = self.loss_fn(self.rebuilt(x), x, features=x, sample_weight=weight)
        return loss


def _shown(z: Array) -> Tensor:
    """Missing values are at the mean, which is zero; the loss does not count them."""
    return torch.as_tensor(np.nan_to_num(z).clip(-_FAR, _FAR), dtype=torch.float32)
