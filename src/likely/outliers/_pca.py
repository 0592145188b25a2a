"""PCA+S: principal components with a scale that is read off the row."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from likely._typing import Array
from likely.outliers._networks import Layers
from likely.outliers._scaled import ScaledDetector
from likely.outliers._threshold import Contamination


class ScaledPCADetector(ScaledDetector):
    r"""PCA+S: a linear autoencoder whose scale is predicted from the row.

    What the components leave of a row, :math:`r`, has the likelihood :math:`r^2 / 2\sigma(x)^2 + \log\sigma(x)` a
    column, where a network with one hidden layer reads :math:`\sigma` off the row. Rows with a large scale weigh less
    in the components. The components start from PCA in closed form, so a few hundred steps on batches do what 4000 on
    all rows did in the paper.

    Args:
        n_components: dimensions of the code; the rounded root of the number of columns if None.
        likelihood: ``"normal"``, ``"student_t"`` or ``"robust"``, of what is left.
        dimension: one scale for each ``"feature"`` of a row, or one for the whole ``"row"``, as in the paper.
        score_by: ``"nll"``, minus the log-likelihood, a value; or ``"scale"``, log σ, as in the paper.
        hidden: units of the network that predicts the scale.
        dropout: the share of inputs left out at each step.
        learning_rate: of Adam.
        batch_size: rows per step.
        max_steps: steps of Adam.
        contamination: the share of new rows to call outliers, or ``"auto"``; of the training rows it may be less.
        random_state: for the start of the network, the batches and dropout.

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

    def __init__(
        self,
        n_components: int | None = None,
        *,
        likelihood: str = "normal",
        dimension: str = "feature",
        score_by: str = "nll",
        hidden: int = 32,
        dropout: float = 0.2,
        learning_rate: float = 1e-2,
        batch_size: int = 512,
        max_steps: int = 300,
        contamination: Contamination = "auto",
        random_state: Any = None,
    ) -> None:
        super().__init__(
            n_components=n_components,
            likelihood=likelihood,
            dimension=dimension,
            score_by=score_by,
            hidden=hidden,
            dropout=dropout,
            learning_rate=learning_rate,
            batch_size=batch_size,
            max_steps=max_steps,
            contamination=contamination,
            random_state=random_state,
        )

    def _autoencoder(self, layers: Layers, squares: Array, components: int) -> tuple[nn.Module, nn.Module]:
        width = squares.shape[-1]
        encoder, decoder = layers.linear(width, components), layers.linear(components, width)
        axes = torch.as_tensor(np.linalg.eigh(squares)[1][..., ::-1][..., :components].copy())
        with torch.no_grad():
            encoder.weight.copy_(axes.mT)
            decoder.weight.copy_(axes)
            encoder.bias.zero_()
            decoder.bias.zero_()
        return nn.Sequential(layers.dropout(self.dropout), encoder), decoder
