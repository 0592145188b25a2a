"""A classifier for tables of mixed columns, with calibrated probabilities."""

from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from likely._rows.checks import all_or_nothing, row_weights
from likely._typing import Array
from likely.tabular._columns import sample_rows
from likely.tabular._predictions import ProbabilityClassifier, number_per_class, odds_against
from likely.tabular._stack import fit_stack, pool_classes
from likely.tabular._table_estimator import TableEstimator


class LikelihoodClassifier(ProbabilityClassifier, TableEstimator):
    r"""Predicts calibrated class probabilities for the rows of a table with numbers, categories, dates and gaps.

    Members of different kinds — a linear model with a learned prior, kernels with a learned metric, boosted and
    randomised trees, a neural network — are fitted on the same folds. Their weights, in a geometric mean of their
    probabilities, maximise the likelihood of the held-out labels.

    See also :class:`~likely.tabular.LikelihoodRegressor` for numeric targets,
    :class:`~likely.tabular.NetworkClassifier` for a single network, and
    :class:`~likely.calibration.CalibratedClassifier` to calibrate a classifier you have.

    Args:
        model: ``"auto"`` fits all members and drops those that do not help on the first fold; or one member by name
            (``"linear"``, ``"kernel"``, ``"boosting"``, ``"shallow"`` (boosting with few leaves), ``"trees"``,
            ``"network"``), an ``nn.Module``, a function of (inputs, classes) that returns one, any scikit-learn
            classifier or pipeline; or a list of these.
        cv: number of folds, or a scikit-learn splitter that holds out each row once; None is 5 folds, and 3 from
            200,000 rows on.
        time_limit: seconds after which no further member is started and an unfinished one is dropped; None sets no
            limit.
        device: torch device on which kernels and networks are fitted, for example ``"cuda"``; None is the CPU.
        n_jobs: number of folds that joblib fits at once, each on one thread; the result does not depend on it. None:
            what ``joblib.parallel_config`` sets, or one after the other on all of torch's threads.
        random_state: seed or generator; the same seed gives the same model.
        verbose: whether to report progress on the error stream; or a function that is called with each line.

    Attributes:
        classes_: the labels, sorted, of shape (classes,).
        summary_: the members and their weights that were chosen, as a dict that JSON can hold.
        n_rows_read_: number of rows read: all of them, unless the table was not in memory.
        outlier_scores_: score of each training label, of shape (rows,), from members that were fitted without the row:
            higher means that another label is more probable.
        out_of_fold_: class probabilities of each training row, of shape (rows, classes), from members that were fitted
            without it.

    >>> from sklearn.datasets import load_iris
    >>> from likely.tabular import LikelihoodClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LikelihoodClassifier(random_state=0).fit(X, y)
    >>> model.predict(X[[0, 60, 140]])
    array([0, 1, 2])
    """

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit the members and their weights.

        The order of the rows does not matter. A row of weight two counts twice in every loss. It is in one fold,
        though, where two equal rows may be in different ones, so the two fits agree in distribution only.

        Args:
            X: table of shape (rows, columns): an array, a sparse matrix, a pandas or Polars frame, or an Arrow table.
                Categories, booleans, dates and missing values need no preparation. From a table that is not in memory
                (a path, glob or URL of files, a Dask array or frame) a regular sample of rows is read, at most 2²⁵
                numbers in all.
            y: labels of shape (rows,); for a table that is not in memory also the name of a column, or a Dask series.
            sample_weight: one weight per row: whole numbers are counts of rows, of others only the ratios matter; None
                weights all rows equally.
            groups: group of each row, of shape (rows,): rows of one group are held out together. None: no groups.

        Returns:
            The fitted estimator itself.

        Raises:
            ValueError: if all labels are equal, an argument is out of its range, or shapes do not match.
        """
        self._check_arguments()
        X, y, sample_weight, groups = self._gather(X, y, sample_weight, groups)
        X = self._read(X, reset=True)
        y = column_or_1d(y, warn=True)
        check_consistent_length(X, y, *([] if groups is None else [groups]))
        if y.dtype.kind == "f":
            assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        weight = row_weights(sample_weight, X)
        labels = self._learn_classes(y, weight)
        seed = self._seed()
        plain, order, folds = self._arranged(X, labels, labels, weight, groups, seed)
        target = np.eye(len(self.classes_))[labels[order]]
        encoded = target[:, 1:] if len(self.classes_) == 2 else target  # one of two classes determines the other
        self.encoders_, task = self._task(X, plain, encoded, weight[order], folds, order, seed)
        task = replace(task, target=target, link="softmax")
        self.stack_ = fit_stack(task, self._plan(task.table.smooth[0].shape[1], len(self.classes_)))
        self.pool_ = pool_classes(self.stack_.out_of_fold, target, weight[order])
        proba = np.empty((len(y), len(self.classes_)))
        proba[order] = np.exp(self.pool_(self.stack_.out_of_fold[:, None]))
        unweighted = np.flatnonzero(weight == 0)
        if len(unweighted):
            proba[unweighted] = self.predict_proba(X)[unweighted]
        self.out_of_fold_ = proba
        self.outlier_scores_ = np.where(self.classes_[labels] == y, odds_against(proba, labels), np.inf)
        self._sample = sample_rows(X, order)
        self.summary_ = {
            "rows": len(y),
            "folds": task.n_folds,
            "classes": len(self.classes_),
            **self.stack_.summary(self.pool_.weights),
        }
        return self

    @number_per_class
    def predict_log_proba(self, X: Any) -> Array:
        """Predict the logarithm of the probability of each class.

        Args:
            X: table with the columns that :meth:`fit` was given, of shape (rows, columns).

        Returns:
            Array of shape (rows, classes), in the order of ``classes_``.
        """
        check_is_fitted(self)
        return self.pool_(self.stack_(self._table(self._checked(X), self.encoders_)))

    @number_per_class
    def predict_proba(self, X: Any) -> Array:
        """Predict the probability of each class.

        Args:
            X: table with the columns that :meth:`fit` was given, of shape (rows, columns).

        Returns:
            Array of shape (rows, classes), in the order of ``classes_``.
        """
        return np.exp(self.predict_log_proba(X))

    def _location_and_log_scale(self, X: Any) -> tuple[Array, Array]:
        """The probabilities, and the logarithm of the odds against the most probable class."""
        logs = self.predict_log_proba(X)
        best = logs.max(1)
        return np.exp(logs), (np.log(-np.expm1(np.minimum(best, -1e-9))) - best)[:, None]
