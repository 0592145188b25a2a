"""Importances of columns, for the mean and for the scale, by shuffling one column at a time among rows."""

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import check_scalar
from sklearn.utils.validation import check_is_fitted

from likely._rows.columns import is_frame
from likely._typing import Array


@dataclass(frozen=True)
class Importances:
    """How much the predictions change when one column is shuffled among the rows.

    Returned by ``importances`` of :class:`~likely.tabular.LikelihoodRegressor` and
    :class:`~likely.tabular.LikelihoodClassifier`.

    Args:
        columns: names of the columns; ``"x0"``, ``"x1"`` … where the table had none.
        mean: root mean square change of the predicted mean, of shape (columns,), in standard deviations of the
            predicted means; for a classifier, the change of its probabilities.
        scale: root mean square change of the logarithm of the predicted scale, of shape (columns,); for a classifier,
            of the logarithm of the odds against the most probable class.

    >>> import numpy as np
    >>> from likely.tabular import LikelihoodRegressor
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> importances = LikelihoodRegressor("linear", random_state=0).fit(X, 3 * X[:, 1]).importances()
    >>> importances.columns[importances.mean.argmax()]
    'x1'
    """

    columns: tuple[str, ...]
    mean: Array
    scale: Array

    def to_frame(self) -> Any:
        """Convert to a pandas frame.

        Returns:
            A frame with the columns ``mean`` and ``scale``, one row per column of the table, sorted by ``mean``,
            largest first.
        """
        import pandas as pd

        frame = pd.DataFrame({"mean": self.mean, "scale": self.scale}, index=list(self.columns))
        return frame.sort_values("mean", ascending=False)


def importances(estimator: Any, X: Any, n_repeats: int) -> Importances:
    """Shuffle one column after the other, and measure how much the predictions change."""
    check_is_fitted(estimator)
    check_scalar(n_repeats, "n_repeats", Integral, min_val=1)
    X = estimator._sample if X is None else estimator._checked(X)
    names = [str(name) for name in X.columns] if is_frame(X) else [f"x{position}" for position in range(X.shape[1])]
    location, log_scale = estimator._location_and_log_scale(X)
    spread = np.sqrt(np.mean(np.square(location - location.mean(0)))) or 1.0
    random = np.random.RandomState(0)
    changes = np.zeros((2, len(names)))
    for position in range(len(names)):
        for _ in range(n_repeats):
            moved, stretched = estimator._location_and_log_scale(_shuffled(X, position, random))
            changes[0, position] += np.sqrt(np.mean(np.square(moved - location))) / spread / n_repeats
            changes[1, position] += np.sqrt(np.mean(np.square(stretched - log_scale))) / n_repeats
    return Importances(tuple(names), changes[0], changes[1])


def _shuffled(X: Any, position: int, random: np.random.RandomState) -> Any:
    order = random.permutation(len(X))
    if not is_frame(X):
        moved = X.copy()
        moved[:, position] = X[order, position]
        return moved
    name = X.columns[position]
    if hasattr(X, "iloc"):
        moved = X.copy()
        moved.isetitem(position, X.iloc[order, position].array)
        return moved
    return X.with_columns(X[name][order.tolist()].alias(name))
