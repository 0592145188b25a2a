"""Plain questions to every linear model: any size, any container, nothing to learn, fresh rows, a fit that fails."""

from __future__ import annotations

import threading

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone

from linear_models import CLASSIFIERS, MODELS, ROBUST, SELF_TUNING, answer, largest_change, problem, target_of
from pairwise import together

REGRESSORS = [*SELF_TUNING, *ROBUST]


@pytest.mark.parametrize("model", [*REGRESSORS, *CLASSIFIERS], ids=str)
def test_columns_of_any_size(model) -> None:
    X, y = problem(d=6)
    target = target_of(model, y)
    expected = answer(clone(model).fit(X, target), X)
    for units in (1e-70, 1e70, np.array([1e70, 1e-70, 1.0, 1e-60, 1e10, 1e-50])):
        fitted = clone(model).fit(X * units, target)
        assert largest_change(expected, answer(fitted, X * units)) < 1e-5
        if hasattr(model, "predict_proba") or getattr(model, "scale", None) == "predicted_xy":
            continue
        assert np.isfinite(fitted.predict(X * units, return_std=True)).all()
    for size in (1e-80, 1e200):
        with pytest.raises(ValueError, match=r"column 2 of X is as large as .*: give column 2 of X in other units"):
            clone(model).fit(X * np.where(np.arange(6) == 2, size, 1.0), target)


@pytest.mark.parametrize("size", [1e-70, 1e70])
def test_principal_components_of_any_size(size: float) -> None:
    X, _ = problem()
    one, other = clone(MODELS[-1]).fit(X), clone(MODELS[-1]).fit(X * size)
    np.testing.assert_allclose(other.components_, one.components_, atol=1e-6)
    np.testing.assert_allclose(other.outlier_score(X * size) / size, one.outlier_score(X), rtol=1e-6)
    np.testing.assert_allclose(other.weights_, one.weights_, rtol=1e-6)


@together("size", [1e-70, 1e70])
@pytest.mark.parametrize("model", REGRESSORS, ids=str)
def test_targets_of_nearly_any_size(model, size: float) -> None:
    X, y = problem()
    one, other = clone(model).fit(X, y), clone(model).fit(X, size * y)
    assert largest_change(one.predict(X), other.predict(X) / size) < 1e-6


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_containers_agree(model) -> None:
    X, y = problem()
    X = X.astype(np.float32).astype(float)
    target = target_of(model, y)
    expected = answer(clone(model).fit(X, target), X)
    strided = np.zeros((2 * len(X), 3 * X.shape[1]))[::2, ::3]
    strided[...] = X
    names = [f"x{k}" for k in range(X.shape[1])]
    for table in (
        np.asfortranarray(X),
        strided,
        X.astype(np.float32),
        pd.DataFrame(X, columns=names),
    ):
        assert largest_change(expected, answer(clone(model).fit(table, target), table)) < 1e-6
    if model.__sklearn_tags__().input_tags.sparse:
        for table in (sparse.csr_array(X), sparse.csc_matrix(X)):
            assert largest_change(expected, answer(clone(model).fit(table, target), table)) < 1e-4


@pytest.mark.parametrize("model", [*ROBUST[:1], *SELF_TUNING[:1], CLASSIFIERS[-1]], ids=str)
def test_threads_agree(model) -> None:
    X, y = problem()
    y[::6] += 20
    target = target_of(model, y)
    expected, answers = answer(clone(model).fit(X, target), X), []
    threads = [
        threading.Thread(target=lambda: answers.append(answer(clone(model).fit(X, target), X))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 4
    assert max(largest_change(expected, each) for each in answers) < 1e-12


@pytest.mark.filterwarnings("ignore:.*too few to tell outliers")
@pytest.mark.parametrize("model", REGRESSORS, ids=str)
def test_tables_with_nothing_in_them(model) -> None:
    X, y = problem()
    for flat in (np.zeros_like(X), np.full_like(X, 3.3)):
        fitted = clone(model).fit(flat, y)
        assert not fitted.coef_.any()
        assert np.ptp(fitted.predict(flat)) == 0
        if model in SELF_TUNING:
            np.testing.assert_allclose(fitted.predict(flat), y.mean())
    constant = clone(model).fit(X, np.full(len(y), 2.0))
    np.testing.assert_allclose(constant.predict(X), 2, rtol=1e-9)
    for few in (2, 3):
        assert np.isfinite(clone(model).fit(X[:few], y[:few]).predict(X)).all()
    assert np.isfinite(clone(model).fit(X[:, :1], y).predict(X[:, :1])).all()


@pytest.mark.parametrize("model", SELF_TUNING, ids=str)
def test_noise_is_called_noise(model) -> None:
    explained = []
    for seed in range(5):
        rng = np.random.default_rng(100 + seed)
        X, y = rng.normal(size=(300, 20)), rng.normal(size=300)
        fitted = clone(model).fit(X, y)
        assert fitted.sigma_ == pytest.approx(y.std(), rel=0.1)
        explained.append(fitted.predict(X).var() / y.var())
    assert np.median(explained) < 0.05


@pytest.mark.parametrize("model", CLASSIFIERS, ids=str)
def test_random_labels_get_their_shares(model) -> None:
    gaps = []
    for seed in range(3):
        rng = np.random.default_rng(200 + seed)
        X, labels, fresh = rng.normal(size=(400, 5)), rng.random(400) < 0.3, rng.normal(size=(1000, 5))
        gaps.append(np.abs(clone(model).fit(X, labels).predict_proba(fresh)[:, 1] - 0.3).mean())
    assert np.median(gaps) < 0.08


@pytest.mark.parametrize("model", CLASSIFIERS, ids=str)
def test_flat_columns_leave_the_shares(model) -> None:
    labels = np.arange(60) % 3 == 0
    for flat in (np.zeros((60, 3)), np.full((60, 3), 7.7)):
        np.testing.assert_allclose(clone(model).fit(flat, labels).predict_proba(flat)[:, 1], 1 / 3, atol=1e-3)


@pytest.mark.parametrize("model", CLASSIFIERS, ids=str)
def test_separable_classes_are_separated(model) -> None:
    X = np.vstack([np.random.default_rng(0).normal(size=(40, 3)) + shift for shift in (-4, 4)])
    fitted = clone(model).fit(X, np.repeat(["a", "b"], 40))
    assert fitted.score(X, np.repeat(["a", "b"], 40)) == 1
    assert np.isfinite(fitted.predict_proba(X)).all()
    assert np.isfinite(fitted.coef_).all()


@pytest.mark.parametrize("model", REGRESSORS, ids=str)
def test_fresh_rows_are_predicted_as_well_as_the_noise_allows(model) -> None:
    X, y = problem(300, seed=4)
    fresh, target = problem(2000, seed=5)
    fitted = clone(model).fit(X, y)
    assert np.sqrt(np.mean((fitted.predict(fresh) - target) ** 2)) < 0.55
    if getattr(model, "scale", None) not in ("predicted_xy", "data"):
        mean, deviation = fitted.predict(fresh, return_std=True)
        assert 0.92 < (np.abs(target - mean) < 1.96 * deviation).mean() < 0.98


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_a_fit_that_fails_leaves_the_earlier_one(model) -> None:
    X, y = problem()
    target = target_of(model, y)
    fitted = clone(model)
    with pytest.raises(ValueError, match="sample_weight"):
        fitted.fit(X[:, :2], target, sample_weight=np.zeros(len(y)))
    assert not hasattr(fitted, "n_features_in_")
    expected = answer(fitted.fit(X, target), X)
    with pytest.raises(ValueError, match="sample_weight"):
        fitted.fit(X[:, :2], target, sample_weight=np.zeros(len(y)))
    np.testing.assert_array_equal(answer(fitted, X), expected)
