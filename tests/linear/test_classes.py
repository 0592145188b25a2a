"""Logistic regression of three classes or more: one softmax, whose ridge is learned."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from likely.linear import DynamicLogisticRegression, RobustLogisticRegression


def few_rows(load: Callable[..., Any], seed: int) -> Any:
    X, y = load(return_X_y=True)
    return train_test_split(X, y, train_size=60, stratify=y, random_state=seed)


@pytest.mark.parametrize("kind", [DynamicLogisticRegression, RobustLogisticRegression])
def test_few_rows_of_real_tables_need_no_search(kind: Any) -> None:
    by_search = LogisticRegressionCV(cv=3, scoring="neg_log_loss", use_legacy_attributes=False)
    above = []
    for load in (load_iris, load_wine, load_digits):
        X, X_new, y, y_new = few_rows(load, seed=4)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            searched = make_pipeline(StandardScaler(), by_search).fit(X, y)
        learned = kind().fit(X, y)
        above.append(log_loss(y_new, learned.predict_proba(X_new)) - log_loss(y_new, searched.predict_proba(X_new)))
    assert np.mean(above) < 0.05  # one model for each class against the rest: .15
    assert max(above) < 0.12


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_softmax_is_that_of_scikit_learn_at_the_learned_strength(fit_intercept: bool) -> None:
    X, X_new, y, _ = few_rows(load_wine, seed=0)
    about = X.mean(0) if fit_intercept else np.zeros(X.shape[1])
    deviation = np.sqrt(np.square(X - about).mean(0))
    ours = DynamicLogisticRegression(fit_intercept=fit_intercept, max_iter=1000).fit(X, y)
    given = LogisticRegression(C=float(ours.prior_scale_[0]) ** 2, fit_intercept=fit_intercept, tol=1e-9, max_iter=9999)
    theirs = given.fit((X - about) / deviation, y).predict_proba((X_new - about) / deviation)
    np.testing.assert_allclose(ours.predict_proba(X_new), theirs, atol=1e-5)
    np.testing.assert_allclose(ours.predict_proba(X_new), softmax(ours.decision_function(X_new), axis=1), atol=1e-12)


def test_columns_of_noise_leave_the_shares_of_the_classes() -> None:
    rng = np.random.default_rng(0)
    X, y, new = rng.normal(size=(60, 40)), np.repeat([0, 1, 2], [10, 20, 30]), rng.normal(size=(50, 40))
    for model in (DynamicLogisticRegression(), RobustLogisticRegression()):
        np.testing.assert_allclose(model.fit(X, y).predict_proba(new), [[1 / 6, 1 / 3, 1 / 2]] * 50, atol=0.02)
