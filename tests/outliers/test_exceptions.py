"""Columns in which nearly all rows have the same number: another counts by how rare it is."""

from __future__ import annotations

import numpy as np
import pytest

from likely.outliers import LikelihoodDetector
from likely.outliers._columns import Exceptions


def test_surprise_is_the_share_of_rows_as_far_away() -> None:
    column = np.array([0.0] * 96 + [1.0, -2.0, 5.0, np.nan])
    found = Exceptions.learn(column, np.ones(100))
    assert found is not None
    nats = found.surprise(np.array([0.0, 1.0, -2.0, 5.0, -99.0, np.nan]), unseen=False)
    np.testing.assert_allclose(nats[:5], -np.log(np.array([99.5, 3.5, 2.5, 1.5, 0.5]) / 99.5))
    assert np.isnan(nats[5])
    left_out = found.surprise(np.array([0.0, 1.0, 5.0]), unseen=True)
    np.testing.assert_allclose(left_out, -np.log(np.array([99.5, 2.5, 0.5]) / 99.5))


@pytest.mark.parametrize("column", [np.zeros(50), np.arange(50.0), np.repeat([0.0, 1.0], 25), np.full(50, np.nan)])
def test_other_columns_stay_numbers(column: np.ndarray) -> None:
    assert Exceptions.learn(column, np.ones(50)) is None


def test_a_weight_of_two_is_two_rows() -> None:
    column = np.array([3.0] * 40 + [4.0, 7.0])
    weight = np.append(np.ones(41), 2.0)
    weighed, repeated = Exceptions.learn(column, weight), Exceptions.learn(np.append(column, 7.0), np.ones(43))
    assert weighed is not None
    assert repeated is not None
    values = np.array([3.0, 4.0, 5.0, 7.0, 9.0])
    np.testing.assert_allclose(weighed.surprise(values, False), repeated.surprise(values, False))


def test_rows_far_from_all_come_before_rows_with_a_rare_value() -> None:
    """One row in a hundred lasts longer than no time; that is no reason to put it before an attack."""
    rng = np.random.default_rng(0)
    lasting = np.where(rng.random(3000) < 0.01, rng.lognormal(4, 1, 3000), 0.0)
    X = np.column_stack([lasting, rng.normal(5.5, 0.2, 3000), rng.normal(7, 1, 3000)])
    X[:10] = [0.0, 11.0, 9.0]
    score = LikelihoodDetector(random_state=0).fit(X).outlier_score(X)
    assert set(np.argsort(-score)[:10]) == set(range(10))
