"""A table in a file: it resumes where it was saved, and no file is harmed by an error."""

import errno
import os
import resource
import shutil
import signal
import subprocess
import sys

import pytest
import torch

from likely.row_store import RowStore
from likely.row_store._file import File
from likely.row_store._format import HEADER


def open_table(path, n=10, shape=(2,), start=0.5, **options):
    return RowStore(torch.full(shape, start).expand(n, *shape), store=path, **options)


def move(table, *index, by=1.0):
    table(torch.tensor(index)).sum().mul(by).backward()


def move_and_save(table, *index):
    move(table, *index)
    table.save()


def both(table):
    return table.rows.clone(), table.mean_square.clone()


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("options", [{}, {"dtype": torch.bfloat16}, {"optimizer": "sgd"}])
def test_resumes_as_it_was_saved(options, tmp_path):
    path = tmp_path / "deep" / "rows.table"
    table = open_table(path, **options)
    assert (table.rows == 0.5).all()
    move(table, 1, 3)
    table.save()
    saved = both(table)
    move(table, 3, 4)
    assert not same(both(table), saved)
    table.close()  # as a process that ends without saving
    table = open_table(path, start=-1.0, **options)  # another start: the file's is kept
    assert same(both(table), saved)
    move(table, 3, 4)
    move(table, 3, 4)
    table.save()
    saved = both(table)
    table.close()
    assert same(both(open_table(path, **options)), saved)


def test_rows_untouched_take_no_room(tmp_path):
    path = tmp_path / "billion.table"
    table = RowStore(torch.tensor(0.7).expand(10**9), store=path)
    move(table, 0, 123_456_789, 999_999_999)
    table.flush()
    assert path.stat().st_size > 8 * 10**9
    assert path.stat().st_blocks * 512 < 10**6
    with torch.no_grad():
        assert table(torch.tensor([5, 0, 999_999_999])).tolist() == pytest.approx([0.7, 0.6, 0.6])


def test_a_journal_is_bounded_by_the_rows_changed(tmp_path):
    path = tmp_path / "rows.table"
    table = open_table(path, shape=())
    for _ in range(50):
        move(table, 1, 2, 2)
    table.flush()
    assert os.path.getsize(f"{path}.undo") == 16 + 3 * (8 + 8)  # a row twice in one batch is noted twice, alike
    table.save()
    assert os.path.getsize(f"{path}.undo") == 0


@pytest.mark.parametrize("store", ["device", "host"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_table_in_memory_is_saved_and_loaded(store, dtype, tmp_path):
    table = RowStore(torch.randn(50, 3), store=store, dtype=dtype)
    for _ in range(2):  # over an older one too
        move(table, 1, 4)
        table.save(tmp_path / "saved")
    other = RowStore(torch.zeros(50, 3), dtype=dtype)
    other.load(tmp_path / "saved")
    assert same(both(other), both(table))
    in_file = open_table(tmp_path / "saved", n=50, shape=(3,), dtype=dtype)
    assert same(both(in_file), both(table))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["saved", "saved.undo"]


def test_what_save_and_load_refuse(tmp_path):
    table = open_table(tmp_path / "rows.table")
    with pytest.raises(ValueError, match="takes no path"):
        table.save(tmp_path / "other")
    with pytest.raises(ValueError, match="is stored in"):
        table.load(tmp_path / "other")
    memory = RowStore(torch.zeros(10, 2))
    with pytest.raises(ValueError, match=r"save\(path\)"):
        memory.save()
    with pytest.raises(FileNotFoundError, match="no table"):
        memory.load(tmp_path / "nothing")
    with pytest.raises(ValueError, match="must start equal"):
        RowStore(torch.randn(3), store=tmp_path / "new")
    with pytest.raises(ValueError, match=r"'device', 'host' or a path.*'cpu'"):
        RowStore(torch.zeros(3), store="cpu")
    with pytest.raises(ValueError, match="dtype"):
        RowStore(torch.zeros(()).expand(3), store=tmp_path / "new", dtype=torch.float16)
    with pytest.raises(TypeError, match="cannot be copied"):
        __import__("copy").deepcopy(table)


@pytest.mark.parametrize(
    "other", [{"n": 11}, {"shape": (3,)}, {"dtype": torch.bfloat16}, {"optimizer": "sgd"}, {"optimizer": "adagrad"}]
)
def test_a_table_of_another_kind_is_refused_and_left_alone(other, tmp_path):
    path = tmp_path / "rows.table"
    table = open_table(path)
    move(table, 2)
    table.save()
    saved = both(table)
    table.close()
    with pytest.raises(ValueError, match=r"has 10 rows of shape \(2,\), torch.float32, with .*expected "):
        open_table(path, **other)
    kind = {"n": 10, "shape": (2,), **other}
    memory = RowStore(torch.zeros(kind.pop("n"), *kind.pop("shape")), **kind)
    with pytest.raises(ValueError, match="has 10 rows"):
        memory.load(path)
    assert same(both(open_table(path)), saved)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda b: b[:-1], "cut off"),
        (lambda b: b + b"x", "cut off"),
        (lambda b: b[: HEADER // 2], "cut off|not a table"),
        (lambda b: b"", "not a table"),
        (lambda b: b"PK\x03\x04" + b[4:], "not a table"),
        (lambda b: b[:20] + b"[" + b[21:], "not a table"),
        (lambda b: b.replace(b"float32", b"complex"), "not a table"),
        (lambda b: b.replace(b'"rows": 10', b'"rows": []'), "not a table"),
        (lambda b: b.replace(b'"rows": 10', b'"rows": -1'), "cut off"),
        (lambda b: b.replace(b'"rows": 10', b'"rows":1e1'), "not a table"),
        (lambda b: b.replace(b"rmsprop", b"adamant"), "not a table"),
        (lambda b: b[:15] + b"[" * (HEADER - 15) + b[HEADER:], "not a table"),
        (lambda b: b"\x80\x04cos\nsystem\n(S'exit 3'\ntR.", "not a table"),
    ],
)
def test_a_truncated_or_foreign_file_is_refused_and_left_alone(spoil, message, tmp_path):
    path = tmp_path / "rows.table"
    open_table(path)
    spoiled = spoil(path.read_bytes())
    path.write_bytes(spoiled)
    memory = RowStore(torch.zeros(10, 2))
    for attempt in (lambda: open_table(path), lambda: memory.load(path), lambda: memory.save(path)):
        with pytest.raises(ValueError, match=message):
            attempt()
    assert path.read_bytes() == spoiled


@pytest.mark.parametrize("optimizer", ["rmsprop", "adagrad", "sgd"])
def test_a_table_is_opened_by_the_optimizer_that_trained_it(optimizer, tmp_path):
    for path in (tmp_path / "memory.table", tmp_path / "file.table"):
        table = RowStore(
            torch.full((2,), 0.5).expand(10, 2), store=path if "file" in path.name else "device", optimizer=optimizer
        )
        move(table, 2)
        table.save(*([] if "file" in path.name else [path]))
        table.close()
        for other in {"rmsprop", "adagrad", "sgd"} - {optimizer}:
            with pytest.raises(
                ValueError, match=rf"\({optimizer}\); expected .*\({other}\): use the options it was made with"
            ):
                open_table(path, optimizer=other)
            with pytest.raises(ValueError, match="use the options it was made with"):
                RowStore(torch.zeros(10, 2), optimizer=other).load(path)
        loaded = RowStore(torch.zeros(10, 2), optimizer=optimizer)
        loaded.load(path)
        assert same(both(open_table(path, optimizer=optimizer)), both(loaded))


def test_a_file_that_does_not_say_by_which_optimizer_it_was_trained_is_refused_and_left_alone(tmp_path):
    path, table = tmp_path / "rows.table", RowStore(torch.ones(10, 2), optimizer="adagrad")
    move(table, 2)
    table.save(path)
    content = path.read_bytes()
    path.write_bytes(content[:HEADER].replace(b', "optimizer": "adagrad"', b"").ljust(HEADER) + content[HEADER:])
    unnamed, again = path.read_bytes(), RowStore(torch.zeros(10, 2), optimizer="adagrad")
    with pytest.raises(ValueError, match=r"rows\.table is not a table that likely wrote \('optimizer'\)"):
        again.load(path)
    assert path.read_bytes() == unnamed
    assert not both(again)[0].any()
    path.write_bytes(content)
    again.load(path)
    assert same(both(again), both(table))


def test_one_owner_at_a_time(tmp_path):
    path = tmp_path / "rows.table"
    table = open_table(path)
    with pytest.raises(OSError, match="in use"):
        open_table(path)
    with pytest.raises(OSError, match="in use"):
        RowStore(torch.zeros(10, 2)).save(path)
    move(table, 1)
    table.close()
    open_table(path)


def test_the_journal_of_another_table_is_not_applied(tmp_path):
    path = tmp_path / "rows.table"
    table = open_table(path)
    move(table, 1)
    table.flush()
    table.close()
    assert os.path.getsize(f"{path}.undo")
    os.remove(path)
    table = open_table(path, start=2.0)
    assert (table.rows == 2).all()


def test_a_journal_cut_off_in_mid_entry_is_read_up_to_there(tmp_path):
    path = tmp_path / "rows.table"
    table = open_table(path)
    move(table, 1, 2, 3)
    table.flush()
    rows = table.rows
    table.close()
    journal = path.with_name("rows.table.undo")
    journal.write_bytes(journal.read_bytes()[:-5])  # of row 3, which would not have been written then
    found = open_table(path).rows
    assert (found[1:3] == 0.5).all()
    assert torch.equal(found[3], rows[3])


def test_a_journal_of_rows_that_are_none_is_refused(tmp_path):
    path = tmp_path / "rows.table"
    table = open_table(path)
    move(table, 1)
    table.close()
    journal = path.with_name("rows.table.undo")
    content = journal.read_bytes()
    journal.write_bytes(content[:16] + (10).to_bytes(8, "little") + content[24:])
    for attempt in (lambda: open_table(path), lambda: RowStore(torch.zeros(10, 2)).load(path)):
        with pytest.raises(ValueError, match=r"rows\.table\.undo is damaged"):
            attempt()


@pytest.mark.parametrize("call", ["pwrite", "fsync"])
def test_a_full_disk_loses_nothing(call, tmp_path, monkeypatch):
    path = tmp_path / "rows.table"
    table = open_table(path)
    move(table, 1, 2)
    table.save()
    saved = both(table)

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, full)
    with pytest.raises(OSError, match="No space left"):
        move_and_save(table, 2, 3)
    monkeypatch.undo()
    move(table, 4)  # room again
    table.save()
    assert (table.rows[4] != 0.5).all()
    table.close()
    assert torch.equal(open_table(path).rows[[0, 1]], saved[0][[0, 1]])


def test_a_full_disk_while_a_table_in_memory_is_saved(tmp_path, monkeypatch):
    table = RowStore(torch.zeros(10, 2))
    table.save(tmp_path / "saved")
    before = (tmp_path / "saved").read_bytes()
    move(table, 1)
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space left")))
    with pytest.raises(OSError, match=r"No space left.*not saved"):
        table.save(tmp_path / "saved")
    assert (tmp_path / "saved").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_a_file_may_not_grow(tmp_path):
    """The kernel's own refusal, of every write beyond 4 KB: past the limit nothing changes, and saved rows stay."""
    path = tmp_path / "rows.table"
    table = open_table(path, n=2000)
    move(table, 7)
    table.save()
    saved = both(table)
    old, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (HEADER, old[1]))
    try:
        for numbers in ([7, 8], range(1000)):
            with pytest.raises(OSError, match="File too large"):
                move_and_save(table, *numbers)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, handler)
    assert same(both(table), saved)
    table.close()
    assert same(both(open_table(path, n=2000)), saved)


def test_a_disk_that_is_really_full(tmp_path):
    """In a file system of 256 KB, where this machine lets us make one."""
    code = (
        "import os, sys, torch\nfrom likely.row_store import RowStore\n"
        "m = sys.argv[1] + '/memory.table'; RowStore(torch.ones(100)).save(m)\n"
        "t = RowStore(torch.zeros(()).expand(10**6), store=sys.argv[1] + '/rows.table')\n"
        "t(torch.arange(50)).sum().backward(); t.save(); saved = t.rows[:50].clone()\n"
        "try:\n"
        "    for first in range(0, 10**6, 5000): t(torch.arange(first, first + 5000)).sum().backward()\n"
        "    t.flush()\n"
        "except OSError as error: print(error)\n"
        "t.close()\n"
        "t = RowStore(torch.zeros(()).expand(10**6), store=sys.argv[1] + '/rows.table')\n"
        "print(torch.equal(t.rows[:50], saved), int((t.rows != 0).sum()))\n"
        "try: RowStore(torch.zeros(60000)).save(m)\n"
        "except OSError as error: print(error)\n"
        "t = RowStore(torch.zeros(100)); t.load(m)\n"
        "print(bool((t.rows == 1).all()), sorted(os.listdir(sys.argv[1])))\n"
    )
    mount = f'mount -t tmpfs -o size=256k none "{tmp_path}" && exec "{sys.executable}" -c "$0" "{tmp_path}"'
    private = ["unshare", "--mount", "--map-root-user", "sh", "-c"]
    if (
        not shutil.which("unshare")
        or subprocess.run([*private, f'mount -t tmpfs none "{tmp_path}"'], capture_output=True, check=False).returncode
    ):
        pytest.skip("no file system of our own may be made here")
    done = subprocess.run([*private, mount, code], capture_output=True, text=True, check=True)
    error, after, error_in_memory, after_in_memory = done.stdout.splitlines()
    assert "No space left" in error
    assert after == "True 50"
    assert "No space left" in error_in_memory
    assert "memory.table" in error_in_memory
    assert after_in_memory == "True ['memory.table', 'rows.table', 'rows.table.undo']"


def test_an_index_that_is_no_row_never_reaches_the_file(tmp_path):
    table = open_table(tmp_path / "rows.table", validate_args=False)
    before = table.store.path.read_bytes()
    for number in (-1, 10):
        with pytest.raises(IndexError, match="which has 10 rows"):
            table(torch.tensor([number]))
    assert isinstance(table.store, File)
    assert table.store.path.read_bytes() == before
