"""Files as they should not be: read as they were meant, or refused in one line that names the row or the column."""

import datetime
import gzip
import io
import string
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

import likely
from auditing.page.test_read import text
from likely._rows.reading.read_table import read_array, read_table
from likely.auditing.checks.copies import find_twins
from likely.auditing.columns.kinds import read_columns
from pairwise import together

ROWS = [f"{i % 7},{i * i},w{i % 3}" for i in range(200)]


def lines(rows: list[str], header: str = "a,b,c") -> str:
    return "\n".join([header, *rows]) + "\n"


@pytest.mark.parametrize("stray", ['"{}', '3,"4,{}'])
def test_a_quote_that_is_never_closed_is_refused_with_its_row(tmp_path: Path, stray: str) -> None:
    rows = [*ROWS[:150], stray.format(ROWS[150]), *ROWS[151:]]
    with pytest.raises(
        ValueError, match=r"a\.csv: row 150 \(line 152\) has a quote \(\"\) that is closed 49 lines below, or never"
    ):
        read_table(text(tmp_path / "a.csv", lines(rows)))


@pytest.mark.parametrize("last", ['3,4,"x', '3,4,x"', '3,4,"well quoted"'])
def test_rows_between_two_stray_quotes_are_not_swallowed(tmp_path: Path, last: str) -> None:
    rows = [*ROWS[:150], '3,4,"x', *ROWS[151:160], last, *ROWS[161:]]
    with pytest.raises(ValueError, match=r"row 150 \(line 152\) has a quote .* closed 10 lines below"):
        read_table(text(tmp_path / "a.csv", lines(rows)))


def test_quotes_that_harm_no_other_row_are_read(tmp_path: Path) -> None:
    frame = read_table(text(tmp_path / "a.csv", 'a,b\n5" pipe,1\n"6"" pipe",2\n"two\nlines, of text",3\n')).frame
    assert frame["a"].tolist() == ['5" pipe', '6" pipe', "two\nlines, of text"]


def test_what_was_dropped_or_padded_is_told(tmp_path: Path) -> None:
    rows = [*ROWS[:9], "1,2", *ROWS[9:50], "1,2,x,9", "", " ", *ROWS[50:]]
    table = read_table(text(tmp_path / "a.csv", lines(rows)))
    assert len(table.frame) == 202
    assert table.frame["c"].isna().to_numpy().nonzero()[0].tolist() == [9]
    assert list(table.ragged) == [51]
    told = " ".join(table.notes)
    assert "1 row has more fields than the header, the first is row 51" in told
    assert "1 row has fewer fields than the header, the first is row 9 with 2 of 3" in told
    assert "2 blank lines" in told


def test_decimal_commas(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(50, 2)).round(4) * 1000
    written = [f"{a:.1f};{b:.4f};{i}".replace(".", ",") for i, (a, b) in enumerate(values)]
    table = read_table(text(tmp_path / "a.csv", lines(written, "a;b;c")))
    np.testing.assert_allclose(table.frame[["a", "b"]].to_numpy(float), values, atol=0.06)
    assert "Numbers with a decimal comma were read in a, b." in table.notes
    assert read_columns(table.frame).kinds["a"] == "number"


@pytest.mark.parametrize(
    ("delimiter", "written", "read"),
    [
        (";", ["1.234,5", "12,25", "1.234.567,0"], [1234.5, 12.25, 1234567]),
        (";", ["1 234,5", "-0,25", "NA"], [1234.5, -0.25, None]),
        (";", ["1,234", "2,345", "3,456"], [1.234, 2.345, 3.456]),
        (",", ["1,234", "2,345", "3"], [1234, 2345, 3]),
        (",", ["1,234", "2345", "0,5"], [1.234, 2345, 0.5]),
        (",", ["1,234.50", "12", "1,234,567"], [1234.5, 12, 1234567]),
        ("\t", ["1'234.5", "12", "13"], [1234.5, 12, 13]),
    ],
)
def test_numbers_as_other_countries_write_them(
    tmp_path: Path, delimiter: str, written: list[str], read: list[float | None]
) -> None:
    rows = [f'"{word}"{delimiter}x' for word in written]
    table = read_table(text(tmp_path / "a.csv", lines(rows, f"n{delimiter}w")))
    values = read_columns(pd.concat([table.frame] * 10, ignore_index=True)).typed["n"]
    assert values[:3].tolist() == pytest.approx([np.nan if value is None else value for value in read], nan_ok=True)
    assert any("n." in note for note in table.notes)


def test_dots_between_thousands_beside_decimal_commas(tmp_path: Path) -> None:
    table = read_table(text(tmp_path / "a.csv", "price;count\n1,5;1.234\n2,5;999\n3,25;2.345\n"))
    assert table.frame["count"].tolist() == [1234, 999, 2345]
    assert any("separated thousands were read in count" in note for note in table.notes)


def test_a_word_among_decimal_commas_is_an_odd_cell(tmp_path: Path) -> None:
    table = read_table(text(tmp_path / "a.csv", lines([*(f"{i},5;x" for i in range(30)), "much;x"], "a;b")))
    assert [cell.value for cell in read_columns(table.frame).odd] == ["much"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-8-sig"])
def test_marked_encodings_are_read_whole_or_refused(tmp_path: Path, encoding: str) -> None:
    marked = "\ufeff" if encoding.endswith("be") else ""
    content = (marked + lines([*ROWS, "1,2,größer"])).encode(encoding)
    (tmp_path / "a.csv").write_bytes(content)
    assert read_table(tmp_path / "a.csv").frame["c"].iloc[-1] == "größer"
    if encoding != "utf-8-sig":
        (tmp_path / "a.csv").write_bytes(content[:-1])
        with pytest.raises(ValueError, match="begins as UTF-16, but is damaged or was cut short"):
            read_table(tmp_path / "a.csv")


def test_one_bad_byte_does_not_garble_all_of_utf_8(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("name,n\nZoë,1\nJosé,2\n".encode() + b"Ren\xe9,3\n")
    table = read_table(tmp_path / "a.csv")
    assert table.frame["name"].tolist() == ["Zoë", "José", "Ren\ufffd"]
    assert "in 1 line" in table.notes[0]


def test_a_quote_in_the_last_row_that_is_never_closed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"a\.csv: .*EOF inside string starting at row 200"):
        read_table(text(tmp_path / "a.csv", lines([*ROWS[:-1], '3,4,"x'])))


def test_latin_1_with_ragged_rows_and_a_field_over_128_kb(tmp_path: Path) -> None:
    long = "é" * 150_000
    table = read_table(text(tmp_path / "a.csv", lines([*ROWS, f"1,2,{long}", "1,2,3,4"]), "latin-1"))
    assert table.frame["c"].iloc[200] == long
    assert list(table.ragged) == [201]


@pytest.mark.parametrize("spoil", [lambda whole: whole[:-30], lambda whole: whole[:99] + bytes(99) + whole[198:]])
def test_a_damaged_gzip_is_refused(tmp_path: Path, spoil) -> None:
    whole = gzip.compress(lines(ROWS).encode())
    (tmp_path / "a.csv.gz").write_bytes(spoil(whole))
    with pytest.raises(ValueError, match=r"a\.csv\.gz is not read: the gzipped data"):
        read_table(tmp_path / "a.csv.gz")


def test_dates_that_stand_for_never(tmp_path: Path) -> None:
    dates = ["2020-01-01", "9999-12-31", "0001-01-01", ""] * 10
    table = read_table(text(tmp_path / "a.csv", lines([f"{i},{day}" for i, day in enumerate(dates)], "i,until")))
    stamps = pd.Series([datetime.datetime(9999, 12, 31), datetime.datetime(1, 1, 1)] * 10).astype("datetime64[us]")
    columns = read_columns(table.frame)
    assert columns.kinds["until"] == "date"
    assert not columns.odd
    assert columns.typed["until"][:4].tolist() == pytest.approx([18262, 2932896, -719162, np.nan], nan_ok=True)
    assert read_columns(pd.DataFrame({"t": stamps})).typed["t"][:2].tolist() == [2932896, -719162]
    zoned = pd.Series(pd.to_datetime(["2020-01-01T12:00Z", None])).to_frame("t")
    assert read_columns(zoned).typed["t"].tolist() == pytest.approx([18262.5, np.nan], nan_ok=True)


@together("gap", [True, False])
@together("start", [2**53, 2**62, 2**63, 2**64, 10**25])
def test_long_integers_are_told_apart(tmp_path: Path, start: int, gap: bool) -> None:
    written = [str(start + i) for i in range(150)] + ([""] if gap else [])
    table = read_table(text(tmp_path / "a.csv", lines([f"{word},{i % 2}" for i, word in enumerate(written)], "id,x")))
    columns = read_columns(table.frame)
    assert table.frame["id"].isna().sum() == gap
    assert columns.kinds["id"] == "identifier"
    assert [str(word) for word in columns.typed["id"][:150]] == written[:150]
    assert not find_twins(read_columns(table.frame[["id"]]), None).exact.any()
    frame = pd.DataFrame({"id": [start + i for i in range(150)], "x": 1.0})
    assert read_columns(frame).kinds["id"] == "identifier"


def test_large_amounts_stay_numbers() -> None:
    times = np.arange(10**18, 10**18 + 100 * 10**12, 10**12) + 7
    assert read_columns(pd.DataFrame({"t": np.random.default_rng(0).permutation(times)})).kinds == {"t": "number"}


def test_na_and_none_are_classes_among_words_and_gaps_among_numbers(tmp_path: Path) -> None:
    rows = [f"{label},{number},{flag}" for label, number, flag in zip(["NA", "None", "null", ""] * 5,
            ["1", "NA", "null", "4"] * 5, ["true", "NA", "false", "true"] * 5, strict=True)]  # fmt: skip
    table = read_table(text(tmp_path / "a.csv", lines(rows, "label,n,flag")))
    assert table.frame["label"][:3].tolist() == ["NA", "None", "null"]
    assert table.frame["label"].isna().sum() == 5
    columns = read_columns(table.frame)
    assert columns.kinds == {"label": "category", "n": "number", "flag": "category"}
    assert columns.typed["n"].isna().sum() == 10
    assert columns.typed["flag"].isna().sum() == 5
    mixed = read_table(text(tmp_path / "b.csv", lines(["red", "NA", "blue"] * 5, "colour"))).frame
    assert mixed["colour"].nunique() == 3
    numbers = read_table(text(tmp_path / "c.csv", lines([*map(str, range(30)), "NA", "large"], "n"))).frame
    assert [cell.value for cell in read_columns(numbers).odd] == ["large"]


def test_repeated_names_lose_no_column_and_are_no_target() -> None:
    import likely

    data = pd.DataFrame(np.arange(90.0).reshape(30, 3) ** 2, columns=["p", "p", "q"])
    table = read_table(data)
    assert list(table.frame.columns) == ["p", "p (2)", "q"]
    assert table.frame["p"].tolist() != table.frame["p (2)"].tolist()
    with pytest.raises(ValueError, match="more than one column named 'p'"):
        likely.audit(data, "p")


def test_repeated_names_in_parquet(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(arrow.table([[1, 2], [3, 4]], names=["x", "x"]), tmp_path / "a.parquet")
    table = read_table(tmp_path / "a.parquet")
    assert list(table.frame.columns) == ["x", "x (2)"]
    assert table.frame.to_numpy().tolist() == [[1, 3], [2, 4]]
    far = arrow.table({"d": arrow.array([datetime.date(9999, 12, 31), datetime.date(2020, 1, 1)])})
    parquet.write_table(far, tmp_path / "b.parquet")
    assert read_columns(read_table(tmp_path / "b.parquet").frame).typed["d"].tolist() == [2932896, 18262]


def claiming(path: Path, rows: int) -> Path:
    """An .npy of a few bytes whose header speaks of many."""
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<f8", "fortran_order": False, "shape": (rows, 3)})
    path.write_bytes(buffer.getvalue() + bytes(80))
    return path


@pytest.mark.parametrize("rows", [10**4, 10**13, 2**61])
def test_a_header_that_claims_too_much(tmp_path: Path, rows: int) -> None:
    with pytest.raises(ValueError, match=r"a\.npy is not read: "):
        read_array(claiming(tmp_path / "a.npy", rows), "logits")


def test_a_first_line_that_names_the_separator(tmp_path: Path) -> None:
    table = read_table(text(tmp_path / "a.csv", "sep=;\na;b\n1;2\n3;x,y\n"))
    assert table.frame.to_numpy().tolist() == [[1, "2"], [3, "x,y"]]


WORDS = st.text(string.ascii_letters + string.digits + " ,;|\t\"'\n.-+éß€漢", max_size=8).filter(
    lambda word: word == word.strip() and not word[:1].isdigit()
)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**70), 2**70)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(WORDS, NUMBERS, NUMBERS | st.none()), min_size=1, max_size=12),
    st.sampled_from(",;\t|"),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
    st.booleans(),
)
def test_what_is_written_comes_back(
    rows: list[tuple[str, float, float | None]], delimiter: str, end: str, encoding: str, quoted: bool
) -> None:
    import csv

    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, delimiter=delimiter, lineterminator=end, quoting=int(quoted))
    writer.writerow(["word", "number", "gappy"])
    # A column of words is one whatever is in the first row.
    writer.writerows([("a word", 1, 1), *(("-" + word, *numbers) for word, *numbers in rows)])
    with tempfile.TemporaryDirectory() as folder:
        path = text(Path(folder, "a.csv"), buffer.getvalue(), encoding)
        frame = read_table(path).frame
    assert len(frame) == len(rows) + 1
    for (word, number, gappy), (_, found) in zip(rows, frame.iloc[1:].iterrows(), strict=True):
        assert found["word"] == "-" + word
        assert float(found["number"]) == float(number)
        assert pd.isna(found["gappy"]) if gappy is None else float(found["gappy"]) == float(gappy)


PIECES = st.sampled_from(
    [*'a1 ,;|\t"\n\r.-', "\r\n", '""', "NA", "1,5", "1.234", "é", "\0", "\ufeff", "9" * 30, "2020-01-01"]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(PIECES, max_size=40).map("".join), st.sampled_from(["utf-8", "latin-1", "utf-16"]), st.integers(0, 3))
def test_any_text_is_read_or_refused_in_one_line(content: str, encoding: str, cut: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.csv")
        whole = content.encode(encoding, "ignore")
        path.write_bytes(whole[: len(whole) - cut])
        frame, refusal = None, ""
        try:
            frame = read_table(path).frame
        except ValueError as error:
            refusal = str(error)
    if frame is None:
        assert refusal.startswith("a.csv")
        assert "\n" not in refusal
    else:
        assert len(read_columns(frame).typed) == len(frame)
        assert frame.columns.is_unique


def test_a_folder_of_files_without_rows_is_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        pd.DataFrame({"x": [1.0]})[:0].to_parquet(tmp_path / f"{name}.parquet")
    with pytest.raises(ValueError, match="has no rows"):
        read_table(tmp_path)


def test_a_folder_of_csv_has_the_gaps_of_one_file(tmp_path: Path) -> None:
    table = pd.DataFrame({"town": ["Rome", None, "Oslo"] * 10, "x": np.arange(30.0)})
    (tmp_path / "parts").mkdir()
    table.to_csv(tmp_path / "one.csv", index=False)
    for name, part in (("1", table[:17]), ("2", table[17:])):
        part.to_csv(tmp_path / "parts" / f"{name}.csv", index=False)
    one, parts = (read_table(tmp_path / name).frame for name in ("one.csv", "parts"))
    assert parts["town"].isna().tolist() == one["town"].isna().tolist()


def test_a_link_among_the_files_of_an_audit_is_not_followed(tmp_path: Path) -> None:
    precious, out = tmp_path / "precious.html", tmp_path / "out"
    precious.write_text("mine")
    out.mkdir()
    (out / "report.html").symlink_to(precious)
    with pytest.raises(ValueError, match="is a link to another file"):
        likely.audit({"x": range(30)}).save(out)
    assert precious.read_text() == "mine"
