"""Several processes and threads with one table: forked workers read it, and no thread's step is lost."""

import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from likely.row_store import RowStore

# Newer Pythons warn of forks beside threads; the children use none of the parent's.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

ROWS = 20_000
START = torch.zeros(2)


def in_child(work):
    """The number of a process that does the work and ends."""
    pid = os.fork()
    if pid == 0:
        try:
            torch.set_num_threads(1)
            work()
            os._exit(0)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(1)
    return pid


def ended_well(pid, seconds=60):
    """Whether the process ends by itself, without an error, before long."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status == 0
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    raise AssertionError("the process hangs")


def in_file(path, n=10, **options):
    return RowStore(START.expand(n, 2), store=path, **options)


class Reading(Dataset):
    """A dataset that looks into a table, as a worker of a loader does."""

    def __init__(self, table, rows):
        self.table, self.rows = table, rows

    def __len__(self):
        return 20

    def __getitem__(self, number):
        with torch.no_grad():
            return self.table(torch.full((self.rows,), number % 10))[0, 0]


@pytest.mark.parametrize("store", ["device", "host", "file"])
def test_workers_of_a_loader_read_a_table(store, tmp_path):
    """In a process of its own, which may be killed."""

    def work():
        table = in_file(tmp_path / "rows.table" if store == "file" else store, optimizer="sgd", lr=1.0, clip=None)
        for _ in range(3):
            table.step(torch.arange(10), torch.arange(10.0)[:, None].expand(10, 2))
        data = Reading(table, 100 if store == "file" else 50_000)  # the latter enough for torch to use its threads
        loader = DataLoader(data, batch_size=4, num_workers=2, multiprocessing_context="fork", timeout=30)
        found = torch.cat(list(loader))
        assert torch.equal(found, -3.0 * (torch.arange(20) % 10))
        table.step(torch.arange(10), torch.ones(10, 2))  # the owner goes on
        assert (table.rows[:, 0] == -3.0 * torch.arange(10) - 1).all()

    assert ended_well(in_child(work))


def test_a_forked_process_trains_its_own_copy_of_rows_in_memory():
    table = RowStore(torch.zeros(ROWS, 2), store="host")
    index = torch.arange(ROWS)
    table.step(index, torch.ones(ROWS, 2))
    before = table.rows.clone()

    def work():
        assert torch.equal(table.rows, before)
        table.step(index, torch.ones(ROWS, 2))
        assert (table.rows < before).all()

    assert ended_well(in_child(work))
    assert torch.equal(table.rows, before)


@pytest.mark.parametrize("store", ["device", "host", "file"])
def test_no_step_of_any_thread_is_lost(store, tmp_path):
    store = tmp_path / "rows.table" if store == "file" else store
    table = in_file(store, optimizer="sgd", lr=1.0, clip=None)
    index, ones = torch.tensor([1, 2, 3]), torch.ones(3, 2)

    def train(number):
        for _ in range(100):
            if number % 2:
                table(index).sum().backward()
            else:
                table.step(index, ones)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(train, range(4)))
    assert (table.rows[1:4] == -400).all()
    assert (table.rows[4:] == 0).all()
