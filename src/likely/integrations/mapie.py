"""Conformal intervals by MAPIE whose width is proportional to the predicted scale.

Classifiers need no adapter: MAPIE takes a fitted :class:`likely.tabular.NetworkClassifier` or
:class:`likely.calibration.CalibratedClassifier` as it is, and its sets are built on their probabilities.
"""

from typing import Any

import numpy as np
from mapie.conformity_scores import BaseRegressionScore  # type: ignore[import-untyped,unused-ignore]

from likely._typing import Array

__all__ = ["ScaledScore"]


class ScaledScore(BaseRegressionScore):
    r"""MAPIE's conformity score in units of the predicted scale: :math:`(y - \hat\mu(x)) / \hat\sigma(x)`.

    MAPIE's ``SplitConformalRegressor`` then gives intervals :math:`\hat\mu \pm q\,\hat\sigma(x)`. They have the
    coverage asked for, whatever the likelihood, and are wide only where the predicted scale is large.

    See also ``predict_interval(…, conformal=True)`` of :class:`likely.tabular.LikelihoodRegressor`, which needs no
    MAPIE.

    Args:
        estimator: the fitted regressor that MAPIE is given too. Its ``predict`` takes ``return_std``, as in
            :class:`likely.tabular.NetworkRegressor`, :class:`likely.calibration.CalibratedRegressor` and the models of
            :mod:`likely.linear`.
        sym: whether both ends of an interval are equally far from the prediction; otherwise each end has a quantile of
            its own.

    >>> import numpy as np
    >>> from mapie.regression import SplitConformalRegressor
    >>> from sklearn.linear_model import Ridge
    >>> from likely.calibration import CalibratedRegressor
    >>> from likely.integrations.mapie import ScaledScore
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 4, size=(3000, 1))
    >>> y = X[:, 0] + (0.5 + X[:, 0]) * rng.normal(size=3000)
    >>> model = CalibratedRegressor(Ridge()).fit(X[:1000], y[:1000])
    >>> conformal = SplitConformalRegressor(model, confidence_level=0.9, conformity_score=ScaledScore(model))
    >>> _, intervals = conformal.conformalize(X[1000:], y[1000:]).predict_interval([[0.0], [4.0]])
    >>> narrow, wide = np.diff(intervals[:, :, 0]).ravel()
    >>> bool(wide > 5 * narrow)
    True
    """

    def __init__(self, estimator: Any, sym: bool = True) -> None:
        super().__init__(sym=sym, consistency_check=False)
        self.estimator = estimator

    def get_signed_conformity_scores(self, y: Any, y_pred: Any, X: Any = None, **kwargs: Any) -> Array:
        """Divide residuals by predicted scales; MAPIE calls this.

        Args:
            y: targets of shape (rows,).
            y_pred: predictions of shape (rows,).
            X: table of shape (rows, columns), from which the scales are predicted.
            **kwargs: what MAPIE passes besides; not used.

        Returns:
            Array of shape (rows,).

        Raises:
            ValueError: if X is None, or the estimator does not predict one finite standard deviation per row.
        """
        return (np.asarray(y) - np.asarray(y_pred)) / self._scale(X)

    def get_estimation_distribution(self, y_pred: Any, conformity_scores: Any, X: Any = None, **kwargs: Any) -> Array:
        """Add scores times predicted scales to predictions; MAPIE calls this.

        Args:
            y_pred: predictions of shape (rows,) or (rows, 1).
            conformity_scores: scores of shape (scores,) or (rows, scores).
            X: table of shape (rows, columns), from which the scales are predicted.
            **kwargs: what MAPIE passes besides; not used.

        Returns:
            Array of shape (rows, scores), the ends of the intervals.
        """
        return np.asarray(y_pred) + np.asarray(conformity_scores) * self._scale(X)[:, None]

    def _scale(self, X: Any) -> Array:
        if X is None:
            raise ValueError("ScaledScore needs X: use it with SplitConformalRegressor, which passes X")
        scale = np.asarray(self.estimator.predict(X, return_std=True)[1], dtype=np.float64)
        if scale.ndim != 1 or not np.isfinite(scale).all():
            raise ValueError("ScaledScore needs one finite standard deviation per row: use a likelihood that has one")
        return np.maximum(scale, self.eps)
