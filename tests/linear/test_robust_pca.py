"""Robust PCA: the true subspace under outliers of several kinds, and PCA where there are none."""

import numpy as np
import pytest
from scipy.linalg import subspace_angles
from scipy.stats import ortho_group
from sklearn.decomposition import PCA
from sklearn.metrics import roc_auc_score

from experiments.benchmarks._robust_linear import spoiled_subspace
from likely.linear._robust_pca import RobustPCA


def degrees(model, basis) -> float:
    return float(np.degrees(subspace_angles(model.components_.T, basis).max()))


def spoiled(kind: str, seed: int):
    X, basis = spoiled_subspace(seed)
    rng = np.random.default_rng(seed)
    across = np.linalg.svd(basis, full_matrices=True)[0][:, 3:5]
    noise = 0.3 * rng.normal(size=(100, 20))
    if kind == "cluster":
        X[:100] = 12 * across[:, 0] + noise
    elif kind == "plane":
        X[:100] = 10 * rng.normal(size=(100, 2)) @ across.T + noise
    return X, basis


@pytest.mark.parametrize("kind", ["everywhere", "cluster", "plane"])
def test_outliers_do_not_turn_the_subspace(kind: str) -> None:
    found = []
    for seed in range(3):
        X, basis = spoiled(kind, seed)
        model = RobustPCA(3).fit(X)
        found.append(degrees(model, basis))
        assert degrees(PCA(3).fit(X), basis) > 30
        bad = np.arange(len(X)) < 100
        assert roc_auc_score(bad, model.outlier_score(X)) > 0.97
        assert np.median(model.weights_[bad]) < 0.05 < 0.8 < np.median(model.weights_[~bad])
    assert np.median(found) < 3


def test_without_outliers_it_is_nearly_pca() -> None:
    X = spoiled_subspace(5)[0][100:]
    ours, theirs = RobustPCA(3).fit(X), PCA(3).fit(X)
    assert degrees(ours, theirs.components_.T) < 1
    np.testing.assert_allclose(ours.explained_variance_, theirs.explained_variance_, rtol=0.1)
    np.testing.assert_allclose(ours.explained_variance_ratio_, theirs.explained_variance_ratio_, rtol=0.1)
    assert ours.scale_ == pytest.approx(0.3, rel=0.1)


def test_with_all_components_it_is_pca() -> None:
    X = np.random.default_rng(0).normal(size=(50, 4)) * [4, 3, 2, 1]
    ours, theirs = RobustPCA(4).fit(X), PCA(4).fit(X)
    np.testing.assert_allclose(np.abs(ours.components_), np.abs(theirs.components_), atol=1e-8)
    np.testing.assert_allclose(ours.inverse_transform(ours.transform(X)), X, atol=1e-10)
    np.testing.assert_allclose(ours.weights_, 1)


def test_the_scale_is_the_best_under_the_hyperprior() -> None:
    X, _ = spoiled_subspace(1)
    model = RobustPCA(3, df=2.0).fit(X)
    left = np.square(X - model.inverse_transform(model.transform(X))).sum(1)
    np.testing.assert_allclose(model.scale(X), np.sqrt((2 * model.scale_**2 + left) / (2 + 17)))

    def cost(u2):  # of one row: normal in 17 dimensions, and the hyperprior in log u
        return left[0] / (2 * model.scale_**2 * u2) + 8.5 * np.log(u2) + 1.0 * np.log(u2) + 1.0 / u2

    best = (model.scale(X)[0] / model.scale_) ** 2
    assert cost(best) < min(cost(0.99 * best), cost(1.01 * best))


def test_turning_and_scaling_the_rows_turns_and_scales_the_answer() -> None:
    X, _ = spoiled_subspace(2)
    turn = ortho_group.rvs(20, random_state=0)
    one, other = RobustPCA(3).fit(X), RobustPCA(3).fit(50 * X @ turn + 7)
    # The start uses medians of columns, which do not turn; what it leads to does.
    assert np.degrees(subspace_angles(other.components_.T, turn.T @ one.components_.T).max()) < 0.05
    np.testing.assert_allclose(other.explained_variance_, 2500 * one.explained_variance_, rtol=1e-3)


def test_more_columns_than_rows() -> None:
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(200, 2)))[0]
    X = 10 * rng.normal(size=(60, 2)) @ basis.T + 0.1 * rng.normal(size=(60, 200))
    X[:10] = 10 * rng.normal(size=(10, 200))
    model = RobustPCA(2).fit(X)
    assert degrees(model, basis) < 5
    assert model.get_feature_names_out().tolist() == ["robustpca0", "robustpca1"]


def test_rows_in_a_subspace_leave_nothing() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2)) @ rng.normal(size=(2, 5)) + 3
    model = RobustPCA(2).fit(X)
    np.testing.assert_allclose(model.inverse_transform(model.transform(X)), X, atol=1e-8)
    constant = RobustPCA(1).fit(np.ones((10, 3)))
    np.testing.assert_allclose(constant.transform(np.ones((10, 3))), 0, atol=1e-12)


@pytest.mark.parametrize("n_components", [0, 5, 1.5, "mle"])
def test_bad_components_are_named(n_components) -> None:
    with pytest.raises(ValueError, match="n_components="):
        RobustPCA(n_components).fit(np.eye(4))
    with pytest.raises(ValueError, match="df must be positive"):
        RobustPCA(1, df=0).fit(np.eye(4))
