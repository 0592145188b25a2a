"""Text in columns: any of four delimiters, any usual encoding, rows too long or too short, numbers of any country.

The rows are counted first, and then read by pandas; what it does not read as it was meant (words it takes for gaps,
whole numbers it rounds, decimal commas) is mended after that.
"""

from __future__ import annotations

import csv
import functools
import gzip
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from likely._rows.reading.table import Table, counted, listed, read_header

EXACT = 2**53  # whole numbers beyond it are rounded as floats
ISO_DATE = r"\d{4}(?:-\d{2}-\d{2}|/\d{2}/\d{2})(?:[ T]\d{2}:\d{2}.*)?"
MOSTLY = 0.9  # a column is of numbers if so many of its values are; the others are odd cells

_DELIMITERS = {",": "comma", "\t": "tab", ";": "semicolon", "|": "bar"}  # of those that fit equally well the first
_SEPARATOR = re.compile(r'"?sep=([,;\t|])"?\r?\n')  # a first line that spreadsheets write for each other
_HEAD = 50  # lines from which a delimiter is guessed
_FIELD = 1 << 30  # signs in a field; the csv module's own limit is 128 KB
_MOST = 0.5  # of the rows: if more are longer than the header, it is the header that is wrong
# pandas 2 rounds numbers by a unit in the last place unless told otherwise; pandas 3 does not, and warns of the option.
_PRECISE: dict[str, Any] = {"float_precision": "round_trip"} if int(pd.__version__.split(".")[0]) < 3 else {}

GAPS = frozenset(
    {"#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA"}
    | {"NULL", "NaN", "None", "n/a", "nan", "null"}
)
Read = Callable[..., pd.DataFrame]  # the text once more, with other options of pandas
_SEPARATED = r"\d[,'’ \u00a0\u202f]\d|\d\.\d{3}\.\d{3}"
_COMMA = r"[+-]?(?:\d+|[1-9]\d{0,2}(?:[.'’ \u00a0\u202f]\d{3})+)?(?:,\d+)?(?:[eE][+-]?\d+)?"  # 1.234,5
_POINT = r"[+-]?(?:\d+|[1-9]\d{0,2}(?:[,'’ \u00a0\u202f]\d{3})+)?(?:\.\d+)?(?:[eE][+-]?\d+)?"  # 1,234.5
_PLAIN = rf"{_POINT}|{ISO_DATE}|(?i:true|false)"


def read_text(path: Path) -> Table:
    """A CSV or TSV file, gzipped or not; the notes tell of everything that was guessed, mended or left out."""
    with _named_errors(path):
        encoding, notes = _encoding(path)
        # A byte that means nothing is no reason to refuse a file; UTF-16 that is cut short is.
        errors = "strict" if encoding == "utf-16" else "replace"
        with _open(path, encoding=encoding, errors=errors, newline="") as text:
            head = list(islice(text, _HEAD))
            directive = _SEPARATOR.fullmatch("".join(head[:1]))
            delimiter = directive.group(1) if directive else _delimiter(head)
            skip = int(directive is not None)
            layout = _layout(chain(head[skip:], text), delimiter, skip)
        header = read_header(layout.header)
        read = functools.partial(
            pd.read_csv,
            path,
            sep=delimiter,
            encoding=encoding,
            encoding_errors=errors,
            skiprows=skip,
            header=0,
            names=header.names,
            usecols=header.names,  # so that pandas drops the fields beyond the header
            index_col=False,
            skipinitialspace=True,
            low_memory=False,
            **_PRECISE,
        )
        frame = read()
        if len(frame) != layout.rows:  # lone carriage returns
            raise ValueError(f"pandas reads {len(frame):,} of {layout.rows:,} rows: save it with standard line endings")
        mended = mend_columns(frame, delimiter, read)
    notes += [*_layout_notes(layout, delimiter), *header.notes, *mended]
    ragged = {
        row: f"the row has {fields} fields, the header {len(header.names)}: one may hold a delimiter"
        for row, fields in layout.long.items()
    }
    return Table(frame, path.name, tuple(notes), ragged, path, header.repeated)


class TextLayout(NamedTuple):
    """The header, the number of rows, that of fields where there are more or fewer, and that of blank lines between."""

    header: list[str]
    rows: int
    long: dict[int, int]
    short: dict[int, int]
    blank: int


def _layout(lines: Iterable[str], delimiter: str, skipped: int) -> TextLayout:
    """Count the rows and their fields; a quote that swallows other rows is an error that names the row."""
    header: list[str] = []
    long: dict[int, int] = {}
    short: dict[int, int] = {}
    row, width, blank, blank_below = -1, 0, 0, 0  # the header is no row
    taken: list[str] = []  # the lines of a row

    def remembered() -> Iterator[str]:
        for line in lines:
            taken.append(line)
            yield line

    reader = csv.reader(remembered(), delimiter=delimiter, skipinitialspace=True)
    for cells in reader:
        place = f"row {row}" if width else "the header"
        place += f" (line {reader.line_num + skipped - len(taken) + 1})"
        # Where all lines within a field have a row's number of delimiters, these are too many for chance.
        inside = [line.count(delimiter) == width - 1 for line in taken[1:-1]]
        if all(inside) and (width - 1) * len(inside) >= 4:
            raise ValueError(
                f'{place} has a quote (") that is closed {len(taken) - 1:,} lines below, or never: '
                "a quote is missing, or there is one too many"
            )
        if any("\0" in line for line in taken):
            raise ValueError(f"{place} holds NUL bytes: this is not a text file, or is UTF-16 without a mark")
        is_blank = len(cells) < 2 and not taken[0].strip(" \t\r\n")
        taken.clear()
        if is_blank:
            blank_below += width > 0
            continue
        if not width:
            header = cells
            width = len(cells)
        if len(cells) < width:
            short[row] = len(cells)
        elif any(cell.strip() for cell in cells[width:]):  # empty fields beyond the header do no harm
            long[row] = len(cells)
        row, blank, blank_below = row + 1, blank + blank_below, 0
    if not width:
        raise ValueError("is empty")
    if len(long) > _MOST * row:
        first, fields = next(iter(long.items()))
        raise ValueError(
            f"{len(long):,} of {row:,} rows have more fields than the header (row {first} has {fields}, "
            f"the header {width}): the header lacks a name, or values contain the delimiter"
        )
    return TextLayout(header, row, long, short, blank)


def _layout_notes(layout: TextLayout, delimiter: str) -> list[str]:
    """What was guessed of the text, and what of it was left out."""
    notes = []
    if delimiter != "," and len(layout.header) > 1:
        notes.append(f"The columns are separated by a {_DELIMITERS[delimiter]}.")
    dropped = "the fields beyond it were dropped"
    absent = "the others are taken to be missing"
    for rows, how, result in ((layout.long, "more", dropped), (layout.short, "fewer", absent)):
        for first, fields in islice(rows.items(), 1):
            where = f"the first is row {first} with {fields} of {len(layout.header)}"
            many = counted(len(rows), "row has", "rows have")
            notes.append(f"{many} {how} fields than the header, {where}; {result}.")
    if layout.blank:
        notes.append(counted(layout.blank, "blank line") + " between rows skipped: not counted as rows.")
    return notes


def _delimiter(lines: list[str]) -> str:
    """The sign that splits the first lines into the same number of fields, more than one; a comma if none does."""

    def agreement(sign: str) -> tuple[float, int]:
        counts = [len(row) for row in csv.reader(lines, delimiter=sign) if row] or [1]
        return (counts.count(counts[0]) if counts[0] > 1 else 0, counts[0])

    return max(_DELIMITERS, key=agreement)


def _encoding(path: Path) -> tuple[str, list[str]]:
    """UTF-16 if its mark is there; else UTF-8, or Windows-1252 where most lines beyond ASCII are not; with notes."""
    with _open(path, "rb") as file:
        if file.read(2) in (b"\xff\xfe", b"\xfe\xff"):
            return "utf-16", []
    with _open(path, encoding="utf-8", errors="replace") as text:
        broken = ["\ufffd" in line for line in text if not line.isascii()]
    if 2 * sum(broken) > len(broken):
        return "cp1252", ["The file is not UTF-8; it was read as Windows-1252."]
    return "utf-8-sig", [f"What is not UTF-8, in {sum(broken):,} lines, was read as \ufffd."] if any(broken) else []


def _open(path: Path, mode: str = "rt", **how: Any) -> Any:
    """The file, unpacked if it is gzipped."""
    opener: Any = gzip.open if path.suffix.lower() == ".gz" else open
    return opener(path, mode, **how)


@contextmanager
def _named_errors(path: Path) -> Iterator[None]:
    """Say in one line, with the name of the file, why it is not read."""
    limit = csv.field_size_limit(_FIELD)
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path.name} is not read: the gzipped data are damaged or cut short ({error})") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path.name} begins as UTF-16, but is damaged or was cut short: save it again") from None
    except ValueError as error:
        raise ValueError(f"{path.name}: {str(error).strip()}") from None
    finally:
        csv.field_size_limit(limit)


def mend_columns(frame: pd.DataFrame, delimiter: str, read: Read) -> list[str]:
    """Turn, in place, words into the numbers and gaps they stand for; return notes about it.

    Among numbers and dates a word such as NA or None stands for a gap; among words it is one of them, a class if the
    column is a label. An empty cell is always a gap. Where a column alone does not tell what its commas are ("1,234"),
    the others do; failing these, they are decimal commas unless commas separate the columns. Whole numbers that were
    rounded become the digits they were.
    """
    doubtful = [name for name in frame.columns if _is_doubtful(frame[name])]
    raw = read(usecols=doubtful, dtype=str, keep_default_na=False, na_values=[""]) if doubtful else frame[[]]
    words = raw.mask(raw.isin(GAPS))
    balance: dict[str, int] = {}  # of numbers with separators: those with a decimal comma less those with a point
    for name in doubtful:
        present = words[name].dropna().str.strip()
        comma, point, plain = (_share(present, pattern) for pattern in (_COMMA, _POINT, _PLAIN))
        if max(comma, point) >= MOSTLY and present.str.contains(_SEPARATED).any():
            balance[name] = round((comma - point) * len(present))
        elif _share(present, r"[+-]?\d+") == 1:
            frame[name] = words[name]
        elif plain < MOSTLY and raw[name].nunique() > 1:  # a single word in all is the way to write a gap
            frame[name] = raw[name]
    total = sum(balance.values())
    usual = total > 0 or (total == 0 and delimiter != ",")
    commas = [name for name, more in balance.items() if more > 0 or (more == 0 and usual)]
    points = [name for name in balance if name not in commas]
    for name in balance:
        frame[name] = _numbers(words[name], name in commas)
    if total > 0:  # beside decimal commas dots are between thousands
        floats = [name for name in frame.columns.difference(doubtful) if frame[name].dtype.kind == "f"]
        for name, cells in read(usecols=floats, dtype=str).items() if floats else ():
            if _share(cells.dropna(), _COMMA) == 1 and cells.str.contains(".", regex=False).any():
                frame[name] = _numbers(cells, True)
                points.append(str(name))
    notes = []
    for names, what in ((commas, "a decimal comma"), (points, "separated thousands")):
        if names:
            notes.append(f"Numbers with {what} were read in {listed(names)}.")
    return notes


def _is_doubtful(column: pd.Series[Any]) -> bool:
    """Whether pandas may have read other than was meant: text, nothing, or whole numbers that it rounds."""
    if column.dtype.kind == "f":
        return bool(column.isna().all() or (column.abs() >= EXACT).any())
    return column.dtype.kind == "O"


def _share(words: pd.Series[Any], pattern: str) -> float:
    """The share of words that match, of none 0."""
    return float(words.str.fullmatch(pattern).astype(bool).sum() / max(len(words), 1))


def _numbers(column: pd.Series[Any], with_commas: bool) -> Any:
    """The column as numbers, or, where some cells are none, with the others as Python writes them."""
    pattern, groups = (_COMMA, "[.'’ \u00a0\u202f]") if with_commas else (_POINT, "[,'’ \u00a0\u202f]")
    words = column.str.strip()
    plain = words.str.replace(groups, "", regex=True).str.replace(",", ".", regex=False)
    words = plain.where(words.str.fullmatch(pattern).eq(True), column)
    try:
        return pd.to_numeric(words)
    except (ValueError, TypeError):
        return words
