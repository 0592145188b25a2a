"""Text in columns: any of four delimiters, any usual encoding, rows too long or too short."""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd

from likely._rows.reading.encoding import Encoding, find_encoding, open_bytes, open_text, unpacking
from likely._rows.reading.layout import Layout, no_limit, scan
from likely._rows.reading.numerals import Raw, mend_words, read_numerals
from likely._rows.reading.table import Table, counted, read_header

_DELIMITERS = "\t;|,"  # of two that fit equally well the earlier: commas are in numbers and sentences, too
_NAMES = {"\t": "tab", ";": "semicolon", "|": "bar", ",": "comma"}
_SEPARATOR = re.compile(r'"?sep=([,;\t|])"?\r?\n')
_HEAD = 1 << 16  # bytes from which a delimiter is guessed
_MOST = 0.5  # of the rows: if more are longer than the header, it is the header that is wrong
# pandas 2 rounds numbers by a unit in the last place unless told otherwise; pandas 3 does not, and warns of the option.
_EXACT: dict[str, Any] = {"float_precision": "round_trip"} if int(pd.__version__.split(".")[0]) < 3 else {}


def read_text(path: Path) -> Table:
    """A CSV or TSV file, gzipped or not; the notes tell of everything that was guessed, mended or left out."""
    with unpacking(path):
        with open_bytes(path) as file:
            head = file.read(_HEAD)
        if not head.strip():
            raise ValueError(f"{path.name} is empty")
        encoding = find_encoding(path, head)
        text = head.decode(encoding.name, "replace")
        directive = _SEPARATOR.match(text)  # a first line that spreadsheets write for each other
        delimiter = directive.group(1) if directive else _delimiter(text)
        skip = int(directive is not None)
        try:
            with open_text(path, encoding) as lines:
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
        with open_text(path, encoding) as lines:
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
    with no_limit():
        for fields in csv.reader(lines, delimiter=delimiter, skipinitialspace=True):
            blank = len(fields) == 0 or (len(fields) == 1 and width > 1 and not fields[0].strip(" "))
            if not blank:
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
