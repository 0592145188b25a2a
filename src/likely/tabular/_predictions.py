"""What stacks and networks share: answers that follow from predicted distributions."""

from abc import abstractmethod
from typing import Any

import numpy as np
import torch
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import check_array, column_or_1d
from torch.distributions import Distribution

from likely._rows.sources import by_blocks
from likely._typing import Array, Index, Values


class DistributionRegressor(RegressorMixin):
    """A regressor that predicts a distribution for every row."""

    @abstractmethod
    def predict_dist(self, X: Any) -> Distribution:
        """Predict the distribution of each row's target."""

    @by_blocks(per_row="y")
    def outlier_score(self, X: Any, y: Any) -> Array:
        """Score how poorly each target fits its row, by its negative log-likelihood (NLL).

        For training rows use ``outlier_scores_``, which are held-out scores.

        Args:
            X: table with the columns that :meth:`fit` was given, of shape (rows, columns).
            y: targets of shape (rows,), or (rows, targets) where the networks were fitted to several.

        Returns:
            Array of shape (rows,), the mean over targets; the higher, the worse the fit.
        """
        distribution = self.predict_dist(X)
        y = check_array(y, dtype=np.float64, ensure_2d=False, input_name="y")
        shape = tuple(distribution.batch_shape)
        if y.shape not in (shape, (*shape, 1)):
            raise ValueError(f"y must have the shape {shape} of the predictions; got {y.shape}")
        nll = -distribution.log_prob(torch.tensor(y.reshape(shape)))  # copied: a frame's columns are read-only
        return np.asarray(nll if nll.ndim == 1 else nll.mean(-1))


number_per_class = by_blocks(width=lambda classifier: len(classifier.classes_))


class ProbabilityClassifier(ClassifierMixin):
    """A classifier that predicts the probability of every class."""

    classes_: Values

    @abstractmethod
    def predict_proba(self, X: Any) -> Array:
        """Predict the probability of each class."""

    @by_blocks(dtype=lambda classifier: classifier.classes_.dtype)
    def predict(self, X: Any) -> Values:
        """Predict the most probable class of each row.

        Args:
            X: table with the columns that :meth:`fit` was given, of shape (rows, columns).

        Returns:
            Array of labels, of shape (rows,).
        """
        best = self.predict_proba(X).argmax(1)
        return self.classes_[best]

    @by_blocks(per_row="y")
    def outlier_score(self, X: Any, y: Any) -> Array:
        """Score how poorly each label fits its row: the higher, the more probable is another label.

        The score is the difference between the largest probability of another class and that of the label, plus a
        tenth of the logarithm of their ratio. For training rows use ``outlier_scores_``, which are held-out scores.

        Args:
            X: table with the columns that :meth:`fit` was given, of shape (rows, columns).
            y: labels of shape (rows,), from ``classes_``.

        Returns:
            Array of shape (rows,).

        Raises:
            ValueError: if y has a label that is not in ``classes_``.
        """
        proba = self.predict_proba(X)
        return odds_against(proba, self._encoded(column_or_1d(y)))

    def _learn_classes(self, y: Values, weight: Array) -> Index:
        """The codes of labels; a row whose class has no weight gets that of another."""
        self.classes_ = np.unique(y[weight > 0])
        if len(self.classes_) < 2:
            raise ValueError(f"Classifier can't train when only one class is present: {self.classes_.tolist()[0]!r}")
        return np.searchsorted(self.classes_, y).clip(max=len(self.classes_) - 1)

    def _encoded(self, y: Values) -> Index:
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(f"y has labels that are not among the classes {self.classes_}: {unknown}")
        return np.searchsorted(self.classes_, y)


def odds_against(proba: Array, labels: Index) -> Array:
    """Compare the most probable other class with the label.

    The score is the difference of their probabilities plus, to order those near zero or one, a tenth of the logarithm
    of their ratio.

    >>> import numpy as np
    >>> odds_against(np.array([[0.5, 0.5], [0.9, 0.1]]), np.array([0, 1])).round(2)
    array([0.  , 1.02])
    """
    proba, rows = proba.clip(min=np.finfo(np.float64).tiny), np.arange(len(labels))
    label = proba[rows, labels]
    others = proba.copy()
    others[rows, labels] = 0
    best = others.max(1)
    return best - label + 0.1 * np.log(best / label)
