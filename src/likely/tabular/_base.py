"""The base class of the two network estimators: arguments, training, and the mixture of an ensemble's members."""

from __future__ import annotations

import os
import sys
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import Any, Self

import joblib
import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state, check_scalar
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from likely._rows.blocks import Rows as TableRows
from likely._rows.checks import all_or_nothing, check_sample_weight
from likely._rows.contents import contents
from likely._solvers.training import Progress
from likely._typing import Array
from likely.tabular._fitting import Recipe, Second, fit_members, fit_two_stage, nll_at, start_members
from likely.tabular._likelihoods import Likelihood
from likely.tabular._members import fresh
from likely.tabular._processes import Processes
from likely.tabular._rows import Rows, in_chunks
from likely.tabular._sample import read_sample

OBJECTIVES = ("two_stage", "joint", "beta", "faithful")
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adamw": partial(torch.optim.AdamW, fused=True),
    "adam": partial(torch.optim.Adam, fused=True),
    "sgd": partial(torch.optim.SGD, fused=True),
    "rmsprop": torch.optim.RMSprop,
}
# Arguments that may change between a run and its resumption.
FREE = ("callbacks", "checkpoint", "device", "model", "n_jobs", "verbose")
FLOATS = (np.float64, np.float32)


class LikelihoodModel(BaseEstimator):
    """A scikit-learn estimator whose loss is a likelihood with parameters that learn."""

    model: Any
    hidden: Sequence[int]
    objective: str
    cv: int | None
    ensemble: int | None
    optimizer: Any
    learning_rate: float
    weight_decay: float
    dropout: float
    batch_size: int | None
    max_steps: int
    patience: int
    device: Any
    random_state: Any
    callbacks: Sequence[Callable[[Progress], Any]] | None
    checkpoint: Any
    n_jobs: int | None
    verbose: int
    outlier_scores_: Array
    out_of_fold_: Array
    second_: Second | None

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train the networks and the parameters of their likelihood.

        The order of the rows does not matter. A row of weight two counts twice in every loss. It is in one batch and
        one fold, though, where two equal rows may be in different ones, so the two fits agree in distribution only.

        Where :mod:`torch.distributed` is initialised (by torchrun's script or Ray Train), call it in every process
        with the same rows. Each computes the gradients of its share of each batch, and all get the same model.

        Args:
            X: table of shape (rows, inputs), without missing values. From a table that is not in memory (a path, glob
                or URL of files, a Dask array or frame) a regular sample of rows is read, at most 2²⁵ numbers in all.
            y: targets of shape (rows,) or (rows, targets); for a classifier labels of shape (rows,). For a table that
                is not in memory also the name of a column, or a Dask series.
            sample_weight: one weight per row, of which only the ratios matter; None weights all rows equally.

        Returns:
            The fitted estimator itself.

        Raises:
            ValueError: if an argument is out of its range, or X or y contains NaN or infinite values; in a distributed
                run also if the processes were given different rows, or ``checkpoint`` is not None.
        """
        X, y, (sample_weight,), _ = read_sample(X, y, sample_weight)
        X, y = self._checked(X, y, reset=True)
        self.n_rows_read_ = len(X)
        weight = _weights(sample_weight, X)
        if self.ensemble is not None:
            self._settings()
            self.estimators_ = self._fit_ensemble(X, y, weight)
            self.outlier_scores_ = np.mean([e.outlier_scores_ for e in self.estimators_], 0)
            self.out_of_fold_ = np.mean([e.out_of_fold_ for e in self.estimators_], 0)
            return self
        likelihood = self._settings()
        order = _canonical(X, y, weight)  # folds and batches then follow from the set of rows
        rows = self._rows(X[order], y[order], weight[order], reset=True)
        likelihood = likelihood.at(rows.y)
        recipe = self._recipe(rows, self._seed(rows))
        if self.objective == "two_stage":
            self.training_, self.second_, prediction, history = fit_two_stage(rows, likelihood, recipe)
            phi = self.second_.mean(rows.x, prediction)
        else:
            self.training_, folds, history = fit_members(rows, likelihood, self.objective, recipe)
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
        recipe.delete_checkpoints()
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on further rows, in one pass over them.

        A stream has no rows to hold out: where nothing was fitted before, ``"two_stage"`` trains as ``"faithful"``
        does, and inputs are standardized by the first rows. After :meth:`fit` the networks are trained further, and
        their second stage stays as it is.

        Args:
            X: table of shape (rows, inputs), without missing values.
            y: targets of shape (rows,) or (rows, targets), as in :meth:`fit`.
            sample_weight: one weight per row, of which only the ratios matter; None weights all rows equally.

        Returns:
            The estimator itself.

        Raises:
            ValueError: if ``ensemble`` is not None, or a parameter is ``"data"``.
        """
        fresh_start = not hasattr(self, "training_")
        X, y = self._checked(X, y, reset=fresh_start)
        weight = _weights(sample_weight, X)
        if self.ensemble is not None:
            raise ValueError("partial_fit does not train an ensemble: set ensemble=None")
        rows = self._rows(X, y, weight, reset=fresh_start)
        seed = self._seed(rows)
        recipe = replace(self._recipe(rows, seed), checkpoint=None)
        if fresh_start:
            likelihood = self._settings().at(rows.y)
            if likelihood.having("data"):
                raise ValueError(
                    "partial_fit has no fixed set of rows, so no parameter can be 'data': use 'predicted' or 'global'"
                )
            objective = "faithful" if self.objective == "two_stage" else self.objective
            self.training_, self.second_, self.n_steps_ = start_members(rows, likelihood, objective, recipe), None, 0
        steps = -(-len(X) // (recipe.batch_size or len(X)))
        self.training_.run(rows, None, replace(recipe, max_steps=steps, seed=seed + self.n_steps_))
        self.n_steps_ += steps
        return self

    def _fit_ensemble(self, X: Any, y: Any, weight: Array) -> list[Self]:
        seeds = check_random_state(self.random_state).randint(2**31 - 1, size=self.ensemble)
        members = [clone(self).set_params(ensemble=None, n_jobs=None, random_state=int(seed)) for seed in seeds]
        if self.checkpoint is not None:
            for number, member in enumerate(members):
                member.set_params(checkpoint=f"{self.checkpoint}.{number}")
        if Processes.current().count > 1:  # the processes train one member after the other together
            return [_fitted(member, X, y, weight) for member in members]
        jobs = (joblib.delayed(_fitted)(member, X, y, weight) for member in members)
        return joblib.Parallel(n_jobs=self.n_jobs)(jobs)

    def _parts(self) -> list[Self]:
        """The fitted members of an ensemble; without an ensemble, this estimator alone."""
        check_is_fitted(self, "estimators_" if self.ensemble is not None else "training_")
        return self.estimators_ if self.ensemble is not None else [self]

    def _components(self, X: Any) -> tuple[Tensor, dict[str, Tensor]]:
        """Predictions (components, rows, outputs) and likelihood parameters of each, in the model's units."""
        X = validate_data(self, X, reset=False, dtype=FLOATS)
        predictions, phis = zip(*(part._network_components(X) for part in self._parts()), strict=True)
        return torch.cat(predictions), {name: torch.cat([phi[name] for phi in phis]) for name in phis[0]}

    def _network_components(self, X: NDArray[np.floating]) -> tuple[Tensor, dict[str, Tensor]]:
        model, loss_fn = self.training_.fitted.model, self.training_.fitted.loss_fn
        device = next(model.parameters()).device

        def compute(rows: slice) -> dict[str, Tensor]:
            x = self.units_.inputs(X[rows], device)
            prediction, features = model(x)
            if self.second_ is None:
                phi = {name: getattr(loss_fn, name)(features=features) for name in loss_fn.slots}
            else:
                phi = self.second_(x, prediction.mean(0))
            shape = self._phi_shape(prediction)
            expanded = self.training_.likelihood.expanded
            values = {"prediction": prediction, **{name: expanded(name, value, shape) for name, value in phi.items()}}
            return {name: value.double().cpu() for name, value in values.items()}

        phi = in_chunks(len(X), compute, 1)
        return phi.pop("prediction"), phi

    @abstractmethod
    def _likelihood(self) -> Likelihood: ...

    @abstractmethod
    def _checked(self, X: Any, y: Any, *, reset: bool) -> tuple[NDArray[np.floating], NDArray[Any]]: ...

    @abstractmethod
    def _rows(self, X: NDArray[np.floating], y: NDArray[Any], weight: Array, *, reset: bool) -> Rows: ...

    @abstractmethod
    def _out_of_fold(self, prediction: Tensor, phi: dict[str, Tensor]) -> Array: ...

    @abstractmethod
    def _row_scores(self, rows: Rows, nll: Array) -> Array: ...

    @abstractmethod
    def _phi_shape(self, prediction: Tensor) -> torch.Size: ...

    def _settings(self) -> Likelihood:
        """The likelihood, after a check of all arguments."""
        if self.objective not in OBJECTIVES:
            raise ValueError(f"objective must be one of {', '.join(OBJECTIVES)}; got {self.objective!r}")
        if self.objective == "two_stage" and self.cv is None:
            raise ValueError("objective='two_stage' needs held-out rows: set cv, or choose objective='joint'")
        if self.cv is not None and self.cv < 2:
            raise ValueError(f"cv must be at least 2, or None to train one model on all rows; got {self.cv}")
        if not np.iterable(self.hidden) or isinstance(self.hidden, str):
            raise TypeError(f"hidden must be the sizes of the hidden layers, such as (64, 64); got {self.hidden!r}")
        for units in self.hidden:
            check_scalar(units, "a hidden layer", Integral, min_val=1)
        for name, least in (("cv", 2), ("ensemble", 1), ("batch_size", 1), ("max_steps", 0), ("patience", 1)):
            if getattr(self, name) is not None or name in ("max_steps", "patience"):
                check_scalar(getattr(self, name), name, Integral, min_val=least)
        check_scalar(self.dropout, "dropout", Real, min_val=0, max_val=1, include_boundaries="left")
        check_scalar(self.learning_rate, "learning_rate", Real, min_val=0, include_boundaries="neither")
        check_scalar(self.weight_decay, "weight_decay", Real, min_val=0)
        return self._likelihood()

    def _seed(self, rows: Rows) -> int:
        """The seed of a fit, the same in all processes of a distributed run."""
        processes = Processes.current()
        if processes.count > 1 and self.checkpoint is not None:
            raise ValueError("checkpoint must be None where several processes train one network")
        processes.check_same(rows)
        return int(processes.value_of_first(check_random_state(self.random_state).randint(2**31 - 1), rows.x.device))

    def _recipe(self, rows: Rows, seed: int) -> Recipe:
        optimizer = self.optimizer if callable(self.optimizer) else OPTIMIZERS.get(self.optimizer)
        if optimizer is None:
            names = ", ".join(OPTIMIZERS)
            raise ValueError(f"optimizer must be one of {names} or a torch optimizer; got {self.optimizer!r}")
        settings = {name: repr(value) for name, value in self.get_params(deep=False).items() if name not in FREE}
        fingerprint = {"rows": len(rows.x), "sum of inputs": rows.checksum(), "seed": int(seed), **settings}
        return Recipe(
            make=self._make(rows),
            hidden=tuple(self.hidden),
            dropout=self.dropout,
            optimizer=optimizer,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            batch_size=self.batch_size,
            max_steps=self.max_steps,
            patience=self.patience,
            cv=self.cv,
            seed=int(seed),
            callbacks=[*(self.callbacks or ()), *([Bar()] if self.verbose and Processes.current().rank == 0 else ())],
            checkpoint=None if self.checkpoint is None else os.fspath(self.checkpoint),
            fingerprint=fingerprint,
        )

    def _make(self, rows: Rows) -> Callable[[], nn.Module] | None:
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


def _weights(sample_weight: Any, X: NDArray[np.floating]) -> Array:
    weight = check_sample_weight(sample_weight, X)
    return np.ones(len(X)) if weight is None else weight / weight.mean()


def _canonical(X: NDArray[np.floating], y: NDArray[Any], weight: Array) -> NDArray[np.intp]:
    """An order of the rows that depends on their values only, not on the order in which they were passed."""
    ties = contents(TableRows(y)) if y.ndim > 1 else np.unique(y, return_inverse=True)[1]
    return np.lexsort((weight, ties.reshape(-1), contents(TableRows(X))))


def _fitted(member: Any, X: Any, y: Any, weight: Array) -> Any:
    return member.fit(X, y, sample_weight=weight)


class Bar:
    """A progress bar on the error stream."""

    def __call__(self, progress: Progress) -> None:
        """Redraw the bar."""
        held_out = f", held out {np.mean(progress.held_out):.4f}" if progress.held_out else ""
        share = progress.step / progress.max_steps
        bar = ("█" * round(24 * share)).ljust(24, "░")
        sys.stderr.write(f"\r{bar} step {progress.step}/{progress.max_steps}, loss {progress.loss:.4f}{held_out} ")
        sys.stderr.flush()
