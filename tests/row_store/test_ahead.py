"""Rows fetched ahead of need are the rows there would have been without."""

import threading

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, Subset, TensorDataset

import likely
from likely.row_store import LookAhead, RowStore


def table(store, tmp_path, **options):
    where = tmp_path / "rows.table" if store == "file" else store
    return RowStore(torch.zeros(()).expand(12), store=where, lr=0.3, **options)


def train(table, batches, ahead):
    """Steps whose gradients depend on the rows, so that one stale row changes all that follow."""
    waiting = []
    for number, index in enumerate([*batches, None]):
        if index is not None and ahead:
            table.prefetch(index)
        for old in waiting:
            (table(old) - torch.arange(len(old)) - number).square().sum().backward()
        waiting = [] if index is None else [index]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("store", ["host", "file"])
@pytest.mark.parametrize("optimizer", ["rmsprop", "sgd"])
def test_a_row_in_two_successive_batches_is_read_after_it_was_written(store, dtype, optimizer, tmp_path):
    batches = [torch.randint(0, 12, (8,)) for _ in range(30)]  # 8 of 12 rows: most are in the next batch too
    expected = table("device", tmp_path, dtype=dtype, optimizer=optimizer)
    train(expected, batches, ahead=False)
    found = table(store, tmp_path, dtype=dtype, optimizer=optimizer)
    train(found, batches, ahead=True)
    assert torch.equal(found.rows, expected.rows)
    assert torch.equal(found.mean_square, expected.mean_square)


def test_prefetched_rows_are_the_ones_used(tmp_path):
    found = table("host", tmp_path)
    reads = []
    store = found.store
    found.staging.store = type("Counting", (), {"read": lambda _, i: reads.append(i) or store.read(i)})()
    found.prefetch(torch.tensor([1, 2]))
    found(torch.tensor([1, 2]))
    assert len(reads) == 1


def test_the_reading_is_done_by_another_thread(tmp_path):
    found = table("host", tmp_path)
    store, hold, began = found.store, threading.Event(), threading.Event()

    class Slow:
        def read(self, index):
            began.set()
            assert hold.wait(5)
            return store.read(index)

    found.staging.store = Slow()
    found.prefetch(torch.tensor([1, 2]))  # returns at once
    assert began.wait(5)
    hold.set()
    assert found(torch.tensor([1, 2])).tolist() == [0, 0]


def test_skipped_and_unannounced_batches_do_no_harm(tmp_path):
    found = table("host", tmp_path, optimizer="sgd", clip=None)
    for first in (0, 3, 6):
        found.prefetch(torch.arange(first, first + 3))
    found(torch.tensor([8])).sum().backward()  # not announced
    found(torch.arange(6, 9)).sum().backward()  # the two before it are skipped
    assert not found.staging._ahead
    torch.testing.assert_close(found.rows[[0, 3, 6, 8]], torch.tensor([0.0, 0.0, -0.3, -0.6]))


def test_what_was_read_ahead_is_dropped_when_rows_are_replaced(tmp_path):
    found = table("host", tmp_path)
    found.prefetch(torch.tensor([1]))
    found.load_state_dict({"rows": torch.full((12,), 7.0), "mean_square": torch.zeros(12)})
    assert found(torch.tensor([1])).item() == 7
    found.save(tmp_path / "saved")
    found.prefetch(torch.tensor([1]))
    found.load_state_dict({"rows": torch.zeros(12), "mean_square": torch.zeros(12)})
    found.load(tmp_path / "saved")
    assert found(torch.tensor([1])).item() == 7


def test_rows_lent_for_a_step_that_never_comes_are_let_go(tmp_path):
    found = table("host", tmp_path)
    for _ in range(5):
        found(torch.tensor([1, 2]))
    index = torch.tensor([3])
    found(index)  # and not as long as the caller keeps the index
    rows = found(index)
    assert len(found.staging._in_use) == 1
    rows.sum().backward()
    assert not found.staging._in_use


def test_a_failed_write_is_heard(tmp_path):
    found = table("host", tmp_path)
    store, rows = found.store, found(torch.tensor([1]))

    class Full:
        def write(self, *_):
            raise OSError("no space")

    found.prefetch(torch.tensor([1]))
    found.staging.store = Full()
    rows.sum().backward()
    found.staging.store = store
    with pytest.raises(OSError, match="no space"):
        found.flush()
    assert found(torch.tensor([1])).item() == 0  # not the row that was lost on the way


class Pairs(torch.utils.data.Dataset):
    """Items by name."""

    def __len__(self):
        return 10

    def __getitem__(self, i):
        return {"x": torch.tensor([float(i)]), "y": torch.tensor([2.0 * i])}


@pytest.mark.parametrize("kind", ["tuples", "mappings", "subset", "own"])
def test_look_ahead_runs_any_indexed_loader(kind):
    pairs = TensorDataset(torch.arange(10.0)[:, None], 2 * torch.arange(10.0)[:, None])
    dataset = {
        "tuples": likely.IndexedDataset(pairs),
        "mappings": likely.IndexedDataset(Pairs()),
        "subset": Subset(likely.IndexedDataset(pairs), range(2, 10)),
        "own": TensorDataset(*pairs.tensors, torch.arange(10)),
    }[kind]
    find = (lambda batch: batch[2]) if kind == "own" else None
    loader = DataLoader(dataset, batch_size=4, shuffle=True, generator=torch.Generator())
    results = []
    for store in ("device", "host"):
        loader.generator.manual_seed(1)
        loss_fn = likely.NormalLoss(scale=likely.Data(10, store=store))
        ahead = LookAhead(loader, loss_fn, index=find)
        assert len(ahead) == len(loader)
        seen = 0
        for _ in range(3):
            for batch in ahead:
                x, y, index = batch.values() if isinstance(batch, dict) else batch
                loss_fn(x, y, index=index).backward()
                seen += len(x)
        assert seen == 3 * len(dataset)
        results.append(loss_fn.scale.value)
    assert torch.equal(*results)


def test_leaving_the_loop_early_leaves_nothing_behind():
    loss_fn = likely.NormalLoss(scale=likely.Data(8, store="host"))
    data = likely.IndexedDataset(TensorDataset(torch.zeros(8), torch.zeros(8)))
    batches = iter(LookAhead(DataLoader(data, batch_size=2), loss_fn))
    next(batches)
    assert loss_fn.scale.table.staging._ahead
    batches.close()  # what break does
    assert not loss_fn.scale.table.staging._ahead


class Stream(IterableDataset):
    def __iter__(self):
        yield from torch.arange(4.0)


@pytest.mark.parametrize("dataset", [TensorDataset(torch.zeros(4), torch.zeros(4, dtype=torch.long)), Stream()])
def test_a_loader_without_row_numbers_is_refused(dataset):
    with pytest.raises(TypeError, match="IndexedDataset"):
        LookAhead(DataLoader(dataset), likely.NormalLoss())


def test_wrong_row_numbers_are_refused_before_the_batch_is_trained():
    loss_fn = likely.NormalLoss(scale=likely.Data(3, store="host"))
    data = likely.IndexedDataset(TensorDataset(torch.zeros(4), torch.zeros(4)))
    with pytest.raises(IndexError, match=r"0 to 3.*rows 0 to 2"):
        next(iter(LookAhead(DataLoader(data, batch_size=4), loss_fn)))
    with pytest.raises(TypeError, match="map-style"):
        likely.IndexedDataset(Stream())
