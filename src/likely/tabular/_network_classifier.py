"""A classifier whose temperature depends on the row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data
from torch import Tensor

from likely._solvers.training import Progress
from likely._typing import Array
from likely.tabular._base import FLOATS, LikelihoodModel
from likely.tabular._by_blocks import by_blocks
from likely.tabular._likelihoods import Likelihood
from likely.tabular._rows import Rows, Units


class NetworkClassifier(ClassifierMixin, LikelihoodModel):
    r"""A network with a temperature that learns: :math:`p(y \mid x) = \mathrm{softmax}(z(x) / T(x))_y`.

    By default five networks are trained by cross-entropy, each blind to a fifth of the rows; they stop when the rows
    they have not seen stop gaining, and the mean of their logits predicts. Then the temperature is learned from the
    logits of rows that were left out, and varies with the input as far as left-out rows surely gain by it.

    Args:
        model: None for an MLP; an ``nn.Module`` that maps (rows, inputs) in standard units to predictions, or to
            ``(predictions, features)``; or a function of (inputs, outputs) that makes one.
        hidden: units of each hidden layer of the MLP; ``()`` is a linear model.
        temperature: what the temperature depends on: ``"fixed"``, ``"global"`` (one value for all), ``"data"`` (one
            value per training row) or ``"predicted"`` (the input).
        objective: ``"two_stage"``, as above; ``"joint"``, the paper's: everything at once down one NLL; ``"beta"``,
            that NLL tempered by β = .5; ``"faithful"``, the logits by cross-entropy, without the temperature.
        cv: number of networks, each of which is trained without one fold; None trains one network on all rows for
            ``max_steps``.
        ensemble: number of such models from different seeds, whose distributions are mixed; trained through joblib.
        optimizer: ``"adamw"``, ``"adam"``, ``"sgd"``, ``"rmsprop"`` or a class of ``torch.optim``.
        learning_rate: learning rate of the optimizer.
        weight_decay: weight decay of the optimizer.
        dropout: share of the hidden units dropped in training.
        batch_size: rows per step; None for all of them, as in the paper.
        max_steps: largest number of steps.
        patience: number of steps without a gain on the left-out rows after which training ends.
        device: where to train, for example ``"cuda"``.
        random_state: seed or generator; the same seed gives the same model.
        callbacks: functions of a :class:`~likely.tabular.Progress`; one that returns True ends the training.
        checkpoint: file from which a killed fit goes on when it is called again.
        n_jobs: number of members of an ensemble trained at once, as joblib counts.
        verbose: whether to draw a progress bar.

    Attributes:
        classes_: the labels.
        outlier_scores_: how much likelier another label would be than the one given, for every training row, by
            networks that have not seen it: the higher, the more likely the label is wrong.
        out_of_fold_: the class probabilities of every training row by networks that have not seen it.
        n_rows_read_: how many rows were read: all, but for a table that is not in memory.

    >>> import numpy as np
    >>> from likely.tabular import NetworkClassifier
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> model = NetworkClassifier(max_steps=100, random_state=0).fit(X, y)
    >>> model.predict_proba(X).shape, bool(model.score(X, y) > 0.95)
    ((178, 3), True)
    """

    _named: Any = None  # classes that a first part of the rows may lack

    def __init__(
        self,
        model: Any = None,
        *,
        hidden: Sequence[int] = (64, 64),
        temperature: str = "predicted",
        objective: str = "two_stage",
        cv: int | None = 5,
        ensemble: int | None = None,
        optimizer: Any = "adamw",
        learning_rate: float = 0.01,
        weight_decay: float = 0.1,
        dropout: float = 0.1,
        batch_size: int | None = 256,
        max_steps: int = 2000,
        patience: int = 150,
        device: Any = None,
        random_state: Any = None,
        callbacks: Sequence[Callable[[Progress], Any]] | None = None,
        checkpoint: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.model = model
        self.hidden = hidden
        self.temperature = temperature
        self.objective = objective
        self.cv = cv
        self.ensemble = ensemble
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.dropout = dropout
        self.batch_size = batch_size
        self.max_steps = max_steps
        self.patience = patience
        self.device = device
        self.random_state = random_state
        self.callbacks = callbacks
        self.checkpoint = checkpoint
        self.n_jobs = n_jobs
        self.verbose = verbose

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None, classes: Any = None) -> Self:
        """One pass over more rows; where the first of them lack some classes, ``classes`` names all."""
        self._named = classes
        try:
            return super().partial_fit(X, y, sample_weight)
        finally:
            self._named = None  # a later fit learns the classes from its own labels

    @by_blocks()
    def predict_proba(self, X: Any) -> Array:
        """The probability of each class; of several models their mean."""
        logits, phi = self._components(X)
        return np.asarray(torch.softmax(logits / phi["temperature"][..., None], -1).mean(0), dtype=np.float64)

    @by_blocks(dtype=lambda classifier: classifier.classes_.dtype)
    def predict(self, X: Any) -> NDArray[Any]:
        """The likeliest class of every row."""
        best = self.predict_proba(X).argmax(1)
        return self.classes_[best]

    @by_blocks()
    def predict_temperature(self, X: Any) -> Array:
        """What each row's logits are divided by: high where labels are hard to tell or often wrong."""
        _, phi = self._components(X)
        return np.asarray(phi["temperature"].mean(0), dtype=np.float64)

    @by_blocks(beside=("y",))
    def outlier_score(self, X: Any, y: Any) -> Array:
        """How much likelier another label would be: the higher, the less a label fits.

        For training rows see ``outlier_scores_``.
        """
        proba = self.predict_proba(X)
        return odds_against(proba, self._encoded(column_or_1d(y)))

    def _width(self, method: str, **_: Any) -> int | None:
        """How many numbers a method returns per row; None for one that has no axis of its own."""
        return len(self.classes_) if method == "predict_proba" else None

    def _likelihood(self) -> Likelihood:
        return Likelihood.of("softmax", temperature=self.temperature)

    def _encoded(self, y: NDArray[Any]) -> NDArray[np.intp]:
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(f"y has labels that are not among the classes {self.classes_}: {unknown}")
        return np.searchsorted(self.classes_, y)

    def _checked(self, X: Any, y: Any, *, reset: bool) -> tuple[NDArray[np.floating], NDArray[Any]]:
        X, y = validate_data(self, X, y, reset=reset, dtype=FLOATS, ensure_min_samples=1 + reset)
        check_classification_targets(y)
        if reset:
            self.classes_ = np.unique(y if self._named is None else self._named)
            if len(self.classes_) < 2:
                raise ValueError(f"Classifier can't train when only one class is present: {self.classes_[0]!r}")
        return X, y

    def _rows(self, X: NDArray[np.floating], y: NDArray[Any], weight: Array, *, reset: bool) -> Rows:
        if reset:
            self.units_ = Units.standard(X, weight)
        device = torch.device(self.device or "cpu")
        labels = torch.as_tensor(self._encoded(y), device=device)
        own = torch.as_tensor(weight, dtype=torch.float32, device=device)
        return Rows(self.units_.inputs(X, device), labels, own, len(self.classes_))

    def _out_of_fold(self, prediction: Tensor, phi: dict[str, Tensor]) -> Array:
        return np.asarray(torch.softmax(prediction / phi["temperature"].expand(len(prediction))[:, None], -1))

    def _row_scores(self, rows: Rows, nll: Array) -> Array:
        return odds_against(self.out_of_fold_, rows.y.cpu().numpy())

    def _phi_shape(self, prediction: Tensor) -> torch.Size:
        return prediction.shape[:-1]


def odds_against(proba: Array, labels: NDArray[np.intp]) -> Array:
    """The best other class against the one given.

    The difference of their probabilities and, to order those that are nearly zero or one, a tenth of their log-odds.

    >>> import numpy as np
    >>> odds_against(np.array([[0.5, 0.5], [0.9, 0.1]]), np.array([0, 1])).round(2)
    array([0.  , 1.02])
    """
    proba, rows = proba.clip(min=np.finfo(np.float64).tiny), np.arange(len(labels))
    own = proba[rows, labels]
    others = proba.copy()
    others[rows, labels] = 0
    best = others.max(1)
    return best - own + 0.1 * np.log(best / own)
