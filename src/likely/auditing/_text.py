"""Text in columns: any of four delimiters, any usual encoding, rows too long or too short."""

from __future__ import annotations

import csv
import gzip
import io
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pandas as pd

from likely.auditing._source import Table, own_names

_BOMS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_DELIMITERS = ",;\t|"
_HEAD = 1 << 16  # bytes from which a delimiter is guessed


def read_text(path: Path) -> Table:
    """A CSV or TSV file, gzipped or not."""
    with _opened(path) as file:
        head = file.read(_HEAD)
    if not head.strip():
        raise ValueError(f"{path.name} is empty")
    encoding = next((name for mark, name in _BOMS if head.startswith(mark)), "utf-8")
    if encoding != "utf-16" and b"\0" in head:
        raise ValueError(f"{path.name} holds NUL bytes: it is not a text file")
    notes = []
    try:
        table = _parsed(path, encoding, head)
    except UnicodeDecodeError:
        notes.append("The file is not UTF-8; it was read as Windows-1252.")
        table = _parsed(path, "cp1252", head)
    except csv.Error as error:
        raise ValueError(f"{path.name} cannot be read as text in columns: {error}") from None
    return Table(table.frame, path.name, (*notes, *table.notes), table.ragged, path)


def _parsed(path: Path, encoding: str, head: bytes) -> Table:
    # cp1252 leaves five bytes undefined; they are no reason to refuse a file.
    errors = "replace" if encoding == "cp1252" else "strict"
    delimiter = _delimiter(head.decode(encoding, "replace"))
    with _lines(path, encoding, errors) as lines:
        header = next(csv.reader(lines, delimiter=delimiter), [])
    names, notes = own_names(header)
    ragged: dict[int, str] = {}
    try:
        frame = _frame(path, names, sep=delimiter, encoding=encoding, encoding_errors=errors)
    except (pd.errors.ParserError, pd.errors.ParserWarning):
        with _lines(path, encoding, errors) as lines:
            cut = _cut(csv.reader(lines, delimiter=delimiter), len(names), ragged)
        frame = _frame(cut, names, skip_blank_lines=False)
        told = f"{len(ragged):,} rows have more fields than the header; the fields beyond it were dropped."
        notes = (*notes, told) if ragged else notes
    return Table(frame, path.name, notes, ragged)


def _frame(source: Path | io.StringIO, names: list[str], **how: Any) -> pd.DataFrame:
    """What pandas reads, if every row has the fields that the header promises, or fewer."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        return pd.read_csv(
            source,
            names=names,
            header=0,
            index_col=False,  # or a row too long would make an index of the first column
            low_memory=False,
            skipinitialspace=True,
            **how,
        )


def _cut(rows: Iterator[list[str]], width: int, ragged: dict[int, str]) -> io.StringIO:
    """The same text with rows no longer than the header; what was wrong with them goes into ``ragged``."""
    kept = io.StringIO(newline="")
    writer = csv.writer(kept)
    for number, fields in enumerate((row for row in rows if row), start=-1):
        if len(fields) > width:
            ragged[number] = f"the row has {len(fields)} fields, the header {width}: one may hold a delimiter"
        writer.writerow([*fields[:width], *[""] * (width - len(fields))])
    kept.seek(0)
    return kept


def _delimiter(text: str) -> str:
    """The sign that splits the first lines into the same number of fields, more than one; a comma if none does."""
    lines = text.splitlines()[:-1][:50] or text.splitlines()
    counts = {sign: [len(row) for row in csv.reader(lines, delimiter=sign) if row] for sign in _DELIMITERS}

    def agreement(sign: str) -> tuple[float, int]:
        width = counts[sign][0] if counts[sign] else 1
        return (sum(own == width for own in counts[sign]) / max(1, len(lines)) if width > 1 else 0.0, width)

    best = max(_DELIMITERS, key=agreement)
    return best if agreement(best)[0] > 0 else ","


def _opened(path: Path) -> IO[bytes]:
    return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb")  # type: ignore[return-value]


def _lines(path: Path, encoding: str, errors: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(_opened(path), encoding, errors, newline="")
