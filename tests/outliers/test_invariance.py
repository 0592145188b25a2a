"""A row's score is its own: not that of its neighbours, the memory layout, the thread, or the scale of weights."""

import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone

from likely.outliers import (
    LikelihoodDetector,
    ScaledAutoencoderDetector,
    ScaledPCADetector,
    ScatterDetector,
)
from pairwise import together

FEW = {"max_steps": 5, "random_state": 0}
EXACT = [ScatterDetector(), LikelihoodDetector(random_state=0)]
TRAINED = [ScaledPCADetector(**FEW), ScaledAutoencoderDetector(**FEW)]
RNG = np.random.default_rng(0)
V = RNG.normal(size=(200, 5))
# With a constant, a copy, a sum and a lattice: directions without variance, and values on the edges of bins.
T = np.column_stack([V, np.ones(200), V[:, 0], V.sum(1), np.round(3 * V[:, 1])])
every = pytest.mark.parametrize("detector", EXACT + TRAINED, ids=lambda own: type(own).__name__)
exact = pytest.mark.parametrize("detector", EXACT, ids=lambda own: type(own).__name__)


@every
@together("X", [V, T, 1e6 * T], ids=["plain", "degenerate", "large"])
def test_a_row_alone_has_the_score_it_has_among_others(detector, X: np.ndarray) -> None:
    fitted = clone(detector).fit(X)
    scores, labels = fitted.outlier_score(X), fitted.predict(X)
    for size, some in ((1, X[:40]), (3, X[:60]), (64, X)):
        parts = [some[start : start + size] for start in range(0, len(some), size)]
        alone = np.concatenate([fitted.outlier_score(own) for own in parts])
        np.testing.assert_allclose(alone, scores[: len(some)], atol=1e-9)
        np.testing.assert_array_equal(np.concatenate([fitted.predict(own) for own in parts]), labels[: len(some)])
    order = np.random.default_rng(1).permutation(len(X))
    np.testing.assert_allclose(fitted.outlier_score(X[order]), scores[order], atol=1e-9)
    np.testing.assert_allclose(fitted.outlier_score(np.tile(X, (50, 1)))[-len(X) :], scores, atol=1e-9)


@every
def test_the_memory_layout_changes_nothing(detector) -> None:
    narrow = V.astype(np.float32)
    scores = clone(detector).fit(narrow).outlier_score(narrow)
    strided = np.repeat(narrow, 2, axis=1)[:, ::2]
    for X in (np.asfortranarray(narrow), strided, narrow.astype(np.float64)):
        fitted = clone(detector).fit(X)
        np.testing.assert_array_equal(fitted.outlier_score(X), scores)


@every
@together("unit", [1 + 1e-13, 3.0, [1.0, 1.0, 1e6, 1.0, 1e-6]], ids=["a last digit", "three", "others"])
def test_units_and_the_last_digit_change_nothing(detector, unit: float | list[float]) -> None:
    scores = clone(detector).fit(V).outlier_score(V)
    X = V * unit
    np.testing.assert_allclose(clone(detector).fit(X).outlier_score(X), scores, atol=1e-4 * scores.std())


@exact
def test_single_precision_changes_nothing_wherever_values_lie(detector) -> None:
    """On a lattice of tenths, at the ends of a column, at a value that nearly all rows have, and in a constant."""
    common = np.where(RNG.random(200) < 0.95, 0.1, V[:, 1])
    X = np.column_stack([V[:, 0], np.round(V[:, 1:3], 1), common, np.full(200, 0.3)])
    narrow = X.astype(np.float32)
    wide_fit, narrow_fit = clone(detector).fit(X), clone(detector).fit(narrow)
    scores = wide_fit.outlier_score(X)
    for others in (narrow_fit.outlier_score(narrow), narrow_fit.outlier_score(X), wide_fit.outlier_score(narrow)):
        np.testing.assert_allclose(others, scores, atol=0.01 * scores.std())


@every
def test_threads_do_not_disturb_each_other(detector) -> None:
    state = torch.get_rng_state()
    jobs = (joblib.delayed(clone(detector).fit)(V) for _ in range(4))
    scores = [own.outlier_score(V) for own in joblib.Parallel(4, backend="threading")(jobs)]
    for own in scores[1:]:
        np.testing.assert_array_equal(own, scores[0])
    assert torch.equal(torch.get_rng_state(), state)


@exact
@pytest.mark.parametrize("X", [V, T], ids=["plain", "degenerate"])
def test_the_order_of_rows_and_columns_changes_nothing(detector, X: np.ndarray) -> None:
    fitted = clone(detector).fit(X)
    rows, columns = np.random.default_rng(2).permutation(len(X)), np.random.default_rng(3).permutation(X.shape[1])
    np.testing.assert_allclose(
        clone(detector).fit(X[rows]).decision_function(X), fitted.decision_function(X), atol=1e-9
    )
    turned = clone(detector).fit(X[:, columns])
    # In single precision, in which the nearest rows are found.
    np.testing.assert_allclose(turned.outlier_score(X[:, columns]), fitted.outlier_score(X), atol=1e-4)
    np.testing.assert_allclose(turned.explain(X[:, columns]), fitted.explain(X)[:, columns], rtol=1e-3, atol=1e-3)


@exact
def test_weights_count_rows_whatever_their_scale(detector) -> None:
    weight = np.random.default_rng(4).integers(0, 4, size=200).astype(float)
    repeated = clone(detector).fit(np.repeat(V, weight.astype(int), axis=0)).decision_function(V)
    for factor in (1.0, 1000.0, 1 / weight.sum(), 1e-300, 1e300):
        weighted = clone(detector).fit(V, sample_weight=factor * weight).decision_function(V)
        np.testing.assert_allclose(weighted, repeated, atol=1e-7)


@pytest.mark.parametrize("detector", TRAINED[:2], ids=lambda own: type(own).__name__)
def test_the_scale_of_weights_does_not_matter_to_networks(detector) -> None:
    weight = np.random.default_rng(4).integers(1, 4, size=200).astype(float)
    scores = [clone(detector).fit(V, sample_weight=f * weight).decision_function(V) for f in (1.0, 1000.0, 2.0**-20)]
    for own in scores[1:]:
        np.testing.assert_allclose(own, scores[0], rtol=1e-3, atol=1e-3)


@every
def test_nothing_to_find_is_nothing_found(detector) -> None:
    for X in (np.ones((50, 3)), V[:2], np.repeat(V[:1], 30, axis=0), np.column_stack([V, V])):
        assert (clone(detector).fit(X).predict(X) < 0).mean() <= 0.05


@exact
def test_frames_and_arrays_agree(detector) -> None:
    frame = pd.DataFrame(V, columns=list("abcde"))
    np.testing.assert_array_equal(
        clone(detector).fit(frame).outlier_score(frame), clone(detector).fit(V).outlier_score(V)
    )
