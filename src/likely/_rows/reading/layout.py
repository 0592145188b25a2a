"""A first pass over text in columns: where rows begin, how many fields they have, and whether quotes are closed."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice

QUOTE = '"'
_FIELD = 1 << 30  # signs in a field; the csv module's own limit is 128 KB


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
    layout = Layout([])
    width = blank = 0
    with no_limit():
        numbered = islice(enumerate(lines, start=1), skip, None)
        for number, line in numbered:
            count = line.count(delimiter) + 1
            if count == width > 1 and QUOTE not in line and "\0" not in line:  # almost all rows of almost all files
                layout.blank, blank = layout.blank + blank, 0
                layout.rows += 1
                continue
            if "\0" in line:
                raise ValueError(f"{_place(layout, number)} holds a NUL byte: this is not a text file")
            if not line.strip(" \r\n") and (width != 1 or not line.strip("\r\n")):
                blank += width > 0
                continue
            beyond: list[str] = []
            if QUOTE in line or not width or count > width:  # else the number is quickly told
                cells = _quoted(line, numbered, delimiter, width, _place(layout, number))
                count, beyond = len(cells), cells[width:]
                if not width:
                    layout.header, width = cells, count
                    continue
            layout.blank, blank = layout.blank + blank, 0
            if count < width:
                layout.short[layout.rows] = count
            elif count > width:
                layout.long[layout.rows] = count
                if any(cell.strip() for cell in beyond):
                    layout.excess.add(layout.rows)
            layout.rows += 1
    return layout


def _quoted(line: str, following: Iterator[tuple[int, str]], delimiter: str, width: int, place: str) -> list[str]:
    """The fields of a row that may go on over the following lines."""
    taken: list[str] = []

    def more() -> Iterator[str]:
        taken.append(line)
        yield line
        for _, next_line in following:
            taken.append(next_line)
            yield next_line

    try:
        fields = next(csv.reader(more(), delimiter=delimiter, skipinitialspace=True, strict=True), [])
        # Where all lines within the field have a row's number of delimiters, these are too many for chance.
        inside = [line.count(delimiter) == width - 1 for line in taken[1:-1]]
        if all(inside) and (width - 1) * len(inside) >= 4:
            raise ValueError(
                f"{place} has a quote ({QUOTE}) that is closed {len(taken) - 1:,} lines below, with whole rows "
                "between: one of the two is too many"
            )
        return fields
    except csv.Error as error:
        if "unexpected end of data" in str(error):
            raise ValueError(f"{place} has a quote ({QUOTE}) that is not closed anywhere below") from None
        if len(taken) > 1:
            raise ValueError(
                f"{place} has a quote ({QUOTE}) that is closed {len(taken) - 1:,} lines below, in the middle of a "
                "field: one of the two is too many"
            ) from None
        # A quote within a line harms no other row: it is read as the csv module does.
        return next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [])


def _place(layout: Layout, line: int) -> str:
    return f"row {layout.rows} (line {line})" if layout.header else f"the header (line {line})"


@contextmanager
def no_limit() -> Iterator[None]:
    """Let fields be longer than the csv module's 128 KB."""
    old = csv.field_size_limit(_FIELD)
    try:
        yield
    finally:
        csv.field_size_limit(old)
