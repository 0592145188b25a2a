"""The likelihoods that a LikelihoodDetector listens to, against what they say they are."""

import numpy as np
import pytest
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score

from likely.outliers import LikelihoodDetector, ScatterDetector
from likely.outliers._columns import RowGroups
from likely.outliers._row_scores import NEAR, Histograms, Nearest, Tails

RNG = np.random.default_rng(0)
Z = np.column_stack([RNG.normal(size=400), RNG.integers(0, 3, size=400), RNG.exponential(size=400)])


def test_tails_are_the_share_as_far_out() -> None:
    found = Tails.learn(Z, np.ones(400)).each(Z)
    lower = (Z[:, None] >= Z[None]).mean(1)
    upper = (Z[:, None] <= Z[None]).mean(1)
    exact = -np.log(np.minimum(lower, upper))
    np.testing.assert_allclose(found[:, 1], exact[:, 1], atol=1e-9)  # of few values every one is a knot
    np.testing.assert_allclose(found, exact, atol=0.35)
    assert np.abs(found - exact).mean() < 0.05
    beyond = Tails.learn(Z, np.ones(400)).each(np.array([[99.0, 99.0, -99.0]]))
    np.testing.assert_allclose(beyond, np.log(800))


def test_weights_count_rows_in_tails_and_histograms() -> None:
    rng = np.random.default_rng(1)
    weight = rng.integers(0, 3, size=400).astype(float)
    repeated = np.repeat(Z, weight.astype(int), axis=0)
    histograms = [Histograms.learn(Z, weight), Histograms.learn(repeated, np.ones(len(repeated)))]
    np.testing.assert_allclose(*(own.each(Z) for own in histograms))


def test_histograms_count_the_rows_of_a_bin() -> None:
    found = Histograms.learn(Z, np.ones(400))
    counts, edges = np.histogram(Z[:, 0], bins=50)
    place = np.clip(np.searchsorted(edges, Z[:, 0], "right") - 1, 0, 49)
    np.testing.assert_allclose(found.each(Z)[:, 0], -np.log((counts[place] + 0.5) / 400))
    np.testing.assert_allclose(found.each(np.full((1, 3), -50.0)), -np.log(0.5 / 400))


def test_what_is_missing_is_usual() -> None:
    rng = np.random.default_rng(1)
    holed = np.where(rng.random(Z.shape) < 0.3, np.nan, Z)
    for view in (Tails, Histograms):
        own = view.learn(holed, np.ones(400))
        np.testing.assert_array_equal(own.each(np.full((2, 3), np.nan)), np.tile(own.usual, (2, 1)))


def test_nearest_is_the_mean_log_distance_to_another_row() -> None:
    own = Nearest.learn(Z, RowGroups.learn(Z, None), np.random.RandomState(0))
    expected = np.zeros(400)
    for centres in own.centres:
        squares = np.square(Z[:, None] - centres[None].astype(float)).sum(2)
        squares[squares < 1e-5] = np.inf  # a row is not its own neighbour
        expected += np.log(squares.min(1) / 3 + NEAR) / len(own.centres)
    np.testing.assert_allclose(own.log_scale(Z), expected, atol=1e-3)


def clusters(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.choice([-3.0, 3.0], size=(600, 4)) + 0.4 * rng.normal(size=(600, 4))
    X[:30] = rng.normal(size=(30, 4))
    return X, np.arange(600) < 30


def rare_values(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(600, 4))
    X[:, 0] = rng.choice([-2.0, 2.0], size=600) + 0.1 * rng.normal(size=600)
    X[:30, 0] = 0.3 * rng.normal(size=30)
    return X, np.arange(600) < 30


def subspace(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(600, 2)) @ rng.normal(size=(2, 8)) + 0.1 * rng.normal(size=(600, 8))
    X[:30] = X[rng.permutation(600)[:240].reshape(8, 30), np.arange(8)[:, None]].T  # columns of other rows
    return X, np.arange(600) < 30


@pytest.mark.parametrize("make", [clusters, rare_values, subspace])
def test_it_sees_what_others_miss(make) -> None:
    found = {"ours": [], "scatter": [], "forest": []}
    for seed in range(2):
        X, y = make(seed)
        found["ours"].append(roc_auc_score(y, LikelihoodDetector(random_state=seed).fit(X).outlier_score(X)))
        found["scatter"].append(roc_auc_score(y, ScatterDetector().fit(X).outlier_score(X)))
        found["forest"].append(roc_auc_score(y, -IsolationForest(random_state=seed).fit(X).score_samples(X)))
    ours, scatter, forest = (np.mean(found[name]) for name in ("ours", "scatter", "forest"))
    assert ours > 0.7
    assert ours > min(scatter, forest) + 0.05
    assert ours > max(scatter, forest) - 0.1


def test_contributions_add_up_to_the_score_and_name_the_culprit() -> None:
    shares = []
    for seed in range(8):
        X = np.random.default_rng(seed).normal(size=(500, 5))
        X[0] = [0, 0, 0, 8, 0]
        detector = LikelihoodDetector(random_state=0).fit(X)
        parts = detector.explain(X)
        np.testing.assert_allclose(parts.sum(1), detector.outlier_score(X), atol=1e-9)
        assert parts[0].argmax() == 3
        shares.append(parts[0, 3] / np.delete(parts[0], 3).sum())  # usual cells have a part too
    assert min(shares) > 1.5
    assert np.mean(shares) > 2.5


def test_seeds_hardly_matter() -> None:
    X, y = clusters(0)
    found = [roc_auc_score(y, LikelihoodDetector(random_state=seed).fit(X).outlier_score(X)) for seed in range(4)]
    assert np.std(found) < 0.02
    np.testing.assert_array_equal(*(LikelihoodDetector(random_state=3).fit(X).outlier_score(X) for _ in range(2)))
