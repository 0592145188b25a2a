"""PCA+S and AE+S: autoencoders whose scale is read off the row; rows that are hard to rebuild get a large one."""

import math
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_random_state
from torch import Tensor, nn
from torch.nn.utils import skip_init

from likely import paper
from likely._numerics.random import Seeded, generator
from likely._typing import Array, Mask
from likely.likelihoods import LIKELIHOODS, LikelihoodLoss
from likely.outliers._base import OutlierDetector, number_per_row
from likely.outliers._columns import RowGroups
from likely.outliers._left_out import as_of_all, left_out, weights_without
from likely.outliers.threshold import Contamination
from likely.parameters import Predicted

ERRORS = ("normal", "student_t", "robust")  # likelihoods of what a network misses
_CLIP_DEVIATIONS = 1e3  # of what a network reads
_EXTRA_NUMBERS = 30_000  # numbers of a step, beside those of two fits: then all fits take about as long as two
_GAP = 3.5  # the power of the number of rows by which networks overfit less


class _Stacked(nn.Module):
    """A linear layer for each of several members: (members, rows, inputs) to (members, rows, outputs)."""

    def __init__(self, inputs: int, outputs: int, members: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(members, outputs, inputs))
        self.bias = nn.Parameter(torch.empty(members, 1, outputs))

    def forward(self, x: Tensor) -> Tensor:
        """Each member's rows through its layer."""
        return torch.baddbmm(self.bias, x, self.weight.mT)


class _Dropout(nn.Module):
    """``nn.Dropout`` by the generator of the fit."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def forward(self, x: Tensor) -> Tensor:
        """In training, each value is zero with this probability, and the others are larger by as much."""
        if not self.training or not self.share:
            return x
        mask = torch.empty_like(x).bernoulli_(1 - self.share, generator=generator())
        return x * mask / max(1 - self.share, 1e-30)


def _linear(inputs: int, outputs: int, members: int | None) -> nn.Linear | _Stacked:
    """A layer that starts as ``nn.Linear`` does; one for each of several members, if that is a number."""
    bound = 1 / math.sqrt(inputs)
    return _drawn(inputs, outputs, members, bound, bound)


def _glorot(inputs: int, outputs: int, members: int | None) -> nn.Linear | _Stacked:
    """A layer with Glorot's weights and no bias to begin with."""
    return _drawn(inputs, outputs, members, math.sqrt(6 / (inputs + outputs)), 0.0)


@torch.no_grad()
def _drawn(inputs: int, outputs: int, members: int | None, weight: float, bias: float) -> nn.Linear | _Stacked:
    layer = skip_init(nn.Linear, inputs, outputs) if members is None else _Stacked(inputs, outputs, members)
    layer.weight.uniform_(-weight, weight, generator=generator())
    layer.bias.uniform_(-bias, bias, generator=generator())
    return layer


class Autoencoder(nn.Module):
    """An encoder, a decoder, and a likelihood of what is rebuilt with a scale that is read off the row."""

    def __init__(
        self, encoder: nn.Module, decoder: nn.Module, loss_fn: LikelihoodLoss, members: int | None = None
    ) -> None:
        super().__init__()
        self.encoder, self.decoder, self.loss_fn = encoder, decoder, loss_fn
        self.members = members  # how many networks are side by side; None for one without an axis of its own

    def rebuilt(self, x: Tensor) -> Tensor:
        """Rows through the code and back."""
        return self.decoder(self.encoder(x))

    def forward(self, x: Tensor, weight: Tensor) -> Tensor:
        """The mean NLL."""
        return self.loss_fn(self.rebuilt(x), x, features=x, sample_weight=weight)


@dataclass(eq=False, repr=False)
class ScaledDetector(OutlierDetector):
    """What PCA+S and AE+S share. Subclasses write ``_autoencoder``."""

    module_: Autoencoder = field(init=False)
    _long_tails = True

    n_components: int | None = None
    _: KW_ONLY
    likelihood: str = "normal"
    dimension: str = "feature"
    score_by: str = "nll"
    hidden: int = 32
    dropout: float = 0.2
    learning_rate: float = 1e-2
    batch_size: int = 512
    max_steps: int = 300
    contamination: Contamination = "auto"
    random_state: Any = None

    @number_per_row
    def scale(self, X: Any) -> Any:
        """Return the scale σ of each row; with one per feature, their geometric mean.

        Args:
            X: a table, shape (rows, features), of any kind that ``fit`` takes.

        Returns:
            Scales, one per row, of shape (rows,).
        """
        return np.exp(self._judged(self.module_, self._table(X))["scale"])

    def explain(self, X: Any) -> Any:
        """Return the squared error with which each feature is reconstructed, over its mean in training.

        Args:
            X: a table, shape (rows, features), of any kind that ``fit`` takes.

        Returns:
            Ratios of shape (rows, features), a frame for a frame; one is usual.
        """
        return super().explain(X)

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

    def _learn(self, table: Array, rows: RowGroups) -> tuple[Array, Array]:
        random = check_random_state(self.random_state)
        seed = int(random.randint(2**31 - 1))
        x, seen = self._shown(self.columns_.standard(table))
        value_weight = seen * rows.weight[:, None]
        # In an order that depends on their values alone, so that batches are the same however the rows come.
        order = np.argsort(rows.place, kind="stable")[np.count_nonzero(rows.place < 0) :]
        self.module_ = self._trained(x[order], value_weight[order], seed)
        judged = self._judged(self.module_, table)
        self._usual = (value_weight * judged["errors"]).sum(0) / np.maximum(value_weight.sum(0), 1e-12) + 1e-12
        fits = 2 + _EXTRA_NUMBERS // (min(self.batch_size, len(order)) * table.shape[1])
        out = left_out(rows, fits, np.random.RandomState(seed))
        without = self._trained(x[order], (seen * weights_without(rows, out)[:, :, None])[:, order], seed)
        fitted = judged[self.score_by]
        return fitted, as_of_all(self._judged(without, table)[self.score_by], out, fitted, _GAP)

    def _trained(self, x: Tensor, value_weight: Array, seed: int) -> Autoencoder:
        """A network in which values weigh so much, or one for each such table of weights; in double precision."""
        mass = torch.as_tensor(value_weight, dtype=torch.float32)
        several, size = mass.shape[:-2], min(self.batch_size, len(x))
        member = torch.arange(len(mass))[:, None] if several else slice(0)
        with Seeded(seed, all_draws=False):
            module = self._started(x, value_weight).train()
            optimizer = torch.optim.Adam(module.parameters(), lr=self.learning_rate, fused=True)
            for _ in range(self.max_steps):
                optimizer.zero_grad()
                if size < len(x):
                    rows = torch.randint(len(x), (*several, size), generator=generator())
                    loss = module(x[rows], mass[member, rows] if several else mass[rows])
                else:
                    loss = module(x.expand(*several, *x.shape), mass)
                loss.backward()
                optimizer.step()
        # In double precision a row's score does not depend on the rows beside it.
        return module.double().eval()

    def _started(self, x: Tensor, value_weight: Array) -> Autoencoder:
        """The autoencoder, or several side by side, before the first step."""
        width, members = x.shape[1], len(value_weight) if value_weight.ndim == 3 else None
        rows = x.double().numpy()
        squares = (rows * value_weight.max(-1, keepdims=True)).swapaxes(-1, -2) @ rows
        components = min(self.n_components or max(1, round(width**0.5)), width)
        encoder, decoder = self._autoencoder(squares, components, members)
        shape = () if self.dimension == "row" else (width,)
        outputs = 1 if self.dimension == "row" else width
        hidden, last = _glorot(width, self.hidden, members), _glorot(self.hidden, outputs, members)
        net = nn.Sequential(hidden, nn.ReLU(), last)
        scale = Predicted(width, shape, net=net, normalize=False, **paper.SCALE)
        loss_fn = LIKELIHOODS[self.likelihood].loss(scale=scale, validate_args=False)
        return Autoencoder(encoder, decoder, loss_fn, members)

    def _scores(self, table: Array) -> Array:
        return self._judged(self.module_, table)[self.score_by]

    def _contributions(self, table: Array) -> Array:
        return self._judged(self.module_, table)["errors"] / self._usual

    @torch.no_grad()
    def _judged(self, module: Autoencoder, table: Array) -> dict[str, Array]:
        """Of each row: log σ, the NLL per value, and the squared errors; by each of several networks side by side."""
        blocks = []
        for _, z in self.columns_.blocks(table):
            x, seen = self._shown(z)
            x = x.double()
            if module.members is not None:
                x = x.expand(module.members, *x.shape)
            rebuilt = module.rebuilt(x)
            phi = module.loss_fn.parameter_values(rebuilt, x)
            losses = LIKELIHOODS[self.likelihood].nll(rebuilt, x, **phi, reduction="none", validate_args=False)
            blocks.append(
                (
                    phi["scale"].log().reshape(*x.shape[:-1], -1).mean(-1).numpy(),
                    np.where(seen, losses.numpy(), 0.0).sum(-1) / np.maximum(seen.sum(-1), 1),
                    np.where(seen, (rebuilt - x).square().numpy(), 0.0),
                )
            )
        log_scale, nll, errors = zip(*blocks, strict=True)
        of_rows = {"scale": np.concatenate(log_scale, -1), "nll": np.concatenate(nll, -1)}
        return of_rows | {"errors": np.concatenate(errors, -2)}

    def _shown(self, z: Array) -> tuple[Tensor, Mask]:
        """What a network reads, and which values are there: those that are not are at the mean, and not counted."""
        seen = np.isfinite(z)
        categories = self.columns_.categories
        z[:, categories] -= self.columns_.usual
        clipped = np.where(seen, z, 0.0).clip(-_CLIP_DEVIATIONS, _CLIP_DEVIATIONS)
        return torch.as_tensor(clipped, dtype=torch.float32), seen


class ScaledPCADetector(ScaledDetector):
    r"""PCA+S: a linear autoencoder whose scale is predicted from the row.

    The residual :math:`r` of a row from the components has the negative log-likelihood
    :math:`r^2 / 2\sigma(x)^2 + \log\sigma(x)` per column, where a network with one hidden layer predicts
    :math:`\sigma` from the row. Rows with a large scale have less weight in the components. The components start from
    PCA in closed form, so that a few hundred steps on batches suffice, where the paper takes 4000 on all rows.

    Args:
        n_components: number of dimensions of the code; None for the rounded square root of the number of columns.
        likelihood: likelihood of the residuals: ``"normal"``, ``"student_t"`` or ``"robust"``.
        dimension: ``"feature"`` for one scale per column of a row, or ``"row"`` for one per row, as in the paper.
        score_by: score: ``"nll"``, the negative log-likelihood per value; or ``"scale"``, log σ, as in the paper.
        hidden: number of hidden units of the network that predicts the scale.
        dropout: share of inputs that are left out at each step.
        learning_rate: learning rate of Adam.
        batch_size: number of rows per step.
        max_steps: number of steps of Adam.
        contamination: share of new rows to call outliers, or ``"auto"``; the share of training rows may be lower.
        random_state: seed of the initial weights, the batches and dropout.

    Attributes:
        module_: the encoder, the decoder and the loss with its scale, as a torch module.
        offset_: the score (of ``score_samples``) below which a row is an outlier.

    >>> import numpy as np
    >>> from likely.outliers import ScaledPCADetector
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 1)) @ rng.normal(size=(1, 5)) + 0.1 * rng.normal(size=(500, 5))
    >>> X[:20] += 2 * rng.normal(size=(20, 5))
    >>> scores = ScaledPCADetector(max_steps=50, random_state=0).fit(X).outlier_score(X)
    >>> bool(np.median(scores[:20]) > np.quantile(scores[20:], 0.95))
    True
    """

    def _autoencoder(self, squares: Array, components: int, members: int | None) -> tuple[nn.Module, nn.Module]:
        width = squares.shape[-1]
        encoder, decoder = _linear(width, components, members), _linear(components, width, members)
        axes = torch.as_tensor(np.linalg.eigh(squares)[1][..., ::-1][..., :components].copy())
        with torch.no_grad():
            encoder.weight.copy_(axes.mT)
            decoder.weight.copy_(axes)
            encoder.bias.zero_()
            decoder.bias.zero_()
        return nn.Sequential(_Dropout(self.dropout), encoder), decoder


class ScaledAutoencoderDetector(ScaledDetector):
    r"""AE+S: an autoencoder whose scale is predicted from the row.

    As :class:`ScaledPCADetector`, with a hidden layer of ReLUs on both sides of the code.

    Args:
        n_components: number of dimensions of the code; None for the rounded square root of the number of columns.
        likelihood: likelihood of the residuals: ``"normal"``, ``"student_t"`` or ``"robust"``.
        dimension: ``"feature"`` for one scale per column of a row, or ``"row"`` for one per row, as in the paper.
        score_by: score: ``"nll"``, the negative log-likelihood per value; or ``"scale"``, log σ, as in the paper.
        hidden: number of units of each hidden layer, of the autoencoder and of the network that predicts the scale.
        dropout: share of the hidden units before the code that are left out at each step.
        learning_rate: learning rate of Adam.
        batch_size: number of rows per step.
        max_steps: number of steps of Adam.
        contamination: share of new rows to call outliers, or ``"auto"``; the share of training rows may be lower.
        random_state: seed of the initial weights, the batches and dropout.

    Attributes:
        module_: the encoder, the decoder and the loss with its scale, as a torch module.
        offset_: the score (of ``score_samples``) below which a row is an outlier.

    >>> import numpy as np
    >>> from likely.outliers import ScaledAutoencoderDetector
    >>> rng = np.random.default_rng(0)
    >>> t = rng.uniform(-2, 2, size=500)
    >>> X = np.column_stack([t, t**2, np.sin(t)]) + 0.1 * rng.normal(size=(500, 3))
    >>> X[:20] += 2 * rng.normal(size=(20, 3))
    >>> scores = ScaledAutoencoderDetector(max_steps=50, random_state=0).fit(X).outlier_score(X)
    >>> bool(np.median(scores[:20]) > np.quantile(scores[20:], 0.9))
    True
    """

    def _autoencoder(self, squares: Array, components: int, members: int | None) -> tuple[nn.Module, nn.Module]:
        width, layer = squares.shape[-1], partial(_linear, members=members)
        thinned = (nn.ReLU(), _Dropout(self.dropout), layer(self.hidden, components))
        encoder = nn.Sequential(layer(width, self.hidden), *thinned)
        decoder = nn.Sequential(layer(components, self.hidden), nn.ReLU(), layer(self.hidden, width))
        return encoder, decoder
