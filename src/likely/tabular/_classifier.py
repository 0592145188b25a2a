"""A classifier of tables as they come whose probabilities can be taken at their word."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from likely._rows.checks import all_or_nothing
from likely._typing import Array
from likely.tabular._by_blocks import by_blocks
from likely.tabular._columns import Columns
from likely.tabular._council import assemble
from likely.tabular._importance import Importances, Sample, importances
from likely.tabular._network_classifier import odds_against
from likely.tabular._pool import pool_classes
from likely.tabular._table_estimator import TableEstimator, canonical, read_weight


class LikelihoodClassifier(ClassifierMixin, TableEstimator):
    r"""Predicts the probability of each class for each row of a table as it comes.

    Members of different kinds — a line whose prior learns, kernels whose metric learns, boosted and randomised trees, a
    network — are fitted on the same folds; how much each is heard, and the temperature of all, are those under which
    the labels of rows that no member had seen are likeliest.

    Args:
        model: ``"auto"``, as above, where a member that does not help on the first fold is dropped; or one member by
            name (``"linear"``, ``"kernel"``, ``"boosting"``, ``"shallow"`` (boosting of few leaves), ``"trees"``,
            ``"network"``), an ``nn.Module``, a function
            of (inputs, classes) that makes one, any scikit-learn classifier or pipeline; or a list of these.
            Boosting is LightGBM's where it is installed, else scikit-learn's.
        cv: number of folds, None for five, or three from 200,000 rows on; or a splitter of scikit-learn that holds out
            each row once.
        time_limit: seconds after which no further member is begun, and one that is not whole is dropped.
        device: where kernels and networks are fitted, for example ``"cuda"``.
        n_jobs: number of threads; None for as many as torch uses.
        random_state: seed or generator; the same seed gives the same model.
        verbose: whether to say what is done on the error stream; or a function that is given each line.

    Attributes:
        classes_: the labels.
        summary_: what was chosen and why, as JSON takes it.
        n_rows_read_: how many rows were read: all, but for a table that is not in memory.
        outlier_scores_: how much likelier another label would be, for every training row, by models that have not
            seen it.
        out_of_fold_: the probabilities of every training row by models that have not seen it.

    >>> from sklearn.datasets import load_iris
    >>> from likely.tabular import LikelihoodClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LikelihoodClassifier(random_state=0).fit(X, y)
    >>> model.predict(X[[0, 60, 140]])
    array([0, 1, 2])
    """

    def __init__(
        self,
        model: Any = "auto",
        *,
        cv: Any = None,
        time_limit: float | None = None,
        device: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: Any = 0,
    ) -> None:
        self.model = model
        self.cv = cv
        self.time_limit = time_limit
        self.device = device
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Learn members and their weights.

        The order of the rows does not matter. A row of weight two counts twice in every loss, but it is in one fold
        where two equal rows may be in two: the fits are alike in distribution, not number by number.

        Args:
            X: table of shape (rows, columns): an array, a sparse matrix, a frame of pandas or Polars, Arrow's table.
                Categories, booleans, dates and gaps are taken as they are. Of a table that is not in memory (a path,
                glob or URL of files, a Dask array or frame) every so many-th row is read, at most 2²⁵ numbers in all.
            y: labels of shape (rows,); of a table that is not in memory also a column's name, or a Dask series.
            sample_weight: one weight per row; only their ratios matter.
            groups: the group of each row: rows of a group are held out together.

        Returns:
            The fitted estimator.
        """
        self._check_arguments()
        X, y, sample_weight, groups = self._gather(X, y, sample_weight, groups)
        X = self._read(X, reset=True)
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        y = column_or_1d(y, warn=True)
        check_consistent_length(X, y, *([] if groups is None else [groups]))
        if y.dtype.kind == "f":
            assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        weight = read_weight(sample_weight, X)
        counted = np.flatnonzero(weight > 0)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(np.unique(labels[counted])) < 2:
            raise ValueError(f"Classifier can't train when only one class is present: {self.classes_[0]!r}")
        seed = self._seed()
        self.columns_ = Columns.learn(X, weight)
        plain = self.columns_(X)
        order = counted[canonical(plain[counted], labels[counted], weight[counted])]
        folds = self._folds(X, labels, None if groups is None else np.asarray(groups), order, seed)
        target = np.eye(len(self.classes_))[labels[order]]
        told = target[:, 1:] if len(self.classes_) == 2 else target  # of two classes one says all
        self.views_, task = self._task(X, plain[order], told, weight[order], folds, order, seed)
        task = task.having(target, "softmax")
        fits, chosen = self._members(task.table.smooth[0].shape[1], len(self.classes_))
        self.council_ = assemble(task, fits, chosen, self._say, {})
        self.pool_ = pool_classes(self.council_.blind, target, weight[order])
        proba = np.empty((len(y), len(self.classes_)))
        proba[order] = np.exp(self.pool_(self.council_.blind[:, None]))
        rest = np.flatnonzero(weight == 0)
        if len(rest):
            proba[rest] = self.predict_proba(X)[rest]
        self.out_of_fold_, self.outlier_scores_ = proba, odds_against(proba, labels)
        self._sample = Sample.draw(X, order)
        self.summary_ = {
            "rows": len(y),
            "folds": task.n_folds,
            "classes": len(self.classes_),
            "temperature": round(self.pool_.temperature, 4),
            "shares": dict(zip(self.council_.members, self.pool_.shares.round(4).tolist(), strict=True)),
            "weights": dict(zip(self.council_.members, self.pool_.weights.round(4).tolist(), strict=True)),
            "members": list(self.council_.tried),
        }
        return self

    @by_blocks()
    def predict_log_proba(self, X: Any) -> Array:
        """The logarithm of the probability of each class."""
        check_is_fitted(self)
        table = self._table(self._checked(X), self.views_)
        return self.pool_(np.stack([member(table) for member in self.council_.members.values()]))

    @by_blocks()
    def predict_proba(self, X: Any) -> Array:
        """The probability of each class."""
        return np.exp(self.predict_log_proba(X))

    @by_blocks(dtype=lambda classifier: classifier.classes_.dtype)
    def predict(self, X: Any) -> NDArray[Any]:
        """The likeliest class of every row."""
        best = self.predict_log_proba(X).argmax(1)
        return self.classes_[best]

    @by_blocks(beside=("y",))
    def outlier_score(self, X: Any, y: Any) -> Array:
        """How much likelier another label would be: the higher, the less a label fits.

        For training rows see ``outlier_scores_``.
        """
        proba, y = self.predict_proba(X), column_or_1d(y)
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(f"y has labels that are not among the classes {self.classes_}: {unknown}")
        return odds_against(proba, np.searchsorted(self.classes_, y))

    def importances(self, X: Any = None, *, n_repeats: int = 3) -> Importances:
        """How much each column matters to the probabilities, and to how sure they are.

        Args:
            X: rows to look at; None for some of the training rows.
            n_repeats: how often each column is shuffled.

        Returns:
            The columns and their importances: what changes where a column is shuffled among rows.
        """
        return importances(self, X, n_repeats)

    def _width(self, method: str, **_: Any) -> int | None:
        """How many numbers a method returns per row; None for one that has no axis of its own."""
        return len(self.classes_) if method in ("predict_proba", "predict_log_proba") else None

    def _said(self, X: Any) -> tuple[Array, Array]:
        """The probabilities, and the logarithm of the odds against the likeliest class."""
        logs = self.predict_log_proba(X)
        best = logs.max(1)
        return np.exp(logs), (np.log(-np.expm1(np.minimum(best, -1e-9))) - best)[:, None]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = True
        return tags
