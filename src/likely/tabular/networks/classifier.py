"""A neural network classifier whose temperature depends on the row."""

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import torch
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data
from torch import Tensor

from likely._rows.sources import by_blocks
from likely._typing import Array, Floats, Values
from likely.tabular._predictions import ProbabilityClassifier, number_per_class, odds_against
from likely.tabular.networks.estimator import FLOATS, NetworkEstimator
from likely.tabular.networks.likelihood import NetworkLikelihood, Phi
from likely.tabular.networks.rows import TrainingRows


@dataclass(eq=False, repr=False)
class NetworkClassifier(ProbabilityClassifier, NetworkEstimator):
    r"""A neural network classifier with a learned temperature: :math:`p(y \mid x) = \mathrm{softmax}(z(x) / T(x))_y`.

    By default five networks are trained by cross-entropy, each without one fifth of the rows; each stops when the loss
    of its held-out rows stops falling, and the mean of their logits predicts. Then the temperature is learned from the
    held-out logits. It varies with the input by as much as the held-out gain exceeds its standard error.

    See also :class:`~likely.tabular.NetworkRegressor` for numeric targets,
    :class:`~likely.tabular.LikelihoodClassifier` for tables with categories and missing values, and
    :class:`likely.SoftmaxLoss`, the loss.

    Args:
        model: None is a multilayer perceptron (MLP); or an ``nn.Module`` that maps standardized inputs of shape
            (rows, inputs) to logits, or to ``(logits, features)``; or a function of (inputs, classes) that returns one.
        hidden: sizes of the hidden layers of the MLP; ``()`` is a linear model.
        objective: ``"two_stage"``, as above; ``"joint"``, the paper's, trains everything by one negative
            log-likelihood (NLL).
        cv: number of networks, each of which is trained without one fold; None trains one network on all rows for
            ``max_steps``.
        learning_rate: learning rate of AdamW.
        batch_size: rows per step; None takes all rows, as in the paper.
        max_steps: largest number of steps; training ends earlier when the held-out loss stops falling.
        device: torch device to train on, for example ``"cuda"``; None is the CPU.
        random_state: seed or generator; the same seed gives the same model.
        callbacks: functions that are called with a :class:`~likely.tabular.Progress`; training ends when one returns
            True.
        temperature: what the temperature depends on: ``"fixed"``, ``"global"`` (one value for all), ``"data"`` (one
            value per training row) or ``"predicted"`` (the input).

    Attributes:
        classes_: the labels, sorted, of shape (classes,).
        outlier_scores_: score of each training label, of shape (rows,), from networks that were trained without the
            row: the higher, the more likely the label is wrong.
        out_of_fold_: class probabilities of each training row, of shape (rows, classes), from networks that were
            trained without it.
        n_rows_read_: number of rows read: all of them, unless the table was not in memory.

    >>> import numpy as np
    >>> from likely.tabular import NetworkClassifier
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> model = NetworkClassifier(max_steps=100, random_state=0).fit(X, y)
    >>> model.predict_proba(X).shape, bool(model.score(X, y) > 0.95)
    ((178, 3), True)
    """

    _per_target = False

    _: KW_ONLY
    temperature: str = "predicted"

    @number_per_class
    def predict_proba(self, X: Any) -> Array:
        """Predict the probability of each class, the mean of the networks' probabilities.

        Args:
            X: table of shape (rows, inputs).

        Returns:
            Array of shape (rows, classes), in the order of ``classes_``.
        """
        logits, phi = self._components(X)
        return np.asarray(torch.softmax(logits / phi["temperature"][..., None], -1).mean(0), dtype=np.float64)

    @by_blocks()
    def predict_temperature(self, X: Any) -> Array:
        """Predict the temperature that divides each row's logits: high where labels are ambiguous or often wrong.

        Args:
            X: table of shape (rows, inputs).

        Returns:
            Array of shape (rows,).
        """
        _, phi = self._components(X)
        return np.asarray(phi["temperature"].mean(0), dtype=np.float64)

    def _likelihood(self) -> NetworkLikelihood:
        return NetworkLikelihood.of("softmax", "temperature", self.temperature)

    def _checked(self, X: Any, y: Any) -> tuple[Floats, Values]:
        X, y = validate_data(self, X, y, dtype=FLOATS, ensure_min_samples=2)
        check_classification_targets(y)
        return X, y

    def _goals(self, y: Values, weight: Array) -> tuple[Tensor, int]:
        return torch.as_tensor(self._learn_classes(y, weight)), len(self.classes_)

    def _out_of_fold(self, prediction: Tensor, phi: Phi) -> Array:
        return np.asarray(torch.softmax(prediction / phi["temperature"].expand(len(prediction))[:, None], -1))

    def _row_scores(self, rows: TrainingRows, nll: Array) -> Array:
        return odds_against(self.out_of_fold_, rows.y.cpu().numpy())
