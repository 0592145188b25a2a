"""A regressor of tables as they come that says how sure it is."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from sklearn.base import RegressorMixin
from sklearn.utils import check_array
from sklearn.utils.validation import check_consistent_length
from torch.distributions import Distribution

from likely._rows.checks import all_or_nothing
from likely._typing import Array
from likely.likelihoods import LIKELIHOODS
from likely.likelihoods._numeric import quantile
from likely.tabular._by_blocks import by_blocks, read_sample, refuse_blocks
from likely.tabular._choice import NAMED, choose
from likely.tabular._columns import Columns
from likely.tabular._conformal import reach_of
from likely.tabular._counts import Counts, fit_counts
from likely.tabular._importance import Importances, Sample, importances
from likely.tabular._network_path import NETWORK_LIKELIHOODS, OBJECTIVES, NetworkPath
from likely.tabular._real import Real, fit_real
from likely.tabular._several import Several
from likely.tabular._table_estimator import TableEstimator, canonical, read_weight
from likely.tabular._views import Views

Outcome = tuple[Views, Real | Counts]


class LikelihoodRegressor(RegressorMixin, TableEstimator):
    r"""Predicts a distribution, :math:`p(y \mid x)`, for each row of a table as it comes.

    Members of different kinds — a line whose prior learns, kernels whose metric learns, boosted and randomised trees, a
    network — are fitted on the same folds; how much each is heard, the scale of every row's error, its tails and the
    likelihood itself are those under which rows that no member had seen are likeliest. Targets that are far off what
    all others say are left out where that tells the others better.

    Args:
        model: ``"auto"``, as above, where a member that does not help on the first fold is dropped; or one member by
            name (``"linear"``, ``"kernel"``, ``"boosting"``, ``"shallow"`` (boosting of few leaves), ``"trees"``,
            ``"network"``), an ``nn.Module``, a function
            of (inputs, outputs) that makes one, any scikit-learn regressor or pipeline; or a list of these.
            Boosting is LightGBM's where it is installed, else scikit-learn's.
        likelihood: ``"auto"`` chooses by held-out rows among those that the values of the target allow: a normal,
            Student's t, skewed or not, of the target, of its logarithm or of its log odds; for counts a Poisson or a
            negative binomial, with further zeros or not. Or any by name: see :mod:`likely.likelihoods`.
        scale: ``"predicted"`` from the input, or ``"global"``, one for all rows; with ``objective="joint"`` also
            ``"data"``, one for each training row, or ``"fixed"``.
        objective: ``"auto"``, as above; ``"joint"``, the paper's, trains one network down the NLL of all parameters;
            ``"data"`` the same with one scale per training row; ``"beta"``, ``"faithful"`` and ``"two_stage"`` as in
            :class:`~likely.tabular.NetworkRegressor`, which these use.
        cv: number of folds, None for five, or three from 200,000 rows on; or a splitter of scikit-learn that holds out
            each row once.
        time_limit: seconds after which no further member is begun, and one that is not whole is dropped.
        device: where kernels and networks are fitted, for example ``"cuda"``.
        n_jobs: number of threads; None for as many as torch uses.
        random_state: seed or generator; the same seed gives the same model.
        verbose: whether to say what is done on the error stream; or a function that is given each line.

    Attributes:
        summary_: what was chosen and why, for each target, as JSON takes it.
        n_rows_read_: how many rows were read: all, but for a table that is not in memory.
        outlier_scores_: the NLL of every training row by models that have not seen it.
        out_of_fold_: the prediction for every training row by models that have not seen it.
        out_of_fold_std_: the standard deviation that goes with it (with ``objective="auto"``).

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

    def __init__(
        self,
        model: Any = "auto",
        *,
        likelihood: str = "auto",
        scale: str = "predicted",
        objective: str = "auto",
        cv: Any = None,
        time_limit: float | None = None,
        device: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: Any = 0,
    ) -> None:
        self.model = model
        self.likelihood = likelihood
        self.scale = scale
        self.objective = objective
        self.cv = cv
        self.time_limit = time_limit
        self.device = device
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Learn members, their weights and the likelihood.

        The order of the rows does not matter. A row of weight two counts twice in every loss, but it is in one fold
        where two equal rows may be in two: the fits are alike in distribution, not number by number.

        Args:
            X: table of shape (rows, columns): an array, a sparse matrix, a frame of pandas or Polars, Arrow's table.
                Categories, booleans, dates and gaps are taken as they are. Of a table that is not in memory (a path,
                glob or URL of files, a Dask array or frame) every so many-th row is read, at most 2²⁵ numbers in all.
            y: targets of shape (rows,) or (rows, targets); of a table that is not in memory also a column's name, or a
                Dask series.
            sample_weight: one weight per row; only their ratios matter.
            groups: the group of each row: rows of a group are held out together.

        Returns:
            The fitted estimator.
        """
        self._check_arguments()
        self._check_likelihood()
        X, y, sample_weight, groups = self._gather(X, y, sample_weight, groups)
        X = self._read(X, reset=True)
        targets = self._targets(X, y)
        weight = read_weight(sample_weight, X)
        if groups is not None:
            check_consistent_length(X, groups)
        seed = self._seed()
        self._path: NetworkPath | None = None
        if self.objective != "auto" or self.likelihood in NETWORK_LIKELIHOODS:
            self._check_network(groups)
            self._path = NetworkPath.fit(self, X, targets if self.several_targets_ else targets[:, 0], weight, seed)
            self.out_of_fold_, self.outlier_scores_ = self._path.out_of_fold, self._path.outlier_scores
            self.summary_ = self._path.summary()
            self._sample = Sample.draw(X, np.arange(len(targets)))
            for name in ("conformity_", "out_of_fold_std_"):  # an earlier fit's
                self.__dict__.pop(name, None)
            return self
        self.columns_ = Columns.learn(X, weight)
        counted = np.flatnonzero(weight > 0)
        plain = self.columns_(X)
        ties = np.unique(targets.squeeze(1) if targets.shape[1] == 1 else targets, axis=0, return_inverse=True)[1]
        order = counted[canonical(plain[counted], ties.reshape(-1)[counted], weight[counted])]
        folds = self._folds(X, None, None if groups is None else np.asarray(groups), order, seed)
        fitted = [self._fit_target(X, plain[order], own[order], weight[order], folds, order, seed) for own in targets.T]
        self.outcomes_ = [outcome for outcome, _ in fitted]
        self._look_back(X, targets, order, weight)
        self.summary_ = {"rows": len(targets), "folds": int(folds.max()) + 1, "targets": [own for _, own in fitted]}
        return self

    def _fit_target(
        self, X: Any, plain: Array, y: Array, weight: Array, folds: Any, order: Any, seed: int
    ) -> tuple[Outcome, dict[str, Any]]:
        views, task = self._task(X, plain, y[:, None], weight, folds, order, seed)
        looked: dict[str, float] = {}
        if self.likelihood == "auto":
            link, looked = choose(task, y)
            family = "auto"
        else:
            link, family = NAMED[self.likelihood]
        varying = self.scale == "predicted"
        fits, chosen = self._members(task.table.smooth[0].shape[1], 1)
        found: Real | Counts
        if link == "counts":
            found = fit_counts(task, y, family, varying, fits, chosen, self._say)
        else:
            found = fit_real(task, y, link, family, varying, fits, chosen, self._say)
        return (views, found), found.summary() | ({"held_out_nll": looked} if looked else {})

    def _look_back(self, X: Any, targets: Array, order: Any, weight: Array) -> None:
        """What models that had not seen a row say of it; rows without weight were seen by none."""
        means, scores, deviations = (np.empty(targets.shape) for _ in range(3))
        levels = []
        rest = np.flatnonzero(weight == 0)
        for number, (views, found) in enumerate(self.outcomes_):
            parts = [(order, found.blind)]
            if len(rest):
                table = self._table(X, views)
                parts.append((rest, {name: own[rest] for name, own in found.parameters(table).items()}))
            for rows, parameters in parts:
                distribution, y = found.distribution(**parameters), torch.as_tensor(targets[rows, number])
                means[rows, number] = found.mean(**parameters)
                deviations[rows, number] = _deviation(distribution)
                scores[rows, number] = -np.asarray(distribution.log_prob(y))
                if rows is order:
                    levels.append(found.conformity(targets[rows, number], **parameters))
        self.conformity_ = levels
        self.out_of_fold_, self.out_of_fold_std_ = self._shaped(means), self._shaped(deviations)
        self.outlier_scores_ = scores.mean(1)
        self._sample = Sample.draw(X, order)

    @by_blocks(parts=lambda return_std: 1 + return_std)
    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The mean of each row's distribution; with ``return_std`` also its standard deviation."""
        X = self._checked(X)
        if self._path is not None:
            return self._path.predict(X, return_std)
        told = self._told(X)
        mean = self._shaped(np.column_stack([found.mean(**own) for found, own in told]))
        if not return_std:
            return mean
        return mean, self._shaped(np.column_stack([_deviation(found.distribution(**own)) for found, own in told]))

    def predict_dist(self, X: Any) -> Distribution:
        """Each row's distribution, as torch's."""
        refuse_blocks(X, "predict_dist", "predict, predict_quantile or predict_interval")
        X = self._checked(X)
        if self._path is not None:
            return self._path.predict_dist(X)
        parts = [found.distribution(**own) for found, own in self._told(X)]
        return Several(parts) if self.several_targets_ else parts[0]

    @by_blocks()
    def predict_quantile(self, X: Any, q: Any = 0.5) -> Array:
        """The quantile of each row's distribution at ``q`` in (0, 1); at several a column for each."""
        levels = np.atleast_1d(np.asarray(q, dtype=np.float64))
        if not ((levels > 0) & (levels < 1)).all():
            raise ValueError(f"q must lie in (0, 1); got {q!r}")
        distribution = self.predict_dist(X)
        found = [quantile(distribution, float(level)) for level in levels]
        return found[0] if np.ndim(q) == 0 else np.stack(found, -1)

    @by_blocks(parts=lambda **_: 2)
    def predict_interval(self, X: Any, coverage: float = 0.9, *, conformal: bool = False) -> tuple[Array, Array]:
        """The ends of the central interval that holds ``coverage`` of each row's distribution.

        Args:
            X: table of shape (rows, columns).
            coverage: share of targets that intervals are to hold, in (0, 1).
            conformal: whether to widen or narrow the intervals so that they would have held ``coverage`` of the rows
                given to :meth:`conformalize`, which guarantees that share of exchangeable new rows on average; of the
                training rows, by models that had not seen them, where none were given. That comes without a
                guarantee: the models are as blind, but not quite those that predict.

        Returns:
            The lower and the upper ends, of shape (rows,) or (rows, targets).
        """
        if not 0 < coverage < 1:
            raise ValueError(f"coverage must lie in (0, 1), got {coverage}")
        if not conformal:
            distribution = self.predict_dist(X)
            lower, upper = (quantile(distribution, (1 + sign * coverage) / 2) for sign in (-1, 1))
            return lower, upper
        X = self._checked(X)
        if not hasattr(self, "conformity_"):
            raise ValueError("call conformalize(X, y) with rows that were not in fit: a network has no others to offer")
        reach = [reach_of(own, coverage) for own in self.conformity_]
        if self._path is not None:
            return self._path.interval(X, reach)
        ends = [found.interval(own, **told) for own, (found, told) in zip(reach, self._told(X), strict=True)]
        lower, upper = (self._shaped(np.column_stack(side)) for side in zip(*ends, strict=True))
        return lower, upper

    def conformalize(self, X: Any, y: Any) -> Self:
        """Let conformal intervals be those that hold on rows that no model has seen.

        Whatever their distribution, ``predict_interval(…, conformal=True)`` then holds at least its coverage of new
        rows that are drawn as these are, on average over both.

        Args:
            X: table of rows that were not in :meth:`fit`; of one that is not in memory some are read, as in ``fit``.
            y: their targets.

        Returns:
            The estimator, its predictions as they were.
        """
        X, y, *_ = read_sample(X, y)
        X = self._checked(X)
        y = check_array(y, dtype=np.float64, ensure_2d=False, input_name="y")
        check_consistent_length(X, y)
        targets = y.reshape(len(y), -1)
        if self._path is not None:
            self.conformity_ = list(self._path.conformity(X, y).reshape(len(y), -1).T)
        else:
            told = zip(targets.T, self._told(X), strict=True)
            self.conformity_ = [found.conformity(own, **parameters) for own, (found, parameters) in told]
        return self

    @by_blocks()
    def predict_scale(self, X: Any) -> Array:
        """Each row's standard deviation, or where there is none half the interval of a normal's share of it."""
        return self.predict(X, return_std=True)[1]

    @by_blocks(beside=("y",))
    def outlier_score(self, X: Any, y: Any) -> Array:
        """The NLL of every target: the higher, the less it fits. For training rows see ``outlier_scores_``."""
        distribution = self.predict_dist(X)
        y = check_array(y, dtype=np.float64, ensure_2d=False, input_name="y")
        shape = tuple(distribution.batch_shape)
        if y.shape not in (shape, (*shape, 1)):
            raise ValueError(f"y must have the shape {shape} of the predictions; got {y.shape}")
        nll = -distribution.log_prob(torch.tensor(y.reshape(shape)))  # copied: a frame's columns are read-only
        return np.asarray(nll if nll.ndim == 1 else nll.mean(-1))

    def importances(self, X: Any = None, *, n_repeats: int = 3) -> Importances:
        """How much each column matters to the mean, and to the scale: which columns make rows noisy.

        A column is shuffled among rows, and what is said of them changes: by so much, in units of the target's
        deviation for the mean, and as a factor's logarithm for the scale.

        Args:
            X: rows to look at; None for some of the training rows.
            n_repeats: how often each column is shuffled.

        Returns:
            The columns and their importances.
        """
        return importances(self, X, n_repeats)

    def _width(self, method: str, q: Any = 0.5, **_: Any) -> int | None:
        """How many numbers a method returns per row; None for one that has no axis of its own."""
        levels = np.size(q) if np.ndim(q) else None
        if method == "outlier_score" or not self.several_targets_:
            return levels if method == "predict_quantile" else None
        if levels is not None and method == "predict_quantile":
            raise ValueError("of several targets and a table in blocks, predict_quantile takes one q at a time")
        return int(self.out_of_fold_.shape[1])

    def _told(self, X: Any) -> list[tuple[Real | Counts, dict[str, Array]]]:
        """What each target's models say of rows that were checked."""
        return [(found, found.parameters(self._table(X, views))) for views, found in self.outcomes_]

    def _said(self, X: Any) -> tuple[Array, Array]:
        """The mean and the log scale of each row and target, in standard units."""
        mean, std = self.predict(X, return_std=True)
        mean, std = mean.reshape(len(mean), -1), std.reshape(len(std), -1)
        mean = mean / np.maximum(np.abs(mean).max(0), 1e-300)  # squares may overflow
        deviation = mean.std(0)
        return mean / np.where(deviation > 1e-12, deviation, 1.0), np.log(std)

    def _shaped(self, values: Array) -> Array:
        return values if self.several_targets_ else values[:, 0]

    def _check_likelihood(self) -> None:
        names = ["auto", *NAMED, *NETWORK_LIKELIHOODS]
        if self.likelihood not in names:
            raise ValueError(f"likelihood must be one of {', '.join(names)}; got {self.likelihood!r}")
        if self.objective not in ("auto", *OBJECTIVES):
            raise ValueError(f"objective must be one of auto, {', '.join(OBJECTIVES)}; got {self.objective!r}")
        if self.objective == "auto" and self.scale not in ("predicted", "global"):
            raise ValueError(
                f"scale must be 'predicted' or 'global'; 'data' and 'fixed' need objective='joint'; got {self.scale!r}"
            )

    def _check_network(self, groups: Any) -> None:
        """Refuse what a network alone would leave unheard."""
        why = f"likelihood={self.likelihood!r}" if self.objective == "auto" else f"objective={self.objective!r}"
        if isinstance(self.model, list | tuple) or (
            isinstance(self.model, str) and self.model not in ("auto", "network")
        ):
            raise ValueError(f"{why} trains a network: model must be 'auto' or a module, got {self.model!r}")
        if groups is not None:
            raise ValueError(f"{why} trains a network, whose folds know no groups: give groups=None")

    def _targets(self, X: Any, y: Any) -> Array:
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        y = check_array(y, dtype=np.float64, ensure_2d=False, allow_nd=False, input_name="y")
        check_consistent_length(X, y)
        self.several_targets_ = y.ndim > 1
        targets = y.reshape(len(y), -1)
        if self.likelihood != "auto" and self.likelihood not in NETWORK_LIKELIHOODS:
            LIKELIHOODS[self.likelihood].check_target(targets)
        return targets

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _deviation(distribution: Distribution) -> Array:
    """The standard deviation, or what stands for it where the tails leave none."""
    try:
        found = np.asarray(distribution.stddev)
    except NotImplementedError:
        found = np.full(distribution.batch_shape, np.nan)
    known = np.isfinite(found) & (found > 0)  # of very large and very small numbers squares are neither
    if known.all():
        return found
    low, high = (quantile(distribution, level) for level in (0.1587, 0.8413))
    least = np.finfo(np.float64).tiny
    return np.where(known, found, np.maximum(high / 2 - low / 2, least))
