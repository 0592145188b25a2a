"""Stacks of few trees, centres and steps: for tests of what a fit does, not how well."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

from likely.tabular import LikelihoodClassifier, LikelihoodRegressor
from likely.tabular.members import estimators, kernel, linear, network, task


def cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave every kind of member in, each a fraction of its size."""
    grown = estimators.Growth.on

    def on(growth: estimators.Growth, rows: int) -> estimators.Growth:
        own = grown(growth, rows)
        return replace(own, rate=4 * own.rate, rounds=min(own.rounds, 10), patience=2)

    monkeypatch.setattr(estimators.Growth, "on", on)
    monkeypatch.setattr(estimators, "TREES", 3)
    monkeypatch.setattr(estimators, "CLASS_TREES", 3)
    monkeypatch.setattr(kernel, "CENTRES", 60)
    monkeypatch.setattr(kernel, "SCOUTS", 30)
    monkeypatch.setattr(kernel, "METRIC_ROWS", 200)
    monkeypatch.setattr(kernel, "SHAPES", ("normal",))
    monkeypatch.setattr(kernel, "ROUNDS", 2)
    monkeypatch.setattr(network, "STEPS", 20)
    monkeypatch.setattr(network, "HIDDEN", (16,))
    monkeypatch.setattr(network, "MANY_STEPS", 20)
    monkeypatch.setattr(network, "MANY_HIDDEN", (16,))
    monkeypatch.setattr(task, "minimize", partial(minimize, options={"maxiter": 3}))
    monkeypatch.setattr(linear, "MOST_STEPS", 8)
    monkeypatch.setattr(linear, "FEW_STEPS", 4)
    monkeypatch.setattr(kernel, "RIDGES", (3.0, 0.03))
    monkeypatch.setattr(kernel, "FEWER", (0.3,))
    monkeypatch.setattr(kernel, "LENGTHS", (1.0,))


def regressor(model: Any = "auto", **options: Any) -> LikelihoodRegressor:
    return LikelihoodRegressor(model, **{"cv": 2, "random_state": 0, **options})


def classifier(model: Any = "auto", **options: Any) -> LikelihoodClassifier:
    return LikelihoodClassifier(model, **{"cv": 2, "random_state": 0, **options})


def usable(model: LikelihoodRegressor | LikelihoodClassifier, X: Any) -> None:
    """Answers are finite and make sense, whatever the table."""
    if isinstance(model, LikelihoodClassifier):
        proba = model.predict_proba(X)
        assert np.isfinite(proba).all()
        np.testing.assert_allclose(proba.sum(1), 1)
        return
    mean, std = model.predict(X, return_std=True)
    quantiles = model.predict_quantile(X, [0.05, 0.5, 0.95])
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
    assert (std > 0).all()
    assert np.isfinite(quantiles).all()
    assert (np.diff(quantiles) >= 0).all()


def mixed_table(n: int = 120) -> tuple[pd.DataFrame, np.ndarray]:
    """Columns of every kind that a file may hold, and a target of two of them."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "number": rng.normal(size=n),
            "gaps": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n)),
            "name": rng.choice(["a", "b", "c"], n),
            "many": [f"level {i}" for i in rng.integers(0, 30, n)],
            "category": pd.Categorical(rng.choice(["x", "y"], n)),
            "ordered": pd.Categorical(rng.choice(["low", "high"], n), ["low", "high"], ordered=True),
            "flag": rng.random(n) < 0.5,
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D"),
            "length": pd.to_timedelta(rng.integers(0, 900, n), unit="h"),
            "constant": 1.0,
            "one name": "same",
            "missing": np.nan,
            "id": [f"row {i}" for i in range(n)],
        }
    )
    frame["copy"] = frame["number"]
    frame.loc[:4, "name"] = None
    frame.loc[3:8, "day"] = pd.NaT
    y = frame["number"] + 2 * (frame["name"] == "b") + 0.3 * rng.normal(size=n)
    return frame, y.to_numpy(copy=True)
