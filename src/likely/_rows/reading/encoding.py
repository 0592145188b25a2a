"""How a file of text is encoded, by its first bytes and by what can be decoded."""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from likely._rows.reading.table import counted

# UTF-32's mark begins with UTF-16's.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


class Encoding(NamedTuple):
    """The name of an encoding, what is done with bytes that do not fit it, and what is to be told of it."""

    name: str
    errors: str = "strict"
    notes: tuple[str, ...] = ()


def find_encoding(path: Path, head: bytes) -> Encoding:
    """The encoding of a file that begins with ``head``: of its mark, else UTF-8 or, if it is not that, Windows-1252."""
    marked = next((name for mark, name in _MARKS if head.startswith(mark)), None)
    if marked in (None, "utf-8-sig") and b"\0" in head:
        raise ValueError(f"{path.name} holds NUL bytes: it is not a text file, or is UTF-16 without a mark")
    if marked is None:
        return _unmarked(path)
    lines = 0
    try:
        with open_text(path, Encoding(marked)) as file:
            for _ in file:
                lines += 1
    except UnicodeDecodeError:
        damage = f"begins as {marked.removesuffix('-sig').upper()}, but is damaged or was cut short"
        raise ValueError(f"{path.name} {damage} after line {lines:,}: save it again") from None
    return Encoding(marked)


def _unmarked(path: Path) -> Encoding:
    """UTF-8 if all lines, or most of those that are not ASCII, can be read so."""
    wide, bad = 0, []
    with open_bytes(path) as file:
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


def open_bytes(path: Path) -> IO[bytes]:
    """The bytes of a file, unpacked if it is gzipped."""
    return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb")  # type: ignore[return-value]


def open_text(path: Path, encoding: Encoding) -> io.TextIOWrapper:
    """The text of a file, with the ends of its lines as they are."""
    return io.TextIOWrapper(open_bytes(path), encoding.name, encoding.errors, newline="")


@contextmanager
def unpacking(path: Path) -> Iterator[None]:
    """Say in one line that a gzipped file is damaged."""
    try:
        yield
    except EOFError:
        raise ValueError(f"{path.name} is not read: the gzipped data end too early; was the file cut short?") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path.name} is not read: the gzipped data are damaged ({error})") from None
