"""A call that is refused names the argument and leaves the table as it was, wherever its rows are."""

import copy
import pickle

import pytest
import torch

from likely.row_store import RowStore
from pairwise import together

STORES = pytest.mark.parametrize("store", ["device", "host", "file"])
in_every_store = together("store", ["device", "host", "file"])


def trained(store, tmp_path, dtype=None):
    store = tmp_path / "Zeilen λ & more.table" if store == "file" else store
    table = RowStore(torch.tensor([0.5, -2.0]).expand(10, 2), store=store, dtype=dtype)
    table.step(torch.tensor([1, 2]), torch.ones(2, 2))
    return table


def content(table):
    return table.rows.clone(), table.mean_square.clone()


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@in_every_store
@together(
    ("index", "error", "message"),
    [
        (torch.tensor([3, 10]), IndexError, "index runs from 3 to 10"),
        (torch.tensor([-1]), IndexError, "index runs from -1"),
        (torch.tensor([1.0]), TypeError, "index must be an integer tensor"),
        (torch.tensor([True]), TypeError, "index must be an integer tensor"),
        ([1], TypeError, "index must be an integer tensor"),
        (torch.tensor([[1]]), ValueError, "index must have one dimension"),
        (torch.tensor(1), ValueError, "index must have one dimension"),
    ],
)
def test_a_wrong_index_is_refused(store, index, error, message, tmp_path):
    table = trained(store, tmp_path)
    before = content(table)
    for call in (lambda: table(index), lambda: table.step(index, torch.ones(1, 2))):
        with pytest.raises(error, match=message):
            call()
    assert same(content(table), before)
    table.step(torch.tensor([3]), torch.ones(1, 2))  # and goes on
    assert not same(content(table), before)


@in_every_store
@together(
    ("grad", "error"),
    [
        (torch.ones(2), ValueError),
        (torch.ones(2, 3), ValueError),
        (torch.ones(1, 2), ValueError),
        (torch.ones(2, 2, dtype=torch.long), TypeError),
        (torch.ones(2, 2, dtype=torch.bool), TypeError),
        (torch.ones(2, 2, dtype=torch.complex64), TypeError),
        ([[1.0, 1.0], [1.0, 1.0]], TypeError),
    ],
)
def test_a_wrong_gradient_is_refused(store, grad, error, tmp_path):
    table = trained(store, tmp_path)
    before = content(table)
    with pytest.raises(error, match="grad must"):
        table.step(torch.tensor([3, 4]), grad)
    assert same(content(table), before)


@in_every_store
@together("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_gradients_of_any_precision_move_rows_alike(store, dtype, tmp_path):
    """In half precision eps would be zero, and a gradient of zero would make rows NaN."""
    table, reference = trained(store, tmp_path), trained("device", tmp_path)
    grad = torch.tensor([[0.5, -0.25], [0.0, 0.0]])
    table.step(torch.tensor([3, 4]), grad.to(dtype))
    reference.step(torch.tensor([3, 4]), grad)
    torch.testing.assert_close(table.rows, reference.rows)
    assert torch.equal(table.rows[4], torch.tensor([0.5, -2.0]))


@STORES
def test_a_gradient_that_is_not_finite_moves_its_row_nowhere(store, tmp_path):
    table = trained(store, tmp_path)
    before = content(table)
    table.step(torch.tensor([1, 3]), torch.tensor([[float("nan"), 1.0], [float("inf"), 1.0]]))
    table.step(torch.tensor([], dtype=torch.long), torch.ones(0, 2))
    table(torch.tensor([], dtype=torch.long)).sum().backward()
    assert same(content(table), before)


@STORES
def test_an_index_twice_in_a_batch_is_one_step_of_the_sum(store, tmp_path):
    table, once = trained(store, tmp_path), trained("device", tmp_path)
    table.step(torch.tensor([3, 5, 3]), torch.tensor([[0.1, 0.2], [0.3, 0.3], [0.2, 0.1]]))
    once.step(torch.tensor([3, 5]), torch.tensor([[0.3, 0.3], [0.3, 0.3]]))
    torch.testing.assert_close(table.rows, once.rows)


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (torch.zeros(3, dtype=torch.long), TypeError, "rows must be floating point"),
        (torch.zeros(3, dtype=torch.complex64), TypeError, "rows must be real"),
        ([1.0], TypeError, "rows must be a tensor"),
        (torch.tensor(1.0), ValueError, "rows must have a first dimension"),
    ],
)
def test_rows_that_cannot_learn_are_refused(rows, error, message):
    with pytest.raises(error, match=message):
        RowStore(rows)


@pytest.mark.parametrize("store", ["device", "host"])
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda table: pickle.loads(pickle.dumps(table))])
def test_a_copy_learns_by_itself(store, copied, tmp_path):
    table = trained(store, tmp_path)
    other, before = copied(table), content(table)
    assert same(content(other), before)
    other.step(torch.tensor([3]), torch.ones(1, 2))
    other(torch.tensor([4])).sum().backward()
    assert same(content(table), before)
    assert (other.rows[3:5] != table.rows[3:5]).all()


@pytest.mark.parametrize("store", ["device", "host"])
def test_a_state_dict_brings_rows_and_mean_squares_from_one_store_to_another(store, tmp_path):
    table = trained(store, tmp_path)
    for other in ("device", "host"):
        again = RowStore(torch.zeros(10, 2), store=other)
        again.load_state_dict(table.state_dict())
        assert same(content(again), content(table))


def test_a_table_in_a_file_cannot_be_copied_by_mistake(tmp_path):
    table = trained("file", tmp_path)
    for attempt in (copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be copied or pickled"):
            attempt(table)
    table.step(torch.tensor([3]), torch.ones(1, 2))
    table.flush()
