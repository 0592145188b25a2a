"""Text in columns: any of four delimiters, any usual encoding, rows too long or too short."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import warnings
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

import pandas as pd

from likely._rows.reading.numerals import Raw, mend_words, read_numerals
from likely._rows.reading.table import Table, counted, read_header

_DELIMITERS = "\t;|,"  # of two that fit equally well the earlier: commas are in numbers and sentences, too
_NAMES = {"\t": "tab", ";": "semicolon", "|": "bar", ",": "comma"}
_SEPARATOR = re.compile(r'"?sep=([,;\t|])"?\r?\n')
_HEAD = 1 << 16  # bytes from which a delimiter is guessed
_MOST = 0.5  # of the rows: if more are longer than the header, it is the header that is wrong
# pandas 2 rounds numbers by a unit in the last place unless told otherwise; pandas 3 does not, and warns of the option.
_EXACT: dict[str, Any] = {"float_precision": "round_trip"} if int(pd.__version__.split(".")[0]) < 3 else {}

QUOTE = '"'
_FIELD = 1 << 30  # signs in a field; the csv module's own limit is 128 KB
# UTF-32's mark begins with UTF-16's.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def read_text(path: Path) -> Table:
    """A CSV or TSV file, gzipped or not; the notes tell of everything that was guessed, mended or left out."""
    with _unpacking(path):
        with _open_bytes(path) as file:
            head = file.read(_HEAD)
        if not head.strip():
            raise ValueError(f"{path.name} is empty")
        encoding = _find_encoding(path, head)
        text = head.decode(encoding.name, "replace")
        directive = _SEPARATOR.match(text)  # a first line that spreadsheets write for each other
        delimiter = directive.group(1) if directive else _delimiter(text)
        skip = int(directive is not None)
        try:
            with _open_text(path, encoding) as lines:
                layout = scan(lines, delimiter, skip)
        except ValueError as error:
            raise ValueError(f"{path.name}: {error}") from None
        if not layout.header:
            raise ValueError(f"{path.name} is empty")
        _check_width(layout, path.name)
        header = read_header(layout.header)
        frame, read_raw = _frame(path, encoding, delimiter, header.names, layout, skip)
    words = mend_words(frame, read_raw)
    numerals = read_numerals(frame, delimiter, read_raw)
    notes = (*encoding.notes, *_layout_notes(layout, delimiter, path), *header.notes, *words, *numerals)
    ragged = {
        row: f"the row has {fields} fields, the header {len(header.names)}: one may hold a delimiter"
        for row, fields in layout.long.items()
        if row in layout.excess
    }
    return Table(frame, path.name, notes, ragged, path, header.repeated)


def _frame(
    path: Path, encoding: Encoding, delimiter: str, names: list[str], layout: Layout, skip: int
) -> tuple[pd.DataFrame, Raw]:
    """What pandas reads, and a function that reads some columns once more, as they are written."""
    fits: dict[str, Any] = {"sep": delimiter, "encoding": encoding.name, "encoding_errors": encoding.errors}

    def read(**how: Any) -> pd.DataFrame:
        if not layout.long:
            frame = _parsed(path, names, skiprows=skip, **fits, **how)
            if len(frame) == layout.rows:
                return frame
        # What pandas would split otherwise than the csv module does is split here.
        with _open_text(path, encoding) as lines:
            return _parsed(_cut(islice(lines, skip, None), delimiter, len(names)), names, skip_blank_lines=False, **how)

    def read_raw(columns: list[int]) -> pd.DataFrame:
        raw = read(usecols=columns, dtype=str, keep_default_na=False, na_values=[""])
        return raw[[names[column] for column in columns]]

    return read(low_memory=False, **_EXACT), read_raw


def _parsed(source: Path | io.StringIO, names: list[str], **how: Any) -> pd.DataFrame:
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        return pd.read_csv(
            source,
            names=names,
            header=0,
            index_col=False,  # or a row too long would make an index of the first column
            skipinitialspace=True,
            **how,
        )


def _cut(lines: Iterable[str], delimiter: str, width: int) -> io.StringIO:
    """The same text with rows as long as the header."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, quoting=csv.QUOTE_ALL)
    with _no_limit():
        for fields in csv.reader(lines, delimiter=delimiter, skipinitialspace=True):
            if not _is_blank(fields, width):
                writer.writerow([*fields[:width], *[""] * (width - len(fields))])
    text.seek(0)
    return text


def _check_width(layout: Layout, name: str) -> None:
    if layout.rows and len(layout.excess) > _MOST * layout.rows:
        row = min(layout.excess)
        raise ValueError(
            f"{name}: {len(layout.excess):,} of {layout.rows:,} rows have more fields than the header (row {row} has "
            f"{layout.long[row]}, the header {len(layout.header)}): it lacks a name, or values hold the delimiter"
        )


def _layout_notes(layout: Layout, delimiter: str, path: Path) -> list[str]:
    """What was guessed of the text, and what of it was left out."""
    notes = []
    usual = "\t" if ".tsv" in path.suffixes[-2:] else ","
    if delimiter != usual and len(layout.header) > 1:
        notes.append(f"The columns are separated by a {_NAMES[delimiter]}.")
    if layout.excess:
        notes.append(
            f"{counted(len(layout.excess), 'row has', 'rows have')} more fields than the header, the first is row "
            f"{min(layout.excess)}; "
            "the fields beyond it were dropped."
        )
    if layout.short:
        first, fields = next(iter(layout.short.items()))
        notes.append(
            f"{counted(len(layout.short), 'row has', 'rows have')} fewer fields than the header, the first is row "
            f"{first} with {fields} of {len(layout.header)}; the others are taken to be missing."
        )
    if layout.blank:
        notes.append(counted(layout.blank, "blank line") + " between rows skipped: not counted as rows.")
    return notes


def _delimiter(text: str) -> str:
    """The sign that splits the first lines into the same number of fields, more than one; a comma if none does."""
    lines = list(io.StringIO(text, newline=""))
    lines = lines[:-1][:50] or lines
    counts = {sign: [len(row) for row in csv.reader(lines, delimiter=sign) if row] for sign in _DELIMITERS}

    def agreement(sign: str) -> tuple[float, int]:
        width = counts[sign][0] if counts[sign] else 1
        return (sum(fields == width for fields in counts[sign]) / max(1, len(lines)) if width > 1 else 0.0, width)

    best = max(_DELIMITERS, key=agreement)
    return best if agreement(best)[0] > 0 else ","


@dataclass
class Layout:
    """The header, and the rows (the first is 0) that have more or fewer fields than it.

    ``blank`` counts empty lines between rows; ``excess`` holds rows with more fields than the header of which one
    beyond it is not empty.
    """

    header: list[str]
    rows: int = 0
    long: dict[int, int] = field(default_factory=dict)
    short: dict[int, int] = field(default_factory=dict)
    excess: set[int] = field(default_factory=set)
    blank: int = 0


def scan(lines: Iterable[str], delimiter: str, skip: int = 0) -> Layout:
    r"""Count the fields of every row of lines that have their ends; ``skip`` of them come before the header.

    A quote that is not closed, or a quoted field of several lines that is followed by more text, as it is where a stray
    quote has swallowed rows, is an error that names the row.

    >>> layout = scan(["a,b\n", "1,2\n", "3\n", "4,5,6\n"], ",")
    >>> layout.header, layout.rows, layout.short, layout.long
    (['a', 'b'], 3, {1: 1}, {2: 3})
    """
    layout, blank = Layout([]), 0
    taken: list[str] = []  # the lines of a row

    def remembered() -> Iterator[str]:
        for line in islice(lines, skip, None):
            taken.append(line)
            yield line

    reader = csv.reader(remembered(), delimiter=delimiter, skipinitialspace=True, strict=True)
    with _no_limit():
        while True:
            width, number = len(layout.header), reader.line_num + skip + 1
            place = f"row {layout.rows} (line {number})" if width else f"the header (line {number})"
            taken.clear()
            try:
                cells = next(reader)
            except StopIteration:
                return layout
            except csv.Error as error:
                cells = _within_line(str(error), taken, delimiter, place)
            if any("\0" in line for line in taken):
                raise ValueError(f"{place} holds a NUL byte: this is not a text file")
            # Where all lines within a field have a row's number of delimiters, these are too many for chance.
            inside = [line.count(delimiter) == width - 1 for line in taken[1:-1]]
            if all(inside) and (width - 1) * len(inside) >= 4:
                raise ValueError(f"{place} {_closed_below(taken)}, with whole rows between: one of the two is too many")
            if _is_blank(cells, width):
                blank += width > 0
                continue
            if not width:
                layout.header = cells
                continue
            layout.blank, blank = layout.blank + blank, 0
            if len(cells) < width:
                layout.short[layout.rows] = len(cells)
            elif len(cells) > width:
                layout.long[layout.rows] = len(cells)
                if any(cell.strip() for cell in cells[width:]):
                    layout.excess.add(layout.rows)
            layout.rows += 1


def _within_line(error: str, taken: list[str], delimiter: str, place: str) -> list[str]:
    """Return the fields of a row whose quotes are not as they should be, if that harms no other row."""
    if "unexpected end of data" in error:
        raise ValueError(f"{place} has a quote ({QUOTE}) that is not closed anywhere below")
    if len(taken) > 1:
        raise ValueError(f"{place} {_closed_below(taken)}, in the middle of a field: one of the two is too many")
    return next(csv.reader(taken, delimiter=delimiter, skipinitialspace=True), [])


def _closed_below(taken: list[str]) -> str:
    return f"has a quote ({QUOTE}) that is closed {len(taken) - 1:,} lines below"


def _is_blank(cells: list[str], width: int) -> bool:
    return not cells or (len(cells) == 1 and width != 1 and not cells[0].strip(" "))


@contextmanager
def _no_limit() -> Iterator[None]:
    """Let fields be longer than the csv module's 128 KB."""
    old = csv.field_size_limit(_FIELD)
    try:
        yield
    finally:
        csv.field_size_limit(old)


class Encoding(NamedTuple):
    """The name of an encoding, what is done with bytes that do not fit it, and what is to be told of it."""

    name: str
    errors: str = "strict"
    notes: tuple[str, ...] = ()


def _find_encoding(path: Path, head: bytes) -> Encoding:
    """The encoding of a file that begins with ``head``: of its mark, else UTF-8 or, if it is not that, Windows-1252."""
    marked = next((name for mark, name in _MARKS if head.startswith(mark)), None)
    if marked in (None, "utf-8-sig") and b"\0" in head:
        raise ValueError(f"{path.name} holds NUL bytes: it is not a text file, or is UTF-16 without a mark")
    if marked is None:
        return _unmarked(path)
    lines = 0
    try:
        with _open_text(path, Encoding(marked)) as file:
            for _ in file:
                lines += 1
    except UnicodeDecodeError:
        damage = f"begins as {marked.removesuffix('-sig').upper()}, but is damaged or was cut short"
        raise ValueError(f"{path.name} {damage} after line {lines:,}: save it again") from None
    return Encoding(marked)


def _unmarked(path: Path) -> Encoding:
    """UTF-8 if all lines, or most of those that are not ASCII, can be read so."""
    wide, bad = 0, []
    with _open_bytes(path) as file:
        for number, line in enumerate(file, start=1):
            if not line.isascii():
                try:
                    line.decode("utf-8")
                    wide += 1
                except UnicodeDecodeError:
                    bad.append(number)
    if not bad:
        return Encoding("utf-8")
    if wide <= len(bad):
        # Windows-1252 leaves five bytes undefined; they are no reason to refuse a file.
        return Encoding("cp1252", "replace", ("The file is not UTF-8; it was read as Windows-1252.",))
    note = (
        f"{counted(len(bad), 'line is', 'lines are')} not UTF-8, the first is line {bad[0]:,}; what cannot be read "
        "there is shown as \ufffd."
    )
    return Encoding("utf-8", "replace", (note,))


def _open_bytes(path: Path) -> IO[bytes]:
    """The bytes of a file, unpacked if it is gzipped."""
    return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb")  # type: ignore[return-value]


def _open_text(path: Path, encoding: Encoding) -> io.TextIOWrapper:
    """The text of a file, with the ends of its lines as they are."""
    return io.TextIOWrapper(_open_bytes(path), encoding.name, encoding.errors, newline="")


@contextmanager
def _unpacking(path: Path) -> Iterator[None]:
    """Say in one line that a gzipped file is damaged."""
    try:
        yield
    except EOFError:
        raise ValueError(f"{path.name} is not read: the gzipped data end too early; was the file cut short?") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path.name} is not read: the gzipped data are damaged ({error})") from None
