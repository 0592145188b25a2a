"""What a linear model learns depends on the set of rows, not on how a table lists them, and on weights by one rule."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from linear_models import MODELS, answer, coefficients, largest_change, problem, tables, target_of
from pairwise import together

KINDS = list(tables(0))


@pytest.mark.filterwarnings("ignore:.*too few to tell outliers")
@together("kind", KINDS)
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_a_permutation_of_rows_or_columns_permutes_the_answer(model, kind: str) -> None:
    rng = np.random.default_rng(7)
    X, y = tables(11)[kind]
    target = target_of(model, y)
    fitted = clone(model).fit(X, target)
    rows, columns = rng.permutation(len(y)), rng.permutation(X.shape[1])
    for chosen, order in ((rows, np.arange(X.shape[1])), (np.arange(len(y)), columns)):
        other = clone(model).fit(X[chosen][:, order], target[chosen])
        assert largest_change(coefficients(fitted)[:, order], coefficients(other)) < 1e-6
        expected = answer(fitted, X) if hasattr(model, "predict") else answer(fitted, X)[:, order]
        assert largest_change(expected, answer(other, X[:, order])) < 1e-6
        for name in ("sigma_", "scale_", "penalty_"):
            if hasattr(fitted, name):
                assert getattr(other, name) == pytest.approx(getattr(fitted, name), rel=1e-6)


@pytest.mark.filterwarnings("ignore:.*too few to tell outliers")
@together("kind", KINDS)
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_whole_weights_are_repeated_rows(model, kind: str) -> None:
    rng = np.random.default_rng(8)
    X, y = tables(12)[kind]
    target, count = target_of(model, y), rng.integers(0, 4, len(y))
    weighted = clone(model).fit(X, target, sample_weight=count)
    shuffled = rng.permutation(count.sum())
    repeated = clone(model).fit(X.repeat(count, axis=0)[shuffled], target.repeat(count)[shuffled])
    assert largest_change(coefficients(repeated), coefficients(weighted)) < 1e-6
    assert largest_change(answer(repeated, X), answer(weighted, X)) < 1e-6
    absent = clone(model).fit(X[count > 0], target[count > 0], sample_weight=count[count > 0])
    np.testing.assert_allclose(answer(absent, X), answer(weighted, X), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_other_weights_have_no_scale(model) -> None:
    X, y = problem()
    target = target_of(model, y)
    weight = np.random.default_rng(9).uniform(0.2, 1.8, len(y))
    fitted = clone(model).fit(X, target, sample_weight=weight)
    for scale in (1e-300, 1 / weight.sum(), 1e3, 1e300):
        with pytest.warns(UserWarning, match=r"pass sample_weight \* n / sample_weight.sum\(\)"):
            other = clone(model).fit(X, target, sample_weight=scale * weight)
        assert largest_change(coefficients(fitted), coefficients(other)) < 1e-6
        assert largest_change(answer(fitted, X), answer(other, X)) < 1e-6


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_equal_weights_that_sum_to_one_are_no_weights(model) -> None:
    X, y = problem(100)
    target = target_of(model, y)
    plain = clone(model).fit(X, target)
    with pytest.warns(UserWarning, match="not made of counts"):
        weighted = clone(model).fit(X, target, sample_weight=np.full(100, 0.01))
    np.testing.assert_allclose(answer(weighted, X), answer(plain, X), rtol=1e-9, atol=1e-9)
    assert np.abs(coefficients(weighted)).max() > 0.1


@pytest.mark.parametrize("model", MODELS, ids=str)
@together("count", [1000, 10**12])
def test_large_counts_are_many_rows(model, count: int) -> None:
    X, y = problem()
    target = target_of(model, y)
    fitted = clone(model).fit(X, target, sample_weight=np.full(len(y), count))
    assert np.isfinite(answer(fitted, X)).all()
    if model in MODELS[:7]:  # the prior has nothing left to say: least squares
        design = np.column_stack([X, np.ones(len(y))])
        least = design @ np.linalg.lstsq(design, y, rcond=None)[0]
        assert largest_change(least, answer(fitted, X)) < 0.1


def test_columns_that_are_multiples_share_a_weight() -> None:
    X, y = problem()
    twice = np.column_stack([X, 2 * X[:, 0] + 5])
    for model in MODELS[:7]:
        fitted = clone(model).fit(twice, y)
        assert fitted.coef_[0] == pytest.approx(2 * fitted.coef_[-1], rel=1e-6)
        assert fitted.coef_[0] > 0.5
