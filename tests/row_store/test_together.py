"""Several processes and threads with one table: savers, readers, forked workers; a kill or a full disk in a save."""

import os
import random
import resource
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from likely.row_store import LookAhead, RowStore, _lock

# Newer Pythons warn of forks beside threads; the children use none of the parent's.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

ROWS = 20_000
START = torch.zeros(2)


def numbered(number, store="device"):
    """A table all of whose rows are the number."""
    return RowStore(torch.full((ROWS, 2), float(number)), store=store)


def the_number(path):
    """Of the table saved there, all of whose rows must be alike."""
    table = numbered(-1)
    table.load(path)
    values = table.rows.unique()
    assert len(values) == 1
    return int(values)


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


def save_often(path, number, times=10**9):
    table = numbered(number)
    for _ in range(times):
        table.save(path)


def in_file(path, n=10, **options):
    return RowStore(START.expand(n, 2), store=path, **options)


def test_two_savers_and_a_reader_never_meet_half_a_table(tmp_path):
    path = tmp_path / "rows.table"
    numbered(0).save(path)
    savers = [in_child(lambda number=number: save_often(path, number, 20)) for number in (1, 2)]
    readers = [in_child(lambda: [the_number(path) for _ in range(20)]) for _ in range(2)]
    seen = {the_number(path) for _ in range(20)}
    assert all(map(ended_well, savers + readers))
    assert seen <= {0, 1, 2}
    assert the_number(path) in (1, 2)
    assert os.listdir(tmp_path) == ["rows.table"]


def test_a_kill_at_any_moment_of_a_save_leaves_the_old_table_or_the_new_one(tmp_path):
    path, luck = tmp_path / "rows.table", random.Random(0)
    numbered(0).save(path)
    for number in range(1, 21):
        pid = in_child(lambda number=number: save_often(path, number))
        time.sleep(luck.uniform(0.002, 0.03))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        assert the_number(path) <= number


def test_a_save_deletes_no_file_of_another_name(tmp_path):
    others = ("keep.new", "keep.partial", ".keep.partial", "keep.undo")
    for name in others:
        (tmp_path / name).write_text("unrelated")
    numbered(1).save(tmp_path / "keep")
    numbered(2).save(str(tmp_path / "keep"))
    assert the_number(tmp_path / "keep") == 2
    assert {p.name for p in tmp_path.iterdir()} == {"keep", *others}
    assert all((tmp_path / name).read_text() == "unrelated" for name in others)


def test_a_file_that_looks_like_a_journal_but_is_none_is_not_emptied(tmp_path):
    (tmp_path / "rows.table.undo").write_text("the story of a life")
    with pytest.raises(ValueError, match=r"rows.table.undo is there and is no journal.*move it"):
        in_file(tmp_path / "rows.table")
    assert os.listdir(tmp_path) == ["rows.table.undo"]
    numbered(1).save(tmp_path / "rows.table")
    with pytest.raises(ValueError, match="no journal"):
        in_file(tmp_path / "rows.table", ROWS)
    assert (tmp_path / "rows.table.undo").read_text() == "the story of a life"


def test_a_table_in_memory_that_finds_no_room_leaves_the_old_one(tmp_path):
    """The system refuses to let any file grow beyond half the size, as a full disk does."""
    path = tmp_path / "rows.table"
    numbered(1).save(path)
    table, limit = numbered(2), path.stat().st_size // 2

    def work():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        with pytest.raises(OSError, match=r"File too large; the table was not saved.*rows\.table"):
            table.save(path)

    assert ended_well(in_child(work))
    assert the_number(path) == 1
    assert os.listdir(tmp_path) == ["rows.table"]


def test_an_interrupted_save_leaves_the_old_table(tmp_path, monkeypatch):
    path, table = tmp_path / "rows.table", numbered(2)
    numbered(1).save(path)

    def interrupted():
        yield next(chunks)
        raise KeyboardInterrupt

    chunks = table.chunks()
    monkeypatch.setattr(table, "chunks", interrupted)
    with pytest.raises(KeyboardInterrupt):
        table.save(path)
    assert the_number(path) == 1
    assert os.listdir(tmp_path) == ["rows.table"]


def test_a_save_in_place_interrupted_after_its_moment_has_happened(tmp_path, monkeypatch):
    table = in_file(tmp_path / "rows.table")
    table.step(torch.tensor([1]), torch.ones(1, 2))
    table.flush()
    fsyncs = iter([None, KeyboardInterrupt()])

    def fsync(_):
        if error := next(fsyncs):
            raise error

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(KeyboardInterrupt):
        table.save()
    monkeypatch.undo()
    saved = table.rows.clone()
    table.step(torch.tensor([1, 2]), torch.ones(2, 2))
    table.close()
    assert torch.equal(in_file(tmp_path / "rows.table").rows, saved)


def test_readers_share_a_saved_table(tmp_path):
    path, ready, go = tmp_path / "rows.table", os.pipe(), os.pipe()
    numbered(3).save(path)
    path.chmod(0o444)  # so that opening it does not claim it

    def read():
        table = in_file(path, ROWS)
        os.write(ready[1], b".")
        os.read(go[0], 1)
        assert (table(torch.tensor([0, ROWS - 1])) == 3).all()

    readers = [in_child(read) for _ in range(3)]
    for _ in readers:
        os.read(ready[0], 1)  # all three have it now
    assert the_number(path) == 3
    os.write(go[1], b"...")
    assert all(map(ended_well, readers))


@pytest.mark.parametrize("journal", [False, True])
def test_a_file_that_is_read_only_is_read_and_stays_as_it_is(journal, tmp_path):
    folder = tmp_path / "folder"
    table = in_file(folder / "rows.table")
    table.step(torch.tensor([1, 2]), torch.ones(2, 2))
    table.save()
    saved, squares = table.rows.clone(), table.mean_square.clone()
    if journal:  # a process was killed while it trained
        table.step(torch.tensor([2, 3, 3]), torch.ones(3, 2))
    table.close()
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    for path in folder.iterdir():
        path.chmod(0o444)
    folder.chmod(0o555)
    try:
        memory, again = RowStore(torch.zeros(10, 2)), in_file(folder / "rows.table")
        memory.load(folder / "rows.table")
        for reader in (memory, again, in_file(folder / "rows.table")):
            assert torch.equal(reader.rows, saved)
            assert torch.equal(reader.mean_square, squares)
            assert torch.equal(reader(torch.tensor([3, 2, 2, 0])).detach(), saved[[3, 2, 2, 0]])
        again.save()  # of which there is nothing to be done
        with pytest.raises(PermissionError, match=r"open for reading.*rows\.table"):
            again.step(torch.tensor([1]), torch.ones(1, 2))
        assert {p.name: p.read_bytes() for p in folder.iterdir()} == before
    finally:
        folder.chmod(0o755)


def test_media_that_cannot_be_written_to_are_read():
    """The system's own refusal, to somebody who is not root, where this is run by root."""
    table = numbered(4)

    def work():
        if os.geteuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        assert the_number(folder / "rows.table") == 4
        there = in_file(folder / "rows.table", ROWS)
        assert (there.rows == 4).all()
        attempts = {"rows": table.save, "new": table.save, "other": in_file}
        for name, attempt in attempts.items():
            with pytest.raises(PermissionError, match=rf"{name}\.table'"):
                attempt(folder / f"{name}.table")

    with TemporaryDirectory() as outer:  # which others than root may enter
        folder = Path(outer, "media")
        table.save(folder / "rows.table")
        folder.chmod(0o555)
        os.chmod(outer, 0o755)
        try:
            assert ended_well(in_child(work))
            assert os.listdir(folder) == ["rows.table"]
        finally:
            folder.chmod(0o755)


def test_one_who_trains_keeps_others_away_until_it_is_closed(tmp_path, monkeypatch):
    monkeypatch.setattr(_lock, "_PATIENCE", 0.05)
    path, memory = tmp_path / "rows.table", RowStore(torch.zeros(10, 2))
    table = in_file(path)
    link = tmp_path / "link.table"
    link.symlink_to(path)
    attempts = (lambda: in_file(path), lambda: in_file(link), lambda: memory.load(path), lambda: memory.save(path))
    for attempt in attempts:
        with pytest.raises(OSError, match=r"in use.*rows\.table"):
            attempt()
    table.close()
    with pytest.raises(ValueError, match=r"rows\.table is closed: open it again"):
        table(torch.tensor([1]))
    memory.load(path)
    memory.save(path)
    in_file(link).close()
    assert {p.name for p in tmp_path.iterdir()} == {"rows.table", "rows.table.undo", "link.table"}  # no link.table.undo


def test_a_table_with_another_name_is_not_changed_under_it(tmp_path):
    in_file(tmp_path / "rows.table").close()
    os.link(tmp_path / "rows.table", tmp_path / "backup.table")
    with pytest.raises(ValueError, match=r"rows\.table has another name.*train in a copy"):
        in_file(tmp_path / "rows.table")
    RowStore(torch.zeros(10, 2)).load(tmp_path / "backup.table")


def test_two_processes_that_make_one_table_do_not_both_have_it(tmp_path):
    """Ten times two at once: the second waits a moment for the first to be done."""
    for number in range(10):
        path = tmp_path / f"{number}.table"

        def make(path=path):
            table = in_file(path)
            table.step(torch.tensor([1]), torch.ones(1, 2))
            table.save()  # which finds out if the file is not there any more
            table.close()

        assert all(map(ended_well, [in_child(make) for _ in range(2)]))
        both = in_file(path)
        assert both.rows[1, 0] < -0.15  # two steps: nobody's was lost


@pytest.mark.parametrize("name", ["rows.table", "rows.table.undo"])
def test_a_save_under_a_name_that_is_gone_is_refused(name, tmp_path):
    table = in_file(tmp_path / "rows.table")
    table.step(torch.tensor([1]), torch.ones(1, 2))
    (tmp_path / name).unlink()
    with pytest.raises(OSError, match=rf"not saved: the file was removed.*{name}'"):
        table.save()


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
@pytest.mark.parametrize("ahead", [False, True])
def test_workers_of_a_loader_read_a_table(store, ahead, tmp_path):
    """Forked while rows are on their way to and from the store; in a process of its own, which may be killed."""

    def work():
        table = in_file(tmp_path / "rows.table" if store == "file" else store, optimizer="sgd", lr=1.0, clip=None)
        for _ in range(3):
            table.step(torch.arange(10), torch.arange(10.0)[:, None].expand(10, 2))
            if ahead:
                table.prefetch(torch.arange(10))
        data = Reading(table, 100 if store == "file" else 50_000)  # the latter enough for torch to use its threads
        loader = DataLoader(data, batch_size=4, num_workers=2, multiprocessing_context="fork", timeout=30)
        found = torch.cat(list(loader))
        assert torch.equal(found, -3.0 * (torch.arange(20) % 10))
        table.step(torch.arange(10), torch.ones(10, 2))  # the owner goes on
        assert (table.rows[:, 0] == -3.0 * torch.arange(10) - 1).all()

    assert ended_well(in_child(work))


def test_a_forked_process_may_read_a_table_in_a_file_and_not_change_it(tmp_path):
    path = tmp_path / "rows.table"
    table = in_file(path)
    table.step(torch.arange(10), torch.ones(10, 2))

    def work():
        assert (table.rows[:, 0] < 0).all()
        index = torch.tensor([1])
        for change in (lambda: table.step(index, torch.ones(1, 2)), table(index).sum().backward, table.save):
            with pytest.raises(RuntimeError, match="may read its rows, not change"):
                change()
        table.close()  # its own descriptors only

    assert ended_well(in_child(work))
    with pytest.raises(OSError, match="in use"):
        in_file(path)
    table.save()
    child = in_child(lambda: time.sleep(60))  # with the file open, as every forked process has it
    table.close()
    again = in_file(path)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert (again.rows[:, 0] < 0).all()


def test_a_forked_reader_sees_rows_whole_while_its_parent_trains(tmp_path):
    width = 3000  # more than a page
    table = RowStore(torch.zeros(width).expand(4, width), store=tmp_path / "rows.table", optimizer="sgd", clip=None)

    def work():
        for _ in range(300):
            with torch.no_grad():
                rows = table(torch.tensor([1, 2]))
            assert len(rows.unique()) == 1  # both rows of one batch, and all of each

    child = in_child(work)
    for _ in range(300):
        table.step(torch.tensor([1, 2]), torch.ones(2, width))
    assert ended_well(child)


def test_a_forked_process_trains_its_own_copy_of_rows_in_memory():
    table = numbered(0, "host")
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


def test_a_loader_that_looks_ahead_survives_workers():
    """Workers are forked by the loader while the rows of its batches are fetched ahead."""
    import likely

    table = in_file("host", n=12)
    data = likely.IndexedDataset(torch.utils.data.TensorDataset(torch.randn(12, 2)))
    loader = DataLoader(data, batch_size=3, num_workers=2, multiprocessing_context="fork", timeout=30)
    for _ in range(2):
        for x, index in LookAhead(loader, table):
            (table(index) * x).sum().backward()
    assert (table.rows != 0).all()
