"""Autoencoders whose scale is read off the row: rows that are hard to rebuild get a large one."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from torch import Tensor, nn

from likely._typing import Array
from likely.likelihoods import LIKELIHOODS, LikelihoodLoss
from likely.outliers._base import OutlierDetector
from likely.outliers._distinct import Distinct
from likely.outliers._folds import as_of_all, left_out, weights_without
from likely.outliers._networks import Dropout, Layers, Stacked
from likely.outliers._threshold import Contamination
from likely.parameters import Predicted

ERRORS = ("normal", "student_t", "robust")  # likelihoods of what a network misses
_FAR = 1e3  # deviations: what a network is shown
_GAP = 3.5  # the power of the number of rows by which networks overfit less


class ScaledDetector(OutlierDetector):
    """What PCA+S and AE+S share. Subclasses write ``_autoencoder``."""

    module_: Autoencoder
    _long_tails = True

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
        return np.exp(self._judged(self.module_, self._table(X))[0])

    def explain(self, X: Any) -> Any:
        """The squared error with which each feature is rebuilt, over the mean in training: one is usual."""
        return super().explain(X)

    def _autoencoder(self, layers: Layers, squares: Array, components: int) -> tuple[nn.Module, nn.Module]:
        raise TypeError("use ScaledPCADetector or ScaledAutoencoderDetector")

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name, allowed in (
            ("likelihood", ERRORS),
            ("dimension", ("row", "feature")),
            ("score_by", ("scale", "nll")),
        ):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}; got {getattr(self, name)!r}")
        if self.n_components is not None and not (isinstance(self.n_components, Integral) and self.n_components >= 1):
            raise ValueError(f"n_components must be a positive integer or None, got {self.n_components!r}")

    def _learn(self, table: Array, rows: Distinct) -> tuple[Array, Array]:
        random = check_random_state(self.random_state)
        seed = int(random.randint(2**31 - 1))
        x, seen = self._shown(self.columns_.standard(table))
        own = seen * rows.weight[:, None]
        # In an order that depends on their values alone, so that batches are the same however the rows come.
        order = np.argsort(rows.place, kind="stable")[np.count_nonzero(rows.place < 0) :]
        self.module_ = self._trained(x[order], own[order], seed)
        log_scale, nll, errors = self._judged(self.module_, table)
        self._usual = (own * errors).sum(0) / np.maximum(own.sum(0), 1e-12) + 1e-12
        out = left_out(rows, min(self.batch_size, len(order)) * table.shape[1], np.random.RandomState(seed))
        without = self._trained(x[order], (seen * weights_without(rows, out)[:, :, None])[:, order], seed)
        which = 0 if self.score_by == "scale" else 1
        fitted = (log_scale, nll)[which]
        return fitted, as_of_all(self._judged(without, table)[which], out, fitted, _GAP)

    def _trained(self, x: Tensor, own: Array, seed: int) -> Autoencoder:
        """A network in which values weigh so much, or one for each such table of weights; in double precision.

        All that is random is drawn from one generator: torch's own is neither used nor changed.
        """
        generator = torch.Generator().manual_seed(seed)
        module = self._started(x, own, generator).train()
        mass = torch.as_tensor(own, dtype=torch.float32)
        several, size = mass.shape[:-2], min(self.batch_size, len(x))
        member = torch.arange(len(mass))[:, None] if several else slice(0)
        optimizer = torch.optim.Adam(module.parameters(), lr=self.learning_rate, fused=True)
        for _ in range(self.max_steps):
            optimizer.zero_grad()
            if size < len(x):
                rows = torch.randint(len(x), (*several, size), generator=generator)
                loss = module(x[rows], mass[member, rows] if several else mass[rows])
            else:
                loss = module(x.expand(*several, *x.shape), mass)
            loss.backward()
            optimizer.step()
        for own_layer in module.modules():
            if isinstance(own_layer, Dropout):
                own_layer.generator = None  # which cannot be saved
        # In double precision a row's score does not depend on the rows beside it.
        return module.double().eval()

    def _started(self, x: Tensor, own: Array, generator: torch.Generator) -> Autoencoder:
        """The autoencoder, or several side by side, before the first step."""
        width = x.shape[1]
        layers = Layers(generator, len(own) if own.ndim == 3 else None)
        rows = x.double().numpy()
        squares = (rows * own.max(-1, keepdims=True)).swapaxes(-1, -2) @ rows
        components = min(self.n_components or max(1, round(width**0.5)), width)
        encoder, decoder = self._autoencoder(layers, squares, components)
        shape = () if self.dimension == "row" else (width,)
        outputs = 1 if self.dimension == "row" else width
        net = nn.Sequential(layers.glorot(width, self.hidden), nn.ReLU(), layers.glorot(self.hidden, outputs))
        scale = Predicted(width, shape, net=net, normalize=False)
        return Autoencoder(encoder, decoder, LIKELIHOODS[self.likelihood].loss(scale=scale))

    def _scores(self, table: Array) -> Array:
        log_scale, nll, _ = self._judged(self.module_, table)
        return log_scale if self.score_by == "scale" else nll

    def _contributions(self, table: Array) -> Array:
        found: Array = self._judged(self.module_, table)[2] / self._usual
        return found

    @torch.no_grad()
    def _judged(self, module: Autoencoder, table: Array) -> tuple[Array, Array, Array]:
        """Of each row: log σ, the NLL per value, and the squared errors; by each of several networks side by side."""
        found = []
        for _, z in self.columns_.blocks(table):
            x, seen = self._shown(z)
            x = x.double()
            if module.members is not None:
                x = x.expand(module.members, *x.shape)
            rebuilt = module.rebuilt(x)
            scale: Tensor = module.loss_fn.scale(features=x)  # type: ignore[operator]
            each = module.loss_fn._nll(rebuilt, x, module.loss_fn._phi(rebuilt, x, None))
            found.append(
                (
                    scale.log().reshape(*x.shape[:-1], -1).mean(-1).numpy(),
                    np.where(seen, each.numpy(), 0.0).sum(-1) / np.maximum(seen.sum(-1), 1),
                    np.where(seen, (rebuilt - x).square().numpy(), 0.0),
                )
            )
        log_scale, nll, errors = zip(*found, strict=True)
        return np.concatenate(log_scale, -1), np.concatenate(nll, -1), np.concatenate(errors, -2)

    def _shown(self, z: Array) -> tuple[Tensor, NDArray[np.bool_]]:
        """What a network reads, and which values are there: those that are not are at the mean, and not counted."""
        seen = np.isfinite(z)
        words = self.columns_.categories
        z[:, words] -= self.columns_.usual
        return torch.as_tensor(np.where(seen, z, 0.0).clip(-_FAR, _FAR), dtype=torch.float32), seen


class Autoencoder(nn.Module):
    """An encoder, a decoder, and a likelihood of what is rebuilt with a scale that is read off the row."""

    def __init__(self, encoder: nn.Module, decoder: nn.Module, loss_fn: LikelihoodLoss) -> None:
        super().__init__()
        self.encoder, self.decoder, self.loss_fn = encoder, decoder, loss_fn

    @property
    def members(self) -> int | None:
        """How many networks are side by side; None for one without an axis of its own."""
        stacked = [own for own in self.modules() if isinstance(own, Stacked)]
        return len(stacked[0].weight) if stacked else None

    def rebuilt(self, x: Tensor) -> Tensor:
        """Rows through the code and back."""
        found: Tensor = self.decoder(self.encoder(x))
        return found

    def forward(self, x: Tensor, weight: Tensor) -> Tensor:
        """The mean NLL."""
        loss: Tensor = self.loss_fn(self.rebuilt(x), x, features=x, sample_weight=weight)
        return loss
