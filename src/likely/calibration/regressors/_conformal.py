"""Intervals with a finite-sample guarantee, by split conformal prediction (with crepes)."""

from __future__ import annotations

import importlib
import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import train_test_split
from sklearn.utils import _safe_indexing, check_random_state, get_tags, indexable
from sklearn.utils.validation import assert_all_finite, check_is_fitted, column_or_1d

from likely._rows.checks import all_or_nothing
from likely._rows.contents import mixed, row_keys
from likely._typing import Array, Index
from likely.calibration._estimator import by_blocks_or_texts, refuse_to_fit
from likely.calibration.regressors._regressor import mean_and_scale


@dataclass(eq=False, repr=False)
class ConformalRegressor(RegressorMixin, MetaEstimatorMixin, BaseEstimator):
    """A regressor whose intervals cover new rows at least as often as stated, by split conformal prediction.

    Some rows are held back from the estimator and rank its errors, each in units of the predicted scale where the
    estimator has one, as a :class:`CalibratedRegressor` does. For exchangeable rows an interval of coverage p then
    holds the target with probability p or more. This holds on average over rows; where errors differ between rows, the
    scale adapts the width. A fitted estimator (``FrozenEstimator``) is not changed, and all rows given to ``fit``,
    which must be new to it, rank its errors. Needs crepes: ``pip install likely[conformal]``.

    Args:
        estimator: the regressor.
        calibration_size: share of the rows that is held back, in (0, 1).
        random_state: seed for choosing these rows.

    Attributes:
        estimator_: the fitted estimator.
        conformal_: the fitted ``crepes.ConformalRegressor``.
        n_calibration_: number of rows that rank the errors.

    Example:
        >>> import numpy as np
        >>> from sklearn.linear_model import Ridge
        >>> from likely.calibration import CalibratedRegressor, ConformalRegressor
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(2000, 2))
        >>> y = X[:, 0] + rng.standard_t(3, size=2000)
        >>> model = ConformalRegressor(CalibratedRegressor(Ridge())).fit(X[:1000], y[:1000])  # doctest: +SKIP
        >>> lower, upper = model.predict_interval(X[1000:], coverage=0.9)                     # doctest: +SKIP

    See Also:
        :class:`CalibratedRegressor`, with whole distributions.
    """

    estimator: Any
    _: KW_ONLY
    calibration_size: float = 0.25
    random_state: Any = 0

    @all_or_nothing
    def fit(self, X: Any, y: Any) -> Self:
        """Fit the estimator on most rows and rank its errors on the rest.

        Args:
            X: table of shape (n, d), of any kind that the estimator takes.
            y: targets of shape (n,).

        Returns:
            The fitted estimator itself.

        Raises:
            ImportError: crepes is not installed.
            TypeError: X is not in memory.
        """
        refuse_to_fit(X)
        crepes = _crepes()
        y = column_or_1d(y, warn=True)
        assert_all_finite(y, input_name="y")
        if isinstance(self.estimator, FrozenEstimator):
            check_is_fitted(self.estimator)
            self.estimator_, rest, target = self.estimator, X, y
        else:
            order = self._by_content(X, y)
            train, ranking = train_test_split(order, test_size=self.calibration_size, shuffle=False)
            self.estimator_ = clone(self.estimator).fit(_safe_indexing(X, train), y[train])
            rest, target = _safe_indexing(X, ranking), y[ranking]
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        mean, scale = mean_and_scale(self.estimator_, rest)
        self.n_calibration_ = len(target)
        self.conformal_ = crepes.ConformalRegressor().fit(target - mean, sigmas=scale)
        return self

    def _by_content(self, X: Any, y: NDArray[Any]) -> Index:
        """Return the rows in an order that depends on ``random_state`` and their contents only."""
        X, y = indexable(X, y)
        seed = check_random_state(self.random_state).randint(2**31)
        return np.lexsort((y, mixed(row_keys(X) ^ np.uint64(seed))))

    @by_blocks_or_texts()
    def predict(self, X: Any) -> Any:
        """Return the estimator's prediction.

        Args:
            X: table of shape (n, d), of any kind that the estimator takes, or in blocks: the path of files, or a Dask
                table.

        Returns:
            Array of shape (n,).
        """
        check_is_fitted(self)
        return self.estimator_.predict(X)

    @by_blocks_or_texts(arrays=lambda **_: 2)
    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[Array, Array]:
        """Return intervals that hold at least a share ``coverage`` of new targets, on average.

        Args:
            X: table of shape (n, d), of any kind that the estimator takes, or in blocks: the path of files, or a Dask
                table.
            coverage: guaranteed share, in (0, 1).

        Returns:
            Lower and upper ends, arrays of shape (n,).

        Raises:
            ValueError: there are too few calibration rows for this coverage.
        """
        check_is_fitted(self)
        if not 0 < coverage < 1:
            raise ValueError(f"coverage must be between 0 and 1, got {coverage}")
        needed = int(np.ceil(coverage / (1 - coverage) - 1e-9))
        if self.n_calibration_ < needed:
            raise ValueError(
                f"a guarantee of {coverage:g} needs {needed} calibration rows or more, there are {self.n_calibration_}"
            )
        mean, scale = mean_and_scale(self.estimator_, X)
        ends = self.conformal_.predict_int(mean, sigmas=scale, confidence=coverage)
        return ends[:, 0], ends[:, 1]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        return tags


def _crepes() -> Any:
    try:
        # Importing crepes enables every UserWarning of the process; this restores the filters.
        with warnings.catch_warnings():
            return importlib.import_module("crepes")
    except ImportError as error:
        raise ImportError("ConformalRegressor needs crepes: pip install likely[conformal]") from error
