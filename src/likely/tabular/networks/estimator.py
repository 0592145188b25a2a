"""The base class of the two network estimators: arguments, training, and predictions of each network."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state, check_scalar
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from likely._rows.checks import all_or_nothing, row_weights
from likely._rows.contents import rank_keys
from likely._solvers.training import Callbacks
from likely._typing import Array, Floats, Index, Values
from likely.tabular._columns import read_sample
from likely.tabular.networks.likelihood import NetworkLikelihood, Phi
from likely.tabular.networks.modules import fresh
from likely.tabular.networks.rows import TrainingRows, Units, in_chunks
from likely.tabular.networks.training import TrainingRecipe, fit_members, nll_at
from likely.tabular.networks.two_stage import Second, fit_two_stage

OBJECTIVES = ("two_stage", "joint")
FLOATS = (np.float64, np.float32)


class _Learned(BaseEstimator):
    """What a fit stores, and what a subclass writes."""

    outlier_scores_: Array
    out_of_fold_: Array
    second_: Second | None
    _per_target: bool  # whether each target has likelihood parameters of its own
    _likelihood: Callable[[], NetworkLikelihood]
    _checked: Callable[[Any, Any], tuple[Floats, Values]]
    # The targets in standard units, or the numbers of the labels, and how many numbers predict one row's.
    _goals: Callable[[Values, Array], tuple[Tensor, int]]
    _out_of_fold: Callable[[Tensor, Phi], Array]
    _row_scores: Callable[[TrainingRows, Array], Array]


@dataclass(eq=False, repr=False)
class NetworkEstimator(_Learned):
    """A scikit-learn estimator whose loss is a likelihood with parameters that learn."""

    model: Any = None
    _: KW_ONLY
    hidden: Sequence[int] = (64, 64)
    objective: str = "two_stage"
    cv: int | None = 5
    learning_rate: float = 0.01
    batch_size: int | None = 256
    max_steps: int = 2000
    device: Any = None
    random_state: Any = None
    callbacks: Callbacks | None = None

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train the networks and the parameters of their likelihood.

        The order of the rows does not matter. A row of weight two counts twice in every loss. It is in one batch and
        one fold, though, where two equal rows may be in different ones, so the two fits agree in distribution only.

        Args:
            X: table of shape (rows, inputs), without missing values. From a table that is not in memory (a path, glob
                or URL of files, a Dask array or frame) a regular sample of rows is read, at most 2²⁵ numbers in all.
            y: targets of shape (rows,) or (rows, targets); for a classifier labels of shape (rows,). For a table that
                is not in memory also the name of a column, or a Dask series.
            sample_weight: one weight per row, of which only the ratios matter; None weights all rows equally.

        Returns:
            The fitted estimator itself.

        Raises:
            ValueError: if an argument is out of its range, or X or y contains NaN or infinite values.
        """
        X, y, (sample_weight,), _ = read_sample(X, y, sample_weight)
        X, y = self._checked(X, y)
        self.n_rows_read_ = len(X)
        weight = row_weights(sample_weight, X)
        weight = weight / weight.mean()
        likelihood = self._settings()
        order = _order_by_values(X, y, weight)  # folds and batches then follow from the set of rows
        rows = self._rows(X[order], y[order], weight[order])
        likelihood = likelihood.at(rows.y)
        recipe = self._recipe(rows)
        if self.objective == "two_stage":
            self.training_, self.second_, prediction, history = fit_two_stage(rows, likelihood, recipe)
            phi = self.second_.mean(rows.x, prediction)
        else:
            self.training_, folds, history = fit_members(rows, likelihood, recipe)
            self.second_ = None
            # Where no rows were held out, the only member predicts all of them.
            folds = torch.arange(len(X), device=rows.x.device)[None] if folds is None else folds
            prediction = self.training_.out_of_fold(rows, folds)
            phi = self.training_.out_of_fold_phi(rows, folds)
        self.n_steps_, self.best_steps_ = history.step, history.best_step.numpy()
        self.out_of_fold_ = self._out_of_fold(prediction.double().cpu(), {n: v.double().cpu() for n, v in phi.items()})
        nll = nll_at(rows, likelihood, prediction, phi).double().cpu().numpy()
        self.outlier_scores_ = self._row_scores(rows, nll)
        original = np.argsort(order)
        self.out_of_fold_, self.outlier_scores_ = self.out_of_fold_[original], self.outlier_scores_[original]
        return self

    def _components(self, X: Any) -> tuple[Tensor, Phi]:
        """Predictions (networks, rows, outputs) and likelihood parameters of each, in the model's units."""
        check_is_fitted(self, "training_")
        X = validate_data(self, X, reset=False, dtype=FLOATS)
        model, loss_fn = self.training_.fitted.model, self.training_.fitted.loss_fn
        device = next(model.parameters()).device

        def compute(rows: slice) -> Phi:
            x = self.units_.inputs(X[rows], device)
            prediction, features = model(x)
            if self.second_ is None:
                phi = {name: getattr(loss_fn, name)(features=features) for name in loss_fn.slots}
            else:
                phi = self.second_(x, prediction.mean(0))
            shape = prediction.shape[: 2 + self._per_target]
            expanded = self.training_.likelihood.expanded
            values = {"prediction": prediction, **{name: expanded(name, value, shape) for name, value in phi.items()}}
            return {name: value.double().cpu() for name, value in values.items()}

        phi = in_chunks(len(X), compute, 1)
        return phi.pop("prediction"), phi

    def _rows(self, X: Floats, y: Values, weight: Array) -> TrainingRows:
        goals, outputs = self._goals(y, weight)
        self.units_ = Units.standard(X, weight)
        device = torch.device(self.device or "cpu")
        weights = torch.as_tensor(weight, dtype=torch.float32, device=device)
        return TrainingRows(self.units_.inputs(X, device), goals.to(device), weights, outputs)

    def _settings(self) -> NetworkLikelihood:
        """The likelihood, after a check of all arguments."""
        if self.objective not in OBJECTIVES:
            raise ValueError(f"objective must be one of {', '.join(OBJECTIVES)}; got {self.objective!r}")
        if self.objective == "two_stage" and self.cv is None:
            raise ValueError("objective='two_stage' needs held-out rows: set cv, or choose objective='joint'")
        if not np.iterable(self.hidden) or isinstance(self.hidden, str):
            raise TypeError(f"hidden must be the sizes of the hidden layers, such as (64, 64); got {self.hidden!r}")
        for units in self.hidden:
            check_scalar(units, "a hidden layer", Integral, min_val=1)
        for name, least in (("cv", 2), ("batch_size", 1)):
            if getattr(self, name) is not None:
                check_scalar(getattr(self, name), name, Integral, min_val=least)
        check_scalar(self.max_steps, "max_steps", Integral, min_val=0)
        check_scalar(self.learning_rate, "learning_rate", Real, min_val=0, include_boundaries="neither")
        return self._likelihood()

    def _recipe(self, rows: TrainingRows) -> TrainingRecipe:
        return TrainingRecipe(
            make=self._make(rows),
            hidden=tuple(self.hidden),
            learning_rate=self.learning_rate,
            batch_size=self.batch_size,
            max_steps=self.max_steps,
            cv=self.cv,
            seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
            callbacks=tuple(self.callbacks or ()),
        )

    def _make(self, rows: TrainingRows) -> Callable[[], nn.Module] | None:
        model = self.model
        if model is None:
            return None
        if isinstance(model, nn.Module):
            return partial(fresh, model)
        if callable(model):
            return partial(model, rows.x.shape[1], rows.outputs)
        raise TypeError(
            f"model must be an nn.Module, a function (inputs, outputs) that returns one, or None; got {model!r}"
        )


def _order_by_values(X: Floats, y: Values, weight: Array) -> Index:
    """An order of the rows that depends on their values only, not on the order in which they were passed."""
    goals = y if y.ndim > 1 else np.unique(y, return_inverse=True)[1][:, None]
    return np.lexsort((weight, *(rank_keys(part)[0] for part in (goals, X))))
