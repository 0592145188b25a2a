"""Blocks, contents and folds of rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

from likely._numerics.significance import held_out_gain
from likely._rows.blocks import Rows, row_blocks
from likely._rows.contents import contents, fold_numbers, rank_keys, row_keys, splits_of


def table(n: int = 2000, columns: int = 3) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, columns))


class Stream:
    """A table that does not know how many rows it has."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def read(self) -> Iterator[tuple[slice, torch.Tensor]]:
        for start in range(0, len(self.array), 7):
            part = torch.as_tensor(self.array[start : start + 7])
            yield slice(start, start + len(part)), part


def test_blocks_cover_every_row_once() -> None:
    parts = list(row_blocks(1000, 10, numbers=64))
    assert [row for part in parts for row in range(part.start, part.stop)] == list(range(1000))
    assert {part.stop - part.start for part in parts[:-1]} == {6}
    assert next(row_blocks(1000, 10, numbers=64, least=50)) == slice(0, 50, 1)
    assert list(row_blocks(0)) == []
    strided = [row for part in row_blocks(100, 3, numbers=9, stride=4) for row in range(100)[part]]
    assert strided == list(range(0, 100, 4))


@pytest.mark.parametrize("kind", ["array", "memory map", "tensor", "pandas", "polars"])
def test_tables_of_any_kind_are_read_alike(kind: str, tmp_path: object) -> None:
    numbers = table(50)
    made = {
        "array": lambda: numbers,
        "memory map": lambda: _mapped(numbers, tmp_path),
        "tensor": lambda: torch.as_tensor(numbers),
        "pandas": lambda: pd.DataFrame(numbers),
        "polars": lambda: pl.DataFrame(numbers),
    }[kind]()
    rows = Rows(made)
    np.testing.assert_array_equal(rows.whole().numpy(), numbers)
    np.testing.assert_array_equal(rows[np.array([3, 1])].numpy(), numbers[[3, 1]])
    np.testing.assert_array_equal(contents(rows), row_keys(numbers))


def _mapped(numbers: np.ndarray, folder: object) -> np.ndarray:
    path = f"{folder}/numbers.npy"
    np.save(path, numbers)
    return np.load(path, mmap_mode="r")


def test_contents_need_not_know_how_many_rows_there_are() -> None:
    np.testing.assert_array_equal(contents(Stream(table(50))), row_keys(table(50)))


def test_contents_follow_from_the_numbers_of_a_row_alone() -> None:
    numbers = table(200)
    keys = row_keys(numbers)
    np.testing.assert_array_equal(row_keys(numbers[::2])[5:], keys[::2][5:])
    np.testing.assert_array_equal(row_keys(2.0**900 * numbers), keys)
    np.testing.assert_array_equal(row_keys(numbers.astype(np.float32)), keys)
    np.testing.assert_array_equal(row_keys(numbers[:, ::-1]), keys)
    np.testing.assert_array_equal(row_keys(np.array([[0.0, 1.0]])), row_keys(np.array([[-0.0, 1.0]])))


def test_rank_keys_tell_last_digits_apart_and_do_not_depend_on_units() -> None:
    one = np.array([[1.0, 2.0, np.nan]])
    rows = np.vstack([one, one, -one, np.nextafter(one, 9), 0 * one, -0.0 * one])
    exact, symmetric = rank_keys(rows)
    assert exact[0] == exact[1]
    assert exact[4] == exact[5]
    assert len(set(exact.tolist())) == 4
    for same in (rows * [3.0, 1e-9, 1e12], 0.25 * rows):
        np.testing.assert_array_equal(rank_keys(same)[0], exact)
    np.testing.assert_array_equal(rank_keys(rows[:, [2, 0, 1]])[1], symmetric)


def test_a_row_that_changes_moves_itself_only() -> None:
    numbers = table()
    before = fold_numbers(row_keys(numbers), 5)
    numbers[17] += 1e-3
    after = fold_numbers(row_keys(numbers), 5)
    assert (before != after).sum() <= 1
    assert np.bincount(before, minlength=5).min() > 300


@pytest.mark.parametrize("n", [12, 100, 2000])
def test_equal_rows_share_a_fold_in_any_order(n: int) -> None:
    numbers = table(n)
    order = np.random.default_rng(1).permutation(n)
    number = fold_numbers(row_keys(numbers), 5)
    np.testing.assert_array_equal(fold_numbers(row_keys(numbers[order]), 5), number[order])
    np.testing.assert_array_equal(fold_numbers(row_keys(np.repeat(numbers, 2, 0)), 5), np.repeat(number, 2))
    assert (number != fold_numbers(row_keys(numbers), 5, random_state=1)).any()
    for kept, out in splits_of(number):
        assert sorted([*kept, *out]) == list(range(n))


def test_few_kinds_of_rows_are_dealt_one_by_one() -> None:
    number = fold_numbers(row_keys(np.zeros((20, 2))), 5, ties=np.arange(20)[::-1])
    assert np.bincount(number).tolist() == [4] * 5
    assert number[0] == 4


def test_every_class_is_in_every_fold() -> None:
    classes = np.repeat(np.arange(3), [5, 60, 1500])
    for kept, out in splits_of(fold_numbers(row_keys(table(len(classes))), 5, strata=classes)):
        assert set(classes[out]) == set(classes[kept]) == {0, 1, 2}


def test_a_gain_counts_weights_as_rows() -> None:
    gain, count = np.array([0.5, -0.1, 0.2]), np.array([2.0, 1.0, 3.0])
    one, other = held_out_gain(gain, count), held_out_gain(np.repeat(gain, count.astype(int)))
    assert one == pytest.approx(other)
    assert one.sure(one.errors) == pytest.approx(0, abs=1e-12)
    assert held_out_gain(np.zeros(3)).sure(2.0) == 0
