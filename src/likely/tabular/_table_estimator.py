"""The base class of regressor and classifier: it reads a table, assigns folds and selects the members to fit."""

import sys
import time
from dataclasses import KW_ONLY, dataclass
from functools import partial
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
import torch
from joblib import effective_n_jobs
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.model_selection import check_cv
from sklearn.utils import check_random_state, check_scalar, column_or_1d
from sklearn.utils.validation import _num_samples, check_is_fitted
from torch import nn

from likely._rows.checks import check_table
from likely._rows.contents import rank_keys
from likely._typing import Array, FilePath, Index
from likely.tabular._columns import Encoders, TableColumns, read_sample
from likely.tabular._importance import Importances, importances
from likely.tabular._saved import load_model, save_model
from likely.tabular._stack import KINDS, Fit, Plan
from likely.tabular.members.estimators import fit_estimator
from likely.tabular.members.network import fit_networks
from likely.tabular.members.task import MemberTable, Task
from likely.tabular.networks.modules import fresh

FOLDS = 5
FOLDS_OF_MANY = 3  # from so many rows on:
MANY_ROWS = 200_000
MAX_DENSE = 200_000_000  # largest number of values in a sparse table that is made dense


@dataclass(eq=False, repr=False)
class TableEstimator(BaseEstimator):
    """An estimator that combines members of different kinds, fitted to one table."""

    model: Any = "auto"
    _: KW_ONLY
    cv: Any = None
    time_limit: float | None = None
    device: Any = None
    n_jobs: int | None = None
    random_state: Any = None
    verbose: Any = 0
    _device = "cpu"  # of kernels and networks; a loaded model is on the CPU

    def _gather(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> tuple[Any, Any, Any, Any]:
        """Return the arguments of a fit in memory, sampled where the table is not."""
        X, y, (sample_weight, groups), total = read_sample(X, y, sample_weight, groups)
        if total is not None:
            self._report(f"read {len(X):,} of {total:,} rows")
        X = _as_frame(X)  # lazy frames have no length
        self.n_rows_read_ = _num_samples(X)
        return X, y, sample_weight, groups

    def _read(self, X: Any, *, reset: bool) -> Any:
        """Check a table; return a frame unchanged, anything else as an array of numbers, NaN where one is missing."""
        X = check_table(self, _as_frame(X), reset=reset, accept_sparse=("csr", "csc", "coo"))
        if not sparse.issparse(X):
            return X
        if X.shape[0] * X.shape[1] > MAX_DENSE:
            raise ValueError(f"X is sparse with {X.shape[1]} columns, too many: reduce them, e.g. with TruncatedSVD")
        return X.toarray()

    def _table(self, X: Any, encoders: Encoders) -> MemberTable:
        """Return the inputs of the members for any rows."""
        plain = self.columns_(X)
        smooth, place = encoders(plain, self._device), np.arange(len(plain))
        return MemberTable(plain, smooth, self.columns_.categories, encoders.effects, X, place)

    def _checked(self, X: Any) -> Any:
        check_is_fitted(self)
        return self._read(X, reset=False)

    def _arranged(
        self, X: Any, ties: Index, strata: Index | None, weight: Array, groups: Any, seed: int
    ) -> tuple[Array, Index, Index]:
        """Learn the columns; return the rows of positive weight as numbers, their positions and their folds.

        Their order depends on the values of rows and targets only, of which ``ties`` holds the ranks.
        """
        self.columns_ = TableColumns.learn(X, weight)
        plain, counted = self.columns_(X), np.flatnonzero(weight > 0)
        order = counted[np.lexsort((weight[counted], ties[counted], rank_keys(plain[counted])[0]))]
        groups = None if groups is None else np.asarray(groups)
        return plain[order], order, self._folds(X, strata, groups, order, seed)

    def _folds(self, X: Any, strata: Index | None, groups: Any, order: Index, seed: int) -> Index:
        """Return the fold of each row in canonical order."""
        cv: Any = self.cv
        n = len(order)
        if cv is None:
            cv = FOLDS_OF_MANY if n >= MANY_ROWS else FOLDS
        if not isinstance(cv, Integral):
            return self._folds_of_splitter(cv, len(X), strata, groups, order)
        check_scalar(cv, "cv", Integral, min_val=2)
        cv, random = min(int(cv), n), np.random.RandomState(seed)
        if groups is not None:
            names, group = np.unique(column_or_1d(groups)[order], return_inverse=True)
            if len(names) < 2:
                raise ValueError("groups has one group only: give at least two, or groups=None")
            sizes, load = np.bincount(group), np.zeros(min(cv, len(names)))
            fold_of = np.empty(len(names), dtype=np.intp)
            shuffled = random.permutation(len(names))
            # The largest group first, to the fold with the fewest rows.
            for place in shuffled[np.argsort(-sizes[shuffled], kind="stable")]:
                fold_of[place] = load.argmin()
                load[fold_of[place]] += sizes[place]
            return fold_of[group]
        shuffled = random.permutation(n)
        if strata is not None:
            shuffled = shuffled[np.argsort(strata[order][shuffled], kind="stable")]
        folds = np.empty(n, dtype=np.intp)
        folds[shuffled] = np.arange(n) % cv
        return folds

    def _folds_of_splitter(self, cv: Any, n: int, strata: Index | None, groups: Any, order: Index) -> Index:
        splits = check_cv(cv).split(np.zeros((n, 1)), strata, groups)
        folds = np.full(n, -1)
        for number, (_, held_out) in enumerate(splits):
            if (folds[held_out] >= 0).any():
                raise ValueError("cv holds out some rows twice: give a splitter that holds out each row once")
            folds[held_out] = number
        if (folds < 0).any():
            raise ValueError("cv never holds out some rows: give a splitter that holds out each row once")
        return np.unique(folds[order], return_inverse=True)[1].reshape(-1)  # folds without positive weight vanish

    def _task(
        self, X: Any, plain: Array, target: Array, weight: Array, folds: Index, order: Index, seed: int
    ) -> tuple[Encoders, Task]:
        """Return the task that members are fitted to, with categories encoded by the targets (rows, outputs)."""
        self._device = str(torch.device(self.device or "cpu"))
        encoders, smooth = Encoders.learn(plain, self.columns_.categories, target, weight, folds, self._device)
        table = MemberTable(plain, smooth, self.columns_.categories, encoders.effects, X, order)
        limit = np.inf if self.time_limit is None else self._began + self.time_limit
        spread = self.n_jobs is not None or effective_n_jobs(None) > 1
        threads = 1 if spread else torch.get_num_threads()
        task = Task(table, target, weight, folds, "identity", seed, threads, self.n_jobs, spread, limit)
        return encoders, task

    def _plan(self, inputs: int, outputs: int) -> Plan:
        if isinstance(self.model, str) and self.model == "auto":
            return Plan(KINDS, False, self._report)
        models = self.model if isinstance(self.model, list | tuple) else [self.model]
        if not models:
            raise ValueError("model is an empty list: give at least one member, or 'auto'")
        fits: dict[str, Fit] = {}
        for model in models:
            name, fit = _member(model, inputs, outputs)
            fits[name if name not in fits else f"{name} {len(fits) + 1}"] = fit
        return Plan(fits, True, self._report)

    def _check_arguments(self) -> None:
        if self.time_limit is not None:
            check_scalar(self.time_limit, "time_limit", Real, min_val=0, include_boundaries="neither")
        self._began = time.monotonic()

    def _report(self, line: str) -> None:
        if callable(self.verbose):
            self.verbose(line)
        elif self.verbose:
            sys.stderr.write(f"{time.monotonic() - self._began:8.1f} s  {line}\n")

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**30))

    def importances(self, X: Any = None, *, n_repeats: int = 3) -> Importances:
        """Measure how much each column matters for the predicted means or probabilities, and for their uncertainty.

        One column at a time is shuffled among the rows, and the change of the predictions is measured.

        Args:
            X: rows to shuffle, of shape (rows, columns); None uses a sample of about 500 training rows.
            n_repeats: how often each column is shuffled.

        Returns:
            The names of the columns and their importances.
        """
        return importances(self, X, n_repeats)

    def save(self, path: FilePath) -> None:
        """Write the fitted model to a file that holds only numbers and text, so that loading it runs no code.

        The file is NumPy's ``.npz`` with a header of JSON. A loaded model makes the same predictions; parameters that
        are not plain values, such as a splitter or a random generator, are loaded as their defaults. An existing file
        is replaced in one step, or stays as it was if writing fails.

        Args:
            path: path of the file; no ending is added.

        Raises:
            TypeError: if a part cannot be saved in this way: an estimator of another library or a module of your own.
                The message names it; joblib and skops can save such models.
        """
        save_model(self, path)

    @classmethod
    def load(cls, path: FilePath) -> Self:
        """Load a fitted model from a file that :meth:`save` wrote.

        Args:
            path: path of the file.

        Returns:
            The fitted estimator; its kernels and networks are on the CPU.

        Raises:
            ValueError: if the file is damaged, or was not written by :meth:`save` of this class.
            ImportError: if the library of the frame that it was fitted to is not installed.
        """
        return load_model(cls, path)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.input_tags.categorical = True
        return tags


def _as_frame(X: Any) -> Any:
    """Convert Arrow tables to pandas frames, and collect lazy Polars frames."""
    if type(X).__module__.split(".")[0] == "polars" and hasattr(X, "collect"):
        return X.collect()
    if type(X).__module__.split(".")[0] == "pyarrow" and hasattr(X, "to_pandas"):
        return X.to_pandas()
    return X


def _member(model: Any, inputs: int, outputs: int) -> tuple[str, Fit]:
    if isinstance(model, str):
        if model not in KINDS:
            names = ", ".join(KINDS)
            raise ValueError(f"model must be 'auto', one of {names}, an estimator or a module; got {model!r}")
        return model, KINDS[model]
    if isinstance(model, nn.Module):
        return type(model).__name__, partial(fit_networks, make=partial(fresh, model))
    if hasattr(model, "fit") and hasattr(model, "predict") and not isinstance(model, type):
        return type(model).__name__, partial(fit_estimator, estimator=model)
    if callable(model) and not isinstance(model, type):
        return getattr(model, "__name__", "module"), partial(fit_networks, make=partial(model, inputs, outputs))
    raise TypeError(f"model must be a name, a scikit-learn estimator, a module or a list of them; got {model!r}")
