"""Files as people have them: every one is read, or refused in one sentence, and none is touched or run."""

import gzip
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from likely._rows.reading.read_table import read_array, read_table
from likely.auditing.columns.kinds import ColumnReader, read_columns
from pairwise import together


def text(path: Path, content: str, encoding: str = "utf-8") -> Path:
    path.write_bytes(content.encode(encoding))
    return path


@together("delimiter", [",", ";", "\t", "|"])
@together("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_delimiters_and_encodings(tmp_path: Path, delimiter: str, encoding: str) -> None:
    path = text(tmp_path / "a.csv", f"name{delimiter}größe\nJosé{delimiter}1.5\nZoë{delimiter}2\n", encoding)
    table = read_table(path)
    assert list(table.frame.columns) == ["name", "größe"]
    assert table.frame["größe"].tolist() == [1.5, 2]
    assert table.frame["name"].tolist() == ["José", "Zoë"]
    guessed = [note for note in table.notes if "Windows-1252" in note or "separated by" in note]
    assert list(table.notes) == guessed
    assert len(guessed) == (encoding == "cp1252") + (delimiter != ",")


def test_quoted_delimiters_and_line_ends_stay_in_their_cell(tmp_path: Path) -> None:
    frame = read_table(text(tmp_path / "a.csv", 'a,b\r\n"x, y","1\n2"\r\nz,w\r\n')).frame
    assert frame.to_numpy().tolist() == [["x, y", "1\n2"], ["z", "w"]]


def test_a_gzipped_file(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n1,2\n"))
    assert read_table(path).frame.to_numpy().tolist() == [[1, 2]]


def test_ragged_rows_are_cut_and_remembered(tmp_path: Path) -> None:
    table = read_table(text(tmp_path / "a.csv", "a,b\n1,2\n3,4,5\n6\n7,8\n"))
    assert table.frame["a"].tolist() == [1, 3, 6, 7]
    assert table.frame["b"].isna().tolist() == [False, False, True, False]
    assert list(table.ragged) == [1]
    assert "3 fields, the header 2" in table.ragged[1]
    columns = read_columns(table.frame)
    assert columns.kinds == {"a": "number", "b": "number"}


def test_ragged_rows_among_blank_ones_keep_their_place(tmp_path: Path) -> None:
    table = read_table(text(tmp_path / "a.csv", 'a\n \n\n""\n1\n2,3\n'))
    assert table.frame["a"].isna().tolist() == [True, False, False]
    assert list(table.ragged) == [2]


def test_a_header_that_is_shorter_than_the_rows_is_refused(tmp_path: Path) -> None:
    """Which of the columns has no name cannot be known; pandas would take the first for an index."""
    path = text(tmp_path / "a.csv", "a,b\n1,2,3\n4,5,6\n")
    with pytest.raises(ValueError, match=r"2 of 2 rows have more fields than the header \(row 0 has 3, the header 2\)"):
        read_table(path)
    table = read_table(text(tmp_path / "a.csv", "a,b\n1,2,\n4,5,\n"))  # delimiters at the end are no fields
    assert table.frame.to_numpy().tolist() == [[1, 2], [4, 5]]
    assert not table.ragged


def test_repeated_and_empty_headers_get_names_of_their_own(tmp_path: Path) -> None:
    table = read_table(text(tmp_path / "a.csv", "a,a,,a (2)\n1,2,3,4\n"))
    assert list(table.frame.columns) == ["a", "a (2)", "column 3", "a (2) (2)"]
    assert "More than one column" in table.notes[0]
    table = read_table(text(tmp_path / "a.csv", "column 2,,b\n1,2,3\n"))
    assert list(table.frame.columns) == ["column 2", "column 2 (2)", "b"]
    twice = pd.DataFrame([[1, 2]], columns=["x", "x"])
    assert list(read_table(twice).frame.columns) == ["x", "x (2)"]
    assert list(twice.columns) == ["x", "x"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"", "is empty"),
        ("a.csv", b"\n \n", "is empty"),
        ("a.csv", b"a,b\n", "a header and no rows"),
        ("a.csv", b"PK\0\0rubbish", "NUL bytes"),
        ("a.xlsx", b"anything", "its name should end in"),
        ("a.npz", b"anything", "its name should end in"),
    ],
)
def test_what_cannot_be_read_is_refused_in_a_sentence(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_table(path)
    assert path.read_bytes() == content


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="does not exist"):
        read_table(tmp_path / "nowhere.csv")
    with pytest.raises(FileNotFoundError, match="holds no file that ends in"):
        read_table(tmp_path)


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return (pytest.fail, ("something was unpickled",))


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([Bomb()], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="could run code"):
        read_array(tmp_path / "a.npy", "logits")
    plain = tmp_path / "plain.npy"
    plain.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(ValueError, match="could run code"):
        read_array(plain, "logits")


def test_arrays(tmp_path: Path) -> None:
    assert list(read_table(np.eye(3)).frame.columns) == ["x0", "x1", "x2"]
    assert read_table(np.array([[1, "a"], [2, "b"]], dtype=object)).frame["x0"].sum() == 3
    assert list(read_table(np.array([(1, 2.5)], dtype=[("p", int), ("q", float)])).frame.columns) == ["p", "q"]
    np.savez(tmp_path / "a.npz", p=np.zeros(2), q=np.ones(2))
    with pytest.raises(ValueError, match=r"holds several arrays: logits must be one, in an \.npy file"):
        read_array(tmp_path / "a.npz", "logits")


def test_parquet_and_arrow(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import feather, ipc, parquet

    table = arrow.table({"a": [1, 2, None], "b": ["x", "y", "z"]})
    parquet.write_table(table, tmp_path / "a.parquet")
    feather.write_feather(table, tmp_path / "a.feather")
    with ipc.new_stream(tmp_path / "a.arrow", table.schema) as stream:
        stream.write_table(table)
    for path in tmp_path.iterdir():
        assert read_table(path).frame["b"].tolist() == ["x", "y", "z"]
    assert read_table(table).frame["a"].isna().tolist() == [False, False, True]
    (tmp_path / "b.parquet").write_bytes(b"PAR1 rubbish")
    with pytest.raises(ValueError, match="cannot be read"):
        read_table(tmp_path / "b.parquet")


def test_polars() -> None:
    polars = pytest.importorskip("polars")
    frame = read_table(polars.DataFrame({"a": [1, 2, None], "b": ["x", None, "z"]})).frame
    columns = read_columns(frame)
    assert columns.kinds == {"a": "number", "b": "category"}
    assert columns.typed["b"].isna().tolist() == [False, True, False]


@together(
    ("values", "kind"),
    [
        ([1.0, 2.5, None] * 10, "number"),
        (["1", "2", "3"] * 10, "number"),
        ([True, False, True] * 10, "category"),
        (["a", "b", None] * 10, "category"),
        ([1, "a", 2.5] * 10, "category"),
        ([[1], {"a": 2}, None] * 10, "category"),
        (pd.date_range("2020-01-01", periods=30).tolist(), "date"),
        ([f"2020-01-{day:02}" for day in range(1, 31)], "date"),
        ([f"id-{i}" for i in range(60)], "identifier"),
        (list(range(30)), "identifier"),
        (["a long text about nothing in particular, " * 2 + str(i) for i in range(60)], "text"),
        ([7] * 30, "constant"),
        ([None] * 30, "empty"),
        ([1e308, -1e308, 1e-308] * 10, "number"),
    ],
)
def test_kinds_of_columns(values: list[Any], kind: str) -> None:
    frame = pd.DataFrame({"x": pd.Series(values)})
    columns = read_columns(frame)
    assert columns.kinds == {"x": kind}
    reader = ColumnReader.of(columns)
    owners = [name for name in reader.kinds for _ in range(len(reader.indicated(name)) or 1)]
    assert reader.design(columns.typed).shape == (len(values), len(owners))


def test_a_word_and_an_infinity_among_numbers_are_odd_cells() -> None:
    columns = read_columns(pd.DataFrame({"x": ["1", "n.a.", "2", *["3"] * 20], "y": [np.inf, *np.arange(22.0) ** 2]}))
    assert [(cell.row, cell.column, cell.value) for cell in columns.odd] == [(1, "x", "n.a."), (0, "y", "inf")]
    assert columns.typed.isna().sum().tolist() == [1, 1]
