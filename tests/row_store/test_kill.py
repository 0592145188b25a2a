"""kill -9, twenty times: in saves, and by the clock while it trains, saves and opens; the table is as last saved."""

import mmap
import os
import random
import signal
import sys
import time
import traceback

import pytest
import torch

from likely.row_store import RowStore

# Newer Pythons warn of forks beside threads; the children use none of the parent's.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

ROWS, BATCH, EVERY, KILLS = 5000, 200, 4, 20
OPENING, TRAINING, SAVING, FAILED = range(4)


def make(store):
    return RowStore(torch.full((3,), 0.25).expand(ROWS, 3), store=store, optimizer="adagrad", clip=None)


def train(table, number):
    """The step of that number; the last row counts the steps, so that a table tells how old it is."""
    generator = torch.Generator().manual_seed(number)
    index = torch.randint(0, ROWS - 1, (BATCH,), generator=generator)
    table.step(index, torch.randn(BATCH, 3, generator=generator))
    table.step(torch.tensor([ROWS - 1]), torch.ones(1, 3))


def steps_of(table):
    """Adagrad's sum of squares of gradients that are all one."""
    return int(table.mean_square[-1])


def die_after(calls):
    """Kill this process when it has made so many calls, of Python or of the system, from here on."""
    left = iter(range(calls))

    def count(*_):
        if next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(count)


def child(path, in_file, shared, calls):
    """Train and save for ever, saying what is being done, and die that many calls into saves; never returns."""
    try:
        torch.set_num_threads(1)
        table = make(path if in_file else "device")
        if not in_file and path.exists():
            table.load(path)
        shared[8:16] = steps_of(table).to_bytes(8, "little")
        for number in range(steps_of(table), 10**9):
            shared[0] = TRAINING
            train(table, number)
            if number % EVERY == EVERY - 1:
                table.flush()
                shared[0] = SAVING
                if calls is not None:
                    die_after(calls)
                table.save(*([] if in_file else [path]))
                sys.setprofile(None)
                shared[8:16] = (number + 1).to_bytes(8, "little")
                calls = calls and calls // 2  # fewer than a save makes, in the end
    except BaseException:
        traceback.print_exc()
        shared[0] = FAILED
    finally:
        os._exit(1)


def reported(shared):
    return int.from_bytes(shared[8:16], "little")


def kill_in(phase, shared, pid, luck):
    """Wait for a few saves and for the phase, and kill from outside at a moment near it, in a call or between two."""
    until = time.monotonic() + 60
    first = reported(shared) + EVERY * (0 if phase == OPENING else luck.randrange(3))
    while (reported(shared) < first or shared[0] != phase) and shared[0] != FAILED and phase != OPENING:
        assert time.monotonic() < until, "the child does not get there"
    time.sleep(luck.uniform(0, 0.003))
    os.kill(pid, signal.SIGKILL)


# About as many calls as a save makes.
@pytest.mark.parametrize(("in_file", "most"), [(True, 62), (False, 940)], ids=["file", "memory"])
def test_the_table_is_as_it_was_last_saved(in_file, most, tmp_path):
    path, shared, luck = tmp_path / "rows.table", mmap.mmap(-1, 16), random.Random(0)
    reference, done = make("device"), 0
    for kill in range(KILLS):
        shared[0], calls = OPENING, None if kill % 2 else luck.randrange(most)
        pid = os.fork()
        if pid == 0:
            child(path, in_file, shared, calls)
        if kill % 2:
            kill_in((SAVING, TRAINING, OPENING)[kill % 3], shared, pid, luck)
        _, status = os.waitpid(pid, 0)
        assert os.WTERMSIG(status) == signal.SIGKILL
        assert shared[0] != FAILED
        assert kill % 2 or shared[0] == SAVING
        if in_file or path.exists():
            table = make(path if in_file else "device")
            if not in_file:
                table.load(path)
            steps = steps_of(table)
            # One more if it was killed between the end of a save and the report of it.
            assert steps - reported(shared) in (0, EVERY)
            for number in range(done, steps):
                train(reference, number)
            done = steps
            assert torch.equal(table.rows, reference.rows)
            assert torch.equal(table.mean_square, reference.mean_square)
            table.close()
    assert done
