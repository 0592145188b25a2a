"""Alternatives to our estimators: LightGBM, CatBoost, XGBoost, RealMLP, AutoGluon, NGBoost and a Gaussian process.

Each takes a problem and returns a prediction for its test rows: a distribution, or the probabilities of classes. Trees
and RealMLP are cross-fitted on five folds, stopped early on the held-out fold, and averaged. AutoGluon chooses its own
folds and members; it gets ten times our time.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.model_selection import KFold, StratifiedKFold
from torch.distributions import Distribution, Normal, Poisson

from experiments.benchmarks._tabular_columns import categories, one_hot, texts, with_medians
from experiments.benchmarks._tabular_problems import Problem

Array = NDArray[np.float64]
Prediction = Distribution | Array
LIGHTGBM, CATBOOST, REALMLP, NGBOOST, GP = "LightGBM", "CatBoost", "RealMLP", "NGBoost", "GP"
XGBOOST, AUTOGLUON = "XGBoost", "AutoGluon"
MODULES = {
    LIGHTGBM: "lightgbm",
    CATBOOST: "catboost",
    XGBOOST: "xgboost",
    REALMLP: "pytabkit",
    AUTOGLUON: "autogluon",
    NGBOOST: "ngboost",
    GP: "sklearn",
}
FOLDS, ROUNDS, PATIENCE, RATE = 5, 2000, 50, 0.05
AUTOGLUON_TIMES, AUTOGLUON_SECONDS = 10, 60  # times our CPU seconds, and the least: its folds need some
GP_ROWS, GP_COLUMNS = 1200, 40  # maxima: the time grows with the cube of the rows and with the columns


def rivals(problem: Problem, seconds: float) -> dict[str, Callable[[Problem], Prediction]]:
    """Return the functions, by name, of rivals that are installed and support the problem; ours took some seconds."""
    fits: dict[str, Callable[[Problem], Prediction]] = {LIGHTGBM: lightgbm, CATBOOST: catboost, XGBOOST: xgboost}
    if problem.kind != "counts":
        fits |= {REALMLP: realmlp, AUTOGLUON: partial(autogluon, seconds=AUTOGLUON_TIMES * seconds)}
    if problem.kind == "regression":
        fits[NGBOOST] = ngboost
        if not problem.has_categories and problem.X.shape[1] <= GP_COLUMNS:
            fits[GP] = gaussian_process
    return {name: fit for name, fit in fits.items() if find_spec(MODULES[name])}


def lightgbm(problem: Problem) -> Prediction:
    """Fit one model per fold; the scale is that of the out-of-fold residuals."""
    import lightgbm as lgb

    X, X_test = categories(problem.X, problem.X_test)
    y, classes = problem.learned, problem.classes
    objective = {"regression": "l2", "counts": "poisson", "classes": "binary" if classes == 2 else "multiclass"}
    settings: dict[str, Any] = {
        "objective": objective[problem.kind],
        "learning_rate": RATE,
        "num_leaves": 31,
        "min_data_in_leaf": 10,
        "feature_fraction": 0.8,
        "num_threads": 1,
        "verbose": -1,
        "seed": 0,
        "deterministic": True,
    }
    if problem.kind == "classes" and classes > 2:
        settings["num_class"] = classes

    def fit(train: NDArray[np.int64], left_out: NDArray[np.int64]) -> Callable[[pd.DataFrame], Array]:
        rows = lgb.Dataset(X.iloc[train], y[train], params={"verbose": -1})
        held_out = lgb.Dataset(X.iloc[left_out], y[left_out], reference=rows)
        model = lgb.train(settings, rows, ROUNDS, [held_out], callbacks=[lgb.early_stopping(PATIENCE, verbose=False)])
        return lambda rows: np.asarray(model.predict(rows))

    return _cross_fitted(problem, X, X_test, fit)


def catboost(problem: Problem) -> Prediction:
    """Fit one model per fold, which also predicts a variance per row."""
    from catboost import CatBoostClassifier, CatBoostRegressor, Pool

    X, X_test, text_columns = texts(problem.X, problem.X_test)
    y = problem.learned
    settings: dict[str, Any] = {
        "iterations": ROUNDS,
        "learning_rate": RATE,
        "thread_count": 1,
        "random_seed": 0,
        "verbose": False,
        "allow_writing_files": False,
        "early_stopping_rounds": PATIENCE,
        "cat_features": text_columns,
    }

    def fit(train: NDArray[np.int64], left_out: NDArray[np.int64]) -> Callable[[pd.DataFrame], Array]:
        held_out = Pool(X.iloc[left_out], y[left_out], cat_features=text_columns)
        if problem.kind == "classes":
            classifier = CatBoostClassifier(**settings).fit(X.iloc[train], y[train], eval_set=held_out)
            return lambda rows: np.asarray(classifier.predict_proba(rows))
        loss = "Poisson" if problem.kind == "counts" else "RMSEWithUncertainty"
        model = CatBoostRegressor(loss_function=loss, **settings).fit(X.iloc[train], y[train], eval_set=held_out)
        kind = {"prediction_type": "Exponent"} if problem.kind == "counts" else {}
        return lambda rows: np.asarray(model.predict(rows, **kind))

    return _cross_fitted(problem, X, X_test, fit)


def xgboost(problem: Problem) -> Prediction:
    """Fit one model per fold; the scale is that of the out-of-fold residuals."""
    import xgboost as xgb

    X, X_test = categories(problem.X, problem.X_test)
    y, classes = problem.learned, problem.classes
    objective = {"regression": "reg:squarederror", "counts": "count:poisson"}
    settings: dict[str, Any] = {
        "objective": objective.get(problem.kind, "binary:logistic" if classes == 2 else "multi:softprob"),
        "learning_rate": RATE,
        "colsample_bytree": 0.8,
        "nthread": 1,
        "seed": 0,
        "verbosity": 0,
    }
    if problem.kind == "classes" and classes > 2:
        settings["num_class"] = classes

    def fit(train: NDArray[np.int64], left_out: NDArray[np.int64]) -> Callable[[pd.DataFrame], Array]:
        rows, held_out = (xgb.DMatrix(X.iloc[part], y[part], enable_categorical=True) for part in (train, left_out))
        model = xgb.train(
            settings, rows, ROUNDS, [(held_out, "held_out")], early_stopping_rounds=PATIENCE, verbose_eval=False
        )
        rounds = (0, model.best_iteration + 1)
        return lambda rows: np.asarray(
            model.predict(xgb.DMatrix(rows, enable_categorical=True), iteration_range=rounds), dtype=np.float64
        )

    return _cross_fitted(problem, X, X_test, fit)


def autogluon(problem: Problem, seconds: float) -> Prediction:
    """Fit AutoGluon's best quality within some seconds of CPU time; the scale is that of its out-of-fold residuals."""
    from autogluon.tabular import TabularPredictor

    rows = problem.X.assign(target=problem.learned)
    is_classes = problem.kind == "classes"
    kinds = {"eval_metric": "log_loss", "problem_type": "binary" if problem.classes == 2 else "multiclass"}
    kinds = kinds if is_classes else {"eval_metric": "root_mean_squared_error", "problem_type": "regression"}
    with tempfile.TemporaryDirectory() as folder, _silently(), patch("time.time", time.process_time):
        model = TabularPredictor("target", path=folder, verbosity=0, **kinds)
        model.fit(rows, presets="best_quality", time_limit=max(AUTOGLUON_SECONDS, seconds), num_cpus=1, num_gpus=0)
        if is_classes:
            proba = np.zeros((len(problem.X_test), problem.classes))
            proba[:, np.asarray(model.class_labels, dtype=np.int64)] = model.predict_proba(problem.X_test)
            return proba
        mean, residuals = model.predict(problem.X_test), model.predict_oof() - problem.learned
    return problem.in_units_of_target(np.asarray(mean, dtype=np.float64), _root_mean_square(np.asarray(residuals)))


def realmlp(problem: Problem) -> Prediction:
    """Fit RealMLP-TD, an ensemble over five folds, with the settings that its authors recommend for the log-loss."""
    from pytabkit import RealMLP_TD_Classifier, RealMLP_TD_Regressor

    X, X_test = with_medians(*categories(problem.X, problem.X_test))
    size = len(X) // FOLDS  # folds must have the same size: up to four rows are in none
    order = np.random.default_rng(0).permutation(len(X))
    folds = np.sort(order[: FOLDS * size].reshape(FOLDS, size), axis=1)
    kind: Callable[..., Any] = RealMLP_TD_Regressor
    if problem.kind == "classes":
        kind = partial(RealMLP_TD_Classifier, val_metric_name="cross_entropy", use_ls=False)
    with tempfile.TemporaryDirectory() as folder, _silently():
        model = kind(device="cpu", random_state=0, n_cv=FOLDS, n_threads=1, tmp_folder=folder, verbosity=0)
        model.fit(X, problem.learned, val_idxs=folds)
        if problem.kind == "classes":
            return np.asarray(model.predict_proba(X_test), dtype=np.float64)
        fold_means = np.asarray(model.predict_ensemble(X), dtype=np.float64).reshape(FOLDS, len(X))
        mean = np.asarray(model.predict(X_test), dtype=np.float64).ravel()
    residuals = np.concatenate([(fold_means[k] - problem.learned)[fold] for k, fold in enumerate(folds)])
    return problem.in_units_of_target(mean, _root_mean_square(residuals))


def ngboost(problem: Problem) -> Prediction:
    """Fit natural-gradient boosting of a normal with its defaults; categories one-hot, medians for missing numbers."""
    from ngboost import NGBRegressor

    X, X_test = one_hot(problem.X, problem.X_test)
    prediction = NGBRegressor(verbose=False, random_state=0).fit(X, problem.learned).pred_dist(X_test)
    return problem.in_units_of_target(prediction.loc, prediction.scale)


def gaussian_process(problem: Problem) -> Prediction:
    """Fit one length per column and one noise level, by marginal likelihood on a sample of the rows."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    X, X_test = one_hot(problem.X, problem.X_test)
    sample = np.random.default_rng(0).permutation(len(X))[:GP_ROWS]
    # Started at little noise, the search ends on some sets at lengths so short that the rows are interpolated.
    kernel = ConstantKernel() * RBF(np.full(X.shape[1], np.sqrt(X.shape[1]))) + WhiteKernel(0.5, (1e-8, 10))
    model = GaussianProcessRegressor(kernel, random_state=0).fit(X[sample], problem.learned[sample])
    mean, scale = model.predict(X_test, return_std=True)
    return problem.in_units_of_target(mean, scale)


def _cross_fitted(
    problem: Problem,
    X: pd.DataFrame,
    X_test: pd.DataFrame,
    fit: Callable[[NDArray[np.int64], NDArray[np.int64]], Callable[[pd.DataFrame], Array]],
) -> Prediction:
    """Average the predictions of the folds; without predicted variances, the scale is that of held-out residuals."""
    parts, residuals = [], []
    for train, left_out in _folds(problem):
        predict = fit(train, left_out)
        parts.append(predict(X_test))
        if problem.kind == "regression" and parts[-1].ndim == 1:
            residuals.append(predict(X.iloc[left_out]) - problem.learned[left_out])
    mean = np.mean(parts, axis=0)
    if problem.kind == "classes":
        return np.stack([1 - mean, mean], 1) if mean.ndim == 1 else mean
    if problem.kind == "counts":
        return Poisson(torch.from_numpy(np.maximum(mean, 1e-9)))
    if residuals:
        return problem.in_units_of_target(mean, _root_mean_square(np.concatenate(residuals)))
    variance = mean[:, 1] + np.var([part[:, 0] for part in parts], axis=0)  # the variance of a mixture over folds
    return problem.in_units_of_target(mean[:, 0], np.sqrt(variance))


def _folds(problem: Problem) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    kind = StratifiedKFold if problem.kind == "classes" else KFold
    yield from kind(FOLDS, shuffle=True, random_state=0).split(problem.X, problem.learned)


def _root_mean_square(residuals: Array) -> float:
    return float(np.sqrt(np.mean(np.square(residuals))))


@contextlib.contextmanager
def _silently() -> Iterator[None]:
    """Suppress all output of a library."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


__all__ = ["AUTOGLUON", "CATBOOST", "GP", "LIGHTGBM", "NGBOOST", "REALMLP", "XGBOOST", "Normal", "Prediction", "rivals"]
