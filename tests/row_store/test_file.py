"""A table in a file: it is there when it is opened again, and a file that is no such table is left alone."""

import resource
import signal

import numpy as np
import pytest
import torch

from likely.row_store import RowStore


def open_table(path, n=10, shape=(2,), start=0.5, **options):
    return RowStore(torch.full(shape, start).expand(n, *shape), store=path, **options)


def move(table, *index, by=1.0):
    table(torch.tensor(index)).sum().mul(by).backward()


def both(table):
    return table.rows.clone(), table.mean_square.clone()


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("options", [{}, {"dtype": torch.bfloat16}, {"optimizer": "sgd"}])
def test_goes_on_where_it_was(options, tmp_path):
    path = tmp_path / "deep" / "rows.table"
    table = open_table(path, **options)
    assert (table.rows == 0.5).all()
    move(table, 1, 3)
    table.flush()
    saved = both(table)
    del table
    table = open_table(path, start=-1.0, **options)  # another start: the file's is kept
    assert same(both(table), saved)
    move(table, 3, 4)
    saved = both(table)
    del table
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


def test_a_copy_of_the_file_is_a_checkpoint(tmp_path):
    table = open_table(tmp_path / "rows.table")
    move(table, 1, 3)
    table.flush()
    saved = both(table)
    (tmp_path / "copy.table").write_bytes((tmp_path / "rows.table").read_bytes())
    move(table, 3, 4)
    assert same(both(open_table(tmp_path / "copy.table")), saved)
    assert not same(both(table), saved)


def test_numpy_reads_the_file(tmp_path):
    table = open_table(tmp_path / "rows.table", shape=(), start=0.0)
    move(table, 1)
    records = np.lib.format.open_memmap(tmp_path / "rows.table", mode="r")
    assert records.dtype.names == ("torch.float32", "mean square of rmsprop")
    assert np.array_equal(records["torch.float32"][1:].view(np.float32), table.rows)


def test_what_is_refused(tmp_path):
    with pytest.raises(ValueError, match="must start equal"):
        RowStore(torch.randn(3), store=tmp_path / "new")
    with pytest.raises(ValueError, match=r"'device', 'host' or a path.*'cpu'"):
        RowStore(torch.zeros(3), store="cpu")
    with pytest.raises(ValueError, match="dtype"):
        RowStore(torch.zeros(()).expand(3), store=tmp_path / "new", dtype=torch.float16)


@pytest.mark.parametrize(
    "other", [{"n": 11}, {"shape": (3,)}, {"dtype": torch.bfloat16}, {"optimizer": "sgd"}, {"optimizer": "adagrad"}]
)
def test_a_table_of_another_kind_is_refused_and_left_alone(other, tmp_path):
    path = tmp_path / "rows.table"
    table = open_table(path)
    move(table, 2)
    saved = both(table)
    with pytest.raises(ValueError, match=r"has 10 rows of .*torch.float32.*expected .*use the options"):
        open_table(path, **other)
    assert same(both(open_table(path)), saved)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda b: b[:-1],
        lambda b: b[:64],
        lambda b: b"",
        lambda b: b"PK\x03\x04" + b[4:],
        lambda b: b.replace(b"descr", b"other"),
        lambda b: b.replace(b"(11,)", b"(1e1)"),
        lambda b: b"\x80\x04cos\nsystem\n(S'exit 3'\ntR.",
    ],
)
def test_a_truncated_or_foreign_file_is_refused_and_left_alone(spoil, tmp_path):
    path = tmp_path / "rows.table"
    open_table(path)
    spoiled = spoil(path.read_bytes())
    path.write_bytes(spoiled)
    with pytest.raises(ValueError, match=r"rows\.table (is not a table|has)|table in .*rows\.table has"):
        open_table(path)
    assert path.read_bytes() == spoiled


def test_a_full_disk_raises_an_error(tmp_path):
    """The system refuses every write beyond 4 KB, as a full disk does."""
    table = open_table(tmp_path / "rows.table", n=2000)
    old, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, old[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            move(table, *range(1000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, handler)
    move(table, 1999)
    assert (table.rows[1999] != 0.5).all()


def test_an_index_that_is_no_row_never_reaches_the_file(tmp_path):
    path = tmp_path / "rows.table"
    table = open_table(path, validate_args=False)
    before = path.read_bytes()
    for number in (-1, 10):
        with pytest.raises(IndexError, match="rows 0 to 9"):
            table(torch.tensor([number]))
    assert path.read_bytes() == before
