"""A regressor for tables of mixed columns that predicts a distribution for every row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.validation import check_consistent_length
from torch.distributions import Distribution

from likely._rows.checks import all_or_nothing, row_weights
from likely._rows.sources import by_blocks, refuse_blocks
from likely._typing import Array, Index
from likely._validation import refuse_dates
from likely.likelihoods import LIKELIHOODS
from likely.metrics._predictive import central_interval, check_coverage, quantile
from likely.tabular._columns import read_sample, sample_rows
from likely.tabular._predictions import DistributionRegressor
from likely.tabular._table_estimator import TableEstimator
from likely.tabular.targets.atoms import AtomTarget, fit_atoms
from likely.tabular.targets.choice import NAMED, choose, find_atoms
from likely.tabular.targets.continuous import ContinuousTarget, fit_continuous
from likely.tabular.targets.counts import CountTarget, fit_counts

Target = ContinuousTarget | CountTarget | AtomTarget


class Forecast(NamedTuple):
    """The predicted distributions: the model of the target, and the parameters of each row."""

    model: Target
    parameters: dict[str, Array]

    @property
    def distribution(self) -> Distribution:
        """The distribution of each row's target."""
        return self.model.distribution(**self.parameters)

    def select(self, rows: Index) -> Forecast:
        """Return the forecast of some of the rows."""
        return Forecast(self.model, {name: values[rows] for name, values in self.parameters.items()})

    def mean(self) -> Array:
        """Return the mean of each row's target."""
        return self.model.mean(**self.parameters)

    def deviation(self) -> Array:
        """Return the standard deviation, or half the central 68% interval where it does not exist."""
        distribution = self.distribution
        try:
            deviation = np.asarray(distribution.stddev)
        except NotImplementedError:
            deviation = np.full(distribution.batch_shape, np.nan)
        valid = np.isfinite(deviation) & (deviation > 0)  # squares of very large and very small numbers are neither
        if valid.all():
            return deviation
        low, high = (quantile(distribution, level) for level in (0.1587, 0.8413))
        least = np.finfo(np.float64).tiny
        return np.where(valid, deviation, np.maximum(high / 2 - low / 2, least))

    def nll(self, y: Array) -> Array:
        """Return the NLL of each target."""
        return -np.asarray(self.distribution.log_prob(torch.as_tensor(y)))

    def conformity(self, y: Array) -> Array:
        """Return the distance of each target from the middle of its distribution."""
        return self.model.conformity(y, **self.parameters)


@dataclass(eq=False, repr=False, kw_only=True)
class LikelihoodRegressor(DistributionRegressor, TableEstimator):
    r"""Predicts a distribution :math:`p(y \mid x)` for the rows of a table with numbers, categories, dates and gaps.

    Members of different kinds — a linear model with a learned prior, kernels with a learned metric, boosted and
    randomised trees, a neural network — are fitted on the same folds. Their weights, the scale of each row's error, the
    tails and the likelihood itself maximise the likelihood of the held-out targets. Gross errors in the targets are
    left out of the fit where that improves the held-out predictions of the others.

    See also :class:`~likely.tabular.LikelihoodClassifier` for labels, :class:`~likely.tabular.NetworkRegressor` for a
    single network, and :class:`~likely.calibration.CalibratedRegressor` to add a scale to a regressor you have.

    Args:
        model: ``"auto"`` fits all members and drops those that do not help on the first fold; or one member by name
            (``"linear"``, ``"kernel"``, ``"boosting"``, ``"shallow"`` (boosting with few leaves), ``"trees"``,
            ``"network"``), an ``nn.Module``, a function of (inputs, outputs) that returns one, any scikit-learn
            regressor or pipeline; or a list of these.
        likelihood: ``"auto"`` chooses, by held-out likelihood, among those that the target's values allow: a normal or
            Student's t, skewed or not, of the target or its log odds, or a log-normal, skewed or not; for counts a
            Poisson or negative binomial, zero-inflated or not. One or two values that repeat far more often than any
            other, such as zero or a cap, have a probability of their own. Or one of them by name: ``"normal"``,
            ``"student_t"``, ``"skew_student_t"``, ``"log_normal"``, ``"poisson"``, ``"negative_binomial"`` or
            ``"zero_inflated_negative_binomial"``; :class:`~likely.tabular.NetworkRegressor` has the others.
        scale: what the scale depends on: ``"predicted"`` (the input) or ``"global"`` (one value for all rows).
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
        summary_: the likelihood, members and weights that were chosen, as a dict that JSON can hold.
        n_rows_read_: number of rows read: all of them, unless the table was not in memory.
        outlier_scores_: negative log-likelihood (NLL) of each training row, of shape (rows,), from members that were
            fitted without it.
        out_of_fold_: predicted mean of each training row, of shape (rows,), from members that were fitted without it.
        out_of_fold_std_: the standard deviations to ``out_of_fold_``.

    >>> import numpy as np
    >>> from likely.tabular import LikelihoodRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, size=(1000, 1))
    >>> y = np.sin(2 * X[:, 0]) + np.where(X[:, 0] > 0, 0.5, 0.1) * rng.normal(size=1000)
    >>> model = LikelihoodRegressor(random_state=0).fit(X, y)
    >>> mean, std = model.predict([[-1.0], [1.0]], return_std=True)
    >>> mean.round(), std.round(1)
    (array([-1.,  1.]), array([0.1, 0.5]))
    """

    likelihood: str = "auto"
    scale: str = "predicted"

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit the members, their weights and the likelihood.

        The order of the rows does not matter. A row of weight two counts twice in every loss. It is in one fold,
        though, where two equal rows may be in different ones, so the two fits agree in distribution only.

        Args:
            X: table of shape (rows, columns): an array, a sparse matrix, a pandas or Polars frame, or an Arrow table.
                Categories, booleans, dates and missing values need no preparation. From a table that is not in memory
                (a path, glob or URL of files, a Dask array or frame) a regular sample of rows is read, at most 2²⁵
                numbers in all.
            y: targets of shape (rows,), without missing values; for a table that is not in memory also the name of a
                column, or a Dask series.
            sample_weight: one weight per row: whole numbers are counts of rows, of others only the ratios matter; None
                weights all rows equally.
            groups: group of each row, of shape (rows,): rows of one group are held out together. None: no groups.

        Returns:
            The fitted estimator itself.

        Raises:
            ValueError: if the likelihood does not allow a target's value, an argument is out of its range, or shapes
                do not match.
        """
        self._check_arguments()
        X, y, sample_weight, groups = self._gather(X, y, sample_weight, groups)
        X = self._read(X, reset=True)
        y = self._target(X, y)
        weight = row_weights(sample_weight, X)
        if groups is not None:
            check_consistent_length(X, groups)
        seed = self._seed()
        ties = np.unique(y, return_inverse=True)[1]
        plain, order, folds = self._arranged(X, ties, None, weight, groups, seed)
        summary = self._fit_target(X, plain, y[order], weight[order], folds, order, seed)
        self._predict_training_rows(X, y, order, weight)
        self.summary_ = {"rows": len(y), "folds": int(folds.max()) + 1, **summary}
        return self

    def _check_arguments(self) -> None:
        super()._check_arguments()
        names = ("auto", *NAMED)
        if self.likelihood not in names:
            raise ValueError(
                f"likelihood must be one of {', '.join(names)}; got {self.likelihood!r} (NetworkRegressor has others)"
            )
        if self.scale not in ("predicted", "global"):
            raise ValueError(
                f"scale must be 'predicted' or 'global', got {self.scale!r} (NetworkRegressor has 'data' and 'fixed')"
            )

    def _fit_target(
        self, X: Any, plain: Array, y: Array, weight: Array, folds: Any, order: Any, seed: int
    ) -> dict[str, Any]:
        """Fit the encoders of the columns and the model of the target; return the summary of what was chosen."""
        self.encoders_, task = self._task(X, plain, y[:, None], weight, folds, order, seed)
        held_out_nll: dict[str, float] = {}
        varying = self.scale == "predicted"
        plan = self._plan(task.table.smooth[0].shape[1], 1)
        link, family = NAMED.get(self.likelihood, ("", "auto"))
        atoms = find_atoms(y, weight, folds) if family == "auto" else y[:0]
        model: Target
        if len(atoms):
            model, held_out_nll = fit_atoms(task, y, atoms, varying, plan)
        else:
            if family == "auto":
                link, held_out_nll = choose(task, y)
            if link == "counts":
                model = fit_counts(task, y, family, varying, plan)
            else:
                model = fit_continuous(task, y, link, family, varying, plan)
        self.target_ = model
        return model.summary() | ({"held_out_nll": held_out_nll} if held_out_nll else {})

    def _predict_training_rows(self, X: Any, y: Array, order: Index, weight: Array) -> None:
        """Store out-of-fold predictions and scores of the training rows; all models predict rows of weight zero."""
        self.out_of_fold_, self.out_of_fold_std_, self.outlier_scores_ = (np.empty(len(y)) for _ in range(3))
        out_of_fold = Forecast(self.target_, self.target_.out_of_fold)
        predicted = [(order, out_of_fold)]
        unweighted = np.flatnonzero(weight == 0)
        if len(unweighted):
            predicted.append((unweighted, self._forecast(X).select(unweighted)))
        for rows, forecast in predicted:
            self.out_of_fold_[rows], self.out_of_fold_std_[rows] = forecast.mean(), forecast.deviation()
            self.outlier_scores_[rows] = forecast.nll(y[rows])
        self.conformity_ = out_of_fold.conformity(y[order])
        self._sample = sample_rows(X, order)

    @by_blocks(arrays=lambda return_std: 1 + return_std)
    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predict the mean of each row's distribution.

        Args:
            X: table with the columns that :meth:`fit` was given, of shape (rows, columns).
            return_std: whether to return the standard deviations too.

        Returns:
            Array of means, of shape (rows,); with ``return_std`` a pair of arrays, the means and the standard
            deviations.
        """
        forecast = self._forecast(self._checked(X))
        return (forecast.mean(), forecast.deviation()) if return_std else forecast.mean()

    def predict_dist(self, X: Any) -> Distribution:
        """Predict the distribution of each row's target.

        Args:
            X: table with the columns that :meth:`fit` was given, of shape (rows, columns), in memory.

        Returns:
            A ``torch.distributions.Distribution`` of batch shape (rows,). Where a value of the target has a probability
            of its own, ``log_prob`` is the logarithm of that probability there, and of the density elsewhere.

        Raises:
            ValueError: if X is not in memory.
        """
        refuse_blocks(X, "predict_dist", "predict, predict_quantile or predict_interval")
        return self._forecast(self._checked(X)).distribution

    @by_blocks(width=lambda _, q: np.size(q) if np.ndim(q) else None)
    def predict_quantile(self, X: Any, q: Any = 0.5) -> Array:
        """Predict quantiles of each row's distribution.

        Args:
            X: table with the columns that :meth:`fit` was given, of shape (rows, columns).
            q: a level in (0, 1), or several; the default is the median.

        Returns:
            Array of shape (rows,) or (rows, targets); for several levels they are the last axis.

        Raises:
            ValueError: if a level is not in (0, 1).
        """
        levels = np.atleast_1d(np.asarray(q, dtype=np.float64))
        if not ((levels > 0) & (levels < 1)).all():
            raise ValueError(f"q must lie in (0, 1); got {q!r}")
        distribution = self.predict_dist(X)
        quantiles = [quantile(distribution, float(level)) for level in levels]
        return quantiles[0] if np.ndim(q) == 0 else np.stack(quantiles, -1)

    @by_blocks(arrays=lambda **_: 2)
    def predict_interval(self, X: Any, coverage: float = 0.9, *, conformal: bool = False) -> tuple[Array, Array]:
        """Predict the central interval that holds ``coverage`` of each row's distribution.

        Args:
            X: table with the columns that :meth:`fit` was given, of shape (rows, columns).
            coverage: share of targets that the intervals are to hold, in (0, 1).
            conformal: whether to rescale the intervals so that they hold ``coverage`` of the rows given to
                :meth:`conformalize`, which guarantees that share of exchangeable new rows on average. Without such
                rows, held-out predictions of the training rows are used, and there is no guarantee: they come from
                members fitted on fewer rows than those that predict.

        Returns:
            Two arrays, the lower and the upper ends, each of shape (rows,).

        Raises:
            ValueError: if ``coverage`` is not in (0, 1).
        """
        if not conformal:
            return central_interval(self.predict_dist(X), coverage)
        check_coverage(coverage)
        forecast = self._forecast(self._checked(X))
        return forecast.model.interval(_reach(self.conformity_, coverage), **forecast.parameters)

    def conformalize(self, X: Any, y: Any) -> Self:
        """Calibrate conformal intervals on rows that were not in :meth:`fit`.

        Whatever the distribution of the rows, the intervals of ``predict_interval(…, conformal=True)`` then hold, on
        average, at least their coverage of new rows that are drawn as these were.

        Args:
            X: table of rows that were not in :meth:`fit`, of shape (rows, columns); from one that is not in memory a
                sample is read, as in ``fit``.
            y: their targets, of shape (rows,).

        Returns:
            The estimator itself; its other predictions stay the same.
        """
        X, y, *_ = read_sample(X, y)
        X = self._checked(X)
        y = column_or_1d(check_array(y, dtype=np.float64, ensure_2d=False, input_name="y"))
        check_consistent_length(X, y)
        self.conformity_ = self._forecast(X).conformity(y)
        return self

    @by_blocks()
    def predict_scale(self, X: Any) -> Array:
        """Predict the standard deviation of each row's distribution.

        Where the tails are too heavy for a standard deviation, it is half the width of the central 68% interval.

        Args:
            X: table with the columns that :meth:`fit` was given, of shape (rows, columns).

        Returns:
            Array of shape (rows,).
        """
        return self.predict(X, return_std=True)[1]

    def _forecast(self, X: Any) -> Forecast:
        """Predict the distribution of the target at checked rows."""
        return Forecast(self.target_, self.target_.parameters(self._table(X, self.encoders_)))

    def _location_and_log_scale(self, X: Any) -> tuple[Array, Array]:
        """The mean and the log scale of each row, in standard units."""
        mean, std = self.predict(X, return_std=True)
        mean = mean / max(np.abs(mean).max(), 1e-300)  # squares may overflow
        deviation = mean.std()
        return mean / (deviation if deviation > 1e-12 else 1.0), np.log(std)

    def _target(self, X: Any, y: Any) -> Array:
        refuse_dates(y)
        y = check_array(y, dtype=np.float64, ensure_2d=False, allow_nd=False, input_name="y")
        check_consistent_length(X, y)
        if y.ndim > 1 and y.shape[1] > 1:
            raise ValueError(f"y has {y.shape[1]} columns: fit one LikelihoodRegressor per target, or NetworkRegressor")
        y = column_or_1d(y, warn=True)
        if self.likelihood != "auto":
            LIKELIHOODS[self.likelihood].check_target(y)
        return y


def _reach(conformity: Array, coverage: float) -> float:
    """Return the smallest score that holds ``coverage`` of n + 1 rows; ∞ where there are too few rows for that."""
    rank = int(np.ceil(coverage * (len(conformity) + 1)))
    return float(np.sort(conformity)[rank - 1]) if rank <= len(conformity) else np.inf
