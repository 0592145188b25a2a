"""Designs, their factors and posteriors are those of dense linear algebra, whatever the form of the table."""

import itertools
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from likely._solvers.canonical import canonical
from likely._solvers.design import Design, Posterior, Tridiagonal, standardized
from likely._solvers.factor import Factor
from pairwise import together

Array = Any


def table(n: int, d: int, seed: int = 0, weighted: bool = False) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng([seed, n, d])
    x = rng.normal(3, 2, size=(n, d)) * (rng.random((n, d)) < 0.6)
    y = x[:, : min(d, 3)] @ [1.0, -2.0, 0.5][: min(d, 3)] + rng.normal(5, 1, size=n)
    return x, y, rng.integers(1, 5, size=n).astype(float) if weighted else np.ones(n)


def reference(x: Array, y: Array, weight: Array, intercept: bool = True) -> tuple[Array, Array]:
    """Centred columns of deviation one and the centred target, each row times the root of its weight."""
    mean = np.average(x, axis=0, weights=weight) if intercept else 0.0
    middle = np.average(y, weights=weight) if intercept else 0.0
    deviation = np.sqrt(np.average((x - mean) ** 2, axis=0, weights=weight))
    root = np.sqrt(weight)
    return (x - mean) / deviation * root[:, None], (y - middle) * root


def check_design(design: Design, x: Array, y: Array, weight: Array) -> None:
    """Every product that a solver reads is that of the dense columns, in the order of the design."""
    x, n = x[:, design.live], weight.sum()
    assert design.rows == pytest.approx(n)
    np.testing.assert_allclose(design.xy, x.T @ y, rtol=1e-9, atol=1e-8)
    assert design.yy == pytest.approx(y @ y)
    assert (np.diff(np.abs(design.xy)) <= 1e-8).all()  # the most correlated first
    every = np.arange(len(design.live))
    np.testing.assert_allclose(design.gram_of(every), x.T @ x, atol=1e-8)
    some = every[::2]
    np.testing.assert_allclose(design.gram_of(some), (x.T @ x)[np.ix_(some, some)], atol=1e-8)
    coef = np.random.default_rng(1).normal(size=len(every)) * (every % 3 > 0)
    left = y - x @ coef
    assert design.residual(coef) == pytest.approx(left @ left)
    np.testing.assert_allclose(design.pull(coef), x.T @ left, rtol=1e-8, atol=1e-7)


@together("weighted", [False, True])
@together("intercept", [False, True])
@together("form", ["dense", "sparse", "factor", "factor of blocks"])
@together("shape", [(40, 5), (12, 30)])
def test_a_design_is_a_table_of_standardised_columns(
    shape: tuple[int, int], form: str, intercept: bool, weighted: bool
) -> None:
    x, y, weight = table(*shape, weighted=weighted)
    known = weight if weighted else None
    if form.startswith("factor"):
        cuts = [0, 3, 4, 11, len(y)] if form == "factor of blocks" else [0, len(y)]
        parts = [
            Factor.of(x[a:b], y[a:b, None], known if known is None else known[a:b]) for a, b in itertools.pairwise(cuts)
        ]
        whole = parts[0]
        for part in parts[1:]:
            whole = whole + part
        design = whole.design(intercept)
    else:
        design = standardized(canonical(sparse.csr_array(x) if form == "sparse" else x, y, known), intercept)
    dense, target = reference(x, y, weight, intercept)
    check_design(design, dense, target, weight)
    assert design.freedom == weight.sum() - intercept
    coef = np.random.default_rng(2).normal(size=shape[1])
    full, constant = design.restored(coef)
    root = np.sqrt(weight)
    predicted = dense[:, design.live] @ coef / root + (np.average(y, weights=weight) if intercept else 0.0)
    np.testing.assert_allclose(x @ full + constant, predicted, rtol=1e-8, atol=1e-8)
    fresh = x[:4] + 0.5
    np.testing.assert_allclose(
        design.prepared(fresh) @ coef + design.target, fresh @ full + constant, rtol=1e-8, atol=1e-8
    )


def test_a_few_rows_leave_one_degree_of_freedom() -> None:
    x, y, _ = table(1, 2)
    assert standardized(canonical(x, y, None), True).freedom == 1


@together("intercept", [False, True])
@together("d", [0, 4, 30])
def test_a_ridge_leaves_the_degrees_of_freedom_that_its_weights_do_not_use(d: int, intercept: bool) -> None:
    """The trace of the hat matrix is used: all of it without a ridge, nothing where every column is zero."""
    x, y, _ = table(12, max(d, 1))
    design = standardized(canonical(x if d else 0 * x, y, None), intercept)
    assert design.shape[1] == d
    for strength in (0.01, 3.0, 1e4):
        hat = design.x @ np.linalg.solve(design.x.T @ design.x + strength * np.eye(d), design.x.T)
        assert design.unused(strength) == pytest.approx(12 - intercept - np.trace(hat), abs=1e-9)


@together("weighted", [False, True])
@together("form", ["dense", "sparse"])
def test_many_columns_need_no_gram_matrix(form: str, weighted: bool) -> None:
    x, y, weight = table(9, 1001, weighted=weighted)
    vary = (x.std(0) > 0) & (x != 0).any(0)
    x = x[:, vary]
    design = standardized(
        canonical(sparse.csr_array(x) if form == "sparse" else x, y, weight if weighted else None), True
    )
    assert not design.has_gram or len(design.live) <= 1000
    dense, target = reference(x, y, weight)
    check_design(design, dense, target, weight)
    columns = np.array([4, 0, 7])
    if form == "sparse":
        np.testing.assert_allclose(
            np.abs(design.columns(columns).T @ design.columns(columns)), np.abs(design.gram_of(columns)), atol=1e-8
        )
        scale = np.arange(1.0, len(design.live) + 1)
        np.testing.assert_allclose(design.scaled(scale).todense(), design.x.todense() * scale)
    else:
        np.testing.assert_array_equal(design.scaled(2.0 * np.ones(len(design.live))), 2 * design.x)


def test_a_constant_column_is_left_out_and_has_no_coefficient() -> None:
    x, y, _ = table(32, 4)  # with 32 rows the mean of a constant is exact
    x[:, 1] = 8.0
    for form in (x, sparse.csr_array(x)):
        design = standardized(canonical(form, y, None), True)
        np.testing.assert_array_equal(np.sort(design.live), [0, 2, 3])
        full, _ = design.restored(np.ones(3))
        assert full[1] == 0


def test_columns_without_a_prior_are_fitted_by_least_squares_beside_the_others() -> None:
    x, y, _ = table(50, 5)
    penalty = np.array([1.0, 0.0, 2.0, 0.5, 0.0])
    for design in (
        standardized(canonical(x, y, None), True, penalty),
        Factor.of(x, y[:, None]).design(True, penalty),
    ):
        assert set(design.live) == {0, 2, 3}
        assert design.freedom == 50 - 3
        coef = np.array([0.3, -1.0, 2.0])
        full, constant = design.restored(coef)
        deviation = x.std(0)
        # A weight counts in units of the deviation and of its penalty.
        np.testing.assert_allclose(full[design.live], coef / (deviation * penalty)[design.live])
        left = y - x @ full - constant
        np.testing.assert_allclose(np.column_stack([np.ones(50), x[:, [1, 4]]]).T @ left, 0, atol=1e-7)
        assert design.residual(coef) == pytest.approx(left @ left)
        np.testing.assert_allclose(design.pull(coef), (x[:, design.live] / (deviation * penalty)[design.live]).T @ left)


def test_columns_of_nearly_any_size_are_ordinary_and_the_others_are_refused() -> None:
    x, y, _ = table(40, 4)
    plain = standardized(canonical(x, y, None), True)
    units = np.array([1e70, 1.0, 1e-70, 1.0])
    big = standardized(canonical(x * units, y, None), True)
    np.testing.assert_allclose(big.gram_of(np.arange(4)), plain.gram_of(np.arange(4)), rtol=1e-9)
    np.testing.assert_allclose(big.prepared((x * units)[:5]), plain.prepared(x[:5]), rtol=1e-9)
    blocks = Factor.of(x[:9], y[:9, None]) + Factor.of((x * units)[9:], y[9:, None])
    mixed = standardized(canonical(np.vstack([x[:9], (x * units)[9:]]), y, None), True)
    np.testing.assert_allclose(blocks.design(True).gram, mixed.gram, rtol=1e-8)
    with pytest.raises(ValueError, match=r"column 0 of X .* exceed float64"):
        canonical(x * units**2, y, None)
    with pytest.raises(ValueError, match=r"y is .* exceed float64"):
        canonical(x, 1e151 * y, None)
    with pytest.raises(ValueError, match="exceed float64"):
        Factor.of(x, 1e-160 * y[:, None]).design(True)
    with pytest.raises(ValueError, match="exceed float64"):
        Factor.of(x, 1e151 * y[:, None])


def test_a_factor_of_rows_of_which_some_have_no_weight() -> None:
    x, y, weight = table(40, 3, weighted=True)
    weight[::4] = 0.0
    factor = Factor.of(x, y[:, None], weight) + Factor.of(x[:0], np.zeros((0, 1)))
    assert factor.weight == weight.sum()
    assert len(factor.root) <= 4
    seen = weight > 0
    dense, centred = reference(x[seen], y[seen], weight[seen])
    check_design(factor.design(True), dense, centred, weight[seen])
    with pytest.raises(ValueError, match="must agree"):
        factor + Factor.of(x[:, :2], y[:, None])


def test_multiples_of_a_column_share_its_weight() -> None:
    x, y, _ = table(40, 4)
    many = np.column_stack([x, -3 * x[:, 0], 2 * x[:, 0] + 1, 5 * x[:, 2]])
    for form in (many, sparse.csr_array(many)):
        design = standardized(canonical(form, y, None), True)
        distinct = design.distinct
        small = distinct.design
        assert small.shape[1] == 4
        coef = np.array([1.0, -2.0, 3.0, 0.5])
        shared = distinct.shared(coef)
        assert design.residual(shared) == pytest.approx(small.residual(coef))
        assert np.abs(shared).sum() == pytest.approx(np.abs(coef).sum())
        np.testing.assert_array_equal(distinct.count[np.argsort(design.live)], [3, 1, 2, 1, 3, 3, 2])
        full, constant = design.restored(shared)
        one, same = small.restored(coef)
        np.testing.assert_allclose(many @ full + constant, many @ one + same)
        sizes = np.abs(full * many.std(0))
        np.testing.assert_allclose(sizes[[4, 5]], sizes[0])
        uneven = shared.copy()
        uneven[np.flatnonzero(design.live == 0)] *= 5
        again = distinct.evened(uneven)
        assert design.residual(again) == pytest.approx(design.residual(uneven))
        np.testing.assert_allclose(
            np.abs(again * np.array([1.0] * 7))[np.isin(design.live, [0, 4, 5])].std(), 0, atol=1e-12
        )
    plain = standardized(canonical(x, y, None), True)
    assert plain.distinct.design is plain
    same = standardized(canonical(x[:, [0, 0, 0]], y, None), True).distinct
    assert same.design.shape[1] == 1
    np.testing.assert_allclose(same.shared(np.array([6.0])), 2)


@together("shape", [(30, 4), (6, 15)])
@together("subset", [False, True])
def test_the_posterior_of_weights_is_normal(shape: tuple[int, int], subset: bool) -> None:
    n, d = shape
    x, y, _ = table(n, d)
    design = standardized(canonical(x, y, None), True)
    active = np.array([2, 0, 3, *range(4, d - 1)]) if subset else None
    for strength in (3.0, 0.5, 0.0):
        if strength or d <= n:
            check_posterior(design, strength, active)
    if d > n:  # weights that no row determines alone are the shortest that fit all rows
        weights = Posterior(design, 0.7, 0.0).mean(design.xy)
        np.testing.assert_allclose(weights, np.linalg.lstsq(design.x, design.y)[0], atol=1e-4)


def check_posterior(design: Design, strength: float, active: Array | None) -> None:
    n, d = design.shape
    posterior = Posterior(design, 0.7, strength, active)
    chosen = np.arange(d) if active is None else active
    columns = design.x[:, chosen]
    precision = columns.T @ columns + strength * np.eye(len(chosen))
    covariance = 0.7 * np.linalg.inv(precision)
    np.testing.assert_allclose(
        posterior.mean(design.xy[chosen]), np.linalg.solve(precision, design.xy[chosen]), rtol=1e-6
    )
    fresh = np.random.default_rng(3).normal(size=(5, d))
    expected = 0.7 / n + np.einsum("ij,jk,ik->i", fresh[:, chosen], covariance, fresh[:, chosen])
    np.testing.assert_allclose(posterior.variance(fresh), expected, rtol=1e-6)


def test_the_posterior_without_weights_is_that_of_the_intercept() -> None:
    x, y, _ = table(30, 4)
    none = Posterior(standardized(canonical(x, y, None), True), 0.6, 1.0, np.array([], dtype=int))
    assert len(none.mean(np.zeros(0))) == 0
    np.testing.assert_allclose(none.variance(np.ones((3, 4))), 0.02)


def test_columns_that_repeat_one_another_share_a_weight_without_a_ridge() -> None:
    x, y, _ = table(30, 2)
    design = standardized(canonical(x[:, [0, 0, 1]], y, None), True)
    weights = Posterior(design, 1.0, 0.0).mean(design.xy)
    equal = np.isin(design.live, [0, 1])
    assert np.ptp(weights[equal]) == pytest.approx(0, abs=1e-4)
    plain = standardized(canonical(x, y, None), True)
    assert design.residual(weights) == pytest.approx(plain.residual(np.linalg.solve(plain.gram, plain.xy)), rel=1e-6)


@together("d", [1, 2, 3, 9])
def test_a_tridiagonal_matrix_stands_for_the_whole(d: int) -> None:
    rng = np.random.default_rng(d)
    root = rng.normal(size=(d, d + 2))
    matrix = root @ root.T
    reduced = Tridiagonal(matrix.copy())
    assert len(reduced) == d
    np.testing.assert_allclose(np.sort(reduced.values()), np.linalg.eigvalsh(matrix), rtol=1e-9)
    vector, pair = rng.normal(size=d), rng.normal(size=(d, 2))
    turned = reduced.turned(pair)
    for shift in (0.01, 5.0):
        moved = matrix + shift * np.eye(d)
        np.testing.assert_allclose(reduced.solve(shift, vector), np.linalg.solve(moved, vector), rtol=1e-8)
        log_det, solved = reduced.shifted(shift, turned)
        assert log_det == pytest.approx(np.linalg.slogdet(moved)[1])
        np.testing.assert_allclose(turned.T @ solved, pair.T @ np.linalg.solve(moved, pair), rtol=1e-8)
    np.testing.assert_allclose(turned.T @ turned, pair.T @ pair)
    low = Tridiagonal(np.ones((d, d)))
    assert (low.values() >= 0).all()
    if d > 1:
        log_det, solved = reduced.shifted(-2 * np.trace(matrix), turned)
        assert log_det == np.inf
        assert not solved.any()


def test_equal_rows_are_one_of_their_weights_together() -> None:
    rng = np.random.default_rng(0)
    X, y, count = rng.normal(size=(7, 2)), np.arange(7) // 2, np.array([1, 2, 3, 1, 1, 2, 2])
    table = canonical(np.repeat(X, count, axis=0), np.repeat(y, count).astype(float), None)
    order = [int(np.flatnonzero((row == X).all(1))[0]) for row in table.x]
    assert sorted(order) == list(range(7))
    np.testing.assert_array_equal(table.weight, count[order])
    np.testing.assert_array_equal(table.y, y[order])
