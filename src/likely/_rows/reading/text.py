"""Text in columns: any of four delimiters, any usual encoding, rows too long or too short, numbers of any country.

The text is copied to a temporary file with rows of one length, which pandas reads; what it does not read as it was
meant (words it takes for gaps, whole numbers it rounds, decimal commas) is mended after that.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal

import pandas as pd

from likely._rows.reading.table import Table, counted, listed, read_header

EXACT = 2**53  # whole numbers beyond it are rounded as floats
ISO_DATE = r"\d{4}(?:-\d{2}-\d{2}|/\d{2}/\d{2})(?:[ T]\d{2}:\d{2}.*)?"
MOSTLY = 0.9  # a column is of numbers if so many of its values are; the others are odd cells

_DELIMITERS = {"\t": "tab", ";": "semicolon", "|": "bar", ",": "comma"}  # of two that fit equally well the earlier
_SEPARATOR = re.compile(r'"?sep=([,;\t|])"?\r?\n')  # a first line that spreadsheets write for each other
_HEAD = 1 << 16  # bytes from which a delimiter is guessed
_FIELD = 1 << 30  # signs in a field; the csv module's own limit is 128 KB
_MOST = 0.5  # of the rows: if more are longer than the header, it is the header that is wrong
_MARKS = {  # UTF-32's begins with UTF-16's
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
# pandas 2 rounds numbers by a unit in the last place unless told otherwise; pandas 3 does not, and warns of the option.
_PRECISE: dict[str, Any] = {"float_precision": "round_trip"} if int(pd.__version__.split(".")[0]) < 3 else {}

GAPS = frozenset(
    {"#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA"}
    | {"NULL", "NaN", "None", "n/a", "nan", "null"}
)
Style = Literal["decimal comma", "thousands", "either"]
Read = Callable[..., pd.DataFrame]  # the text once more, with other options of pandas
_GROUP = "[.'’ \u00a0\u202f]"
_COMMA = rf"[+-]?(?:\d+|[1-9]\d{{0,2}}(?:{_GROUP}\d{{3}})+)?(?:,\d+)?(?:[eE][+-]?\d+)?"  # 1.234,5
_POINT = r"[+-]?(?:\d+|[1-9]\d{0,2}(?:[,'’ \u00a0\u202f]\d{3})+)(?:\.\d+)?(?:[eE][+-]?\d+)?"  # 1,234.5
_BARE = r"[+-]?\d{4,}"  # where thousands are separated nobody writes this
_DOTTED = r"[+-]?\d{1,3}(?:\.\d{3})*"
_LOOK = 2000  # values of a column that tell whether it is of words


def read_text(path: Path) -> Table:
    """A CSV or TSV file, gzipped or not; the notes tell of everything that was guessed, mended or left out."""
    with _named_errors(path), tempfile.TemporaryFile("w+", encoding="utf-8", newline="") as tidy:
        with _open(path) as file:
            head = file.read(_HEAD)
        encoding, errors, notes = _find_encoding(path, head)
        text = head.decode(encoding, "replace")
        directive = _SEPARATOR.match(text)
        delimiter = directive.group(1) if directive else _delimiter(text)
        with io.TextIOWrapper(_open(path), encoding, errors, newline="") as lines:
            layout = _tidied(lines, delimiter, int(directive is not None), tidy)
        header = read_header(layout.header)

        def read(**how: Any) -> pd.DataFrame:
            tidy.seek(0)
            how |= {"names": header.names, "header": 0, "index_col": False, "skip_blank_lines": False}
            return pd.read_csv(tidy, sep=delimiter, skipinitialspace=True, low_memory=False, **_PRECISE, **how)

        frame = read()
        mended = mend_columns(frame, delimiter, read)
    notes = [*notes, *_layout_notes(layout, delimiter, path), *header.notes, *mended]
    wrong = f"the row has {{}} fields, the header {len(header.names)}: one may hold a delimiter"
    ragged = {row: wrong.format(fields) for row, fields in layout.long.items()}
    return Table(frame, path.name, tuple(notes), ragged, path, header.repeated)


@dataclass
class Layout:
    """The header, and the number of fields of rows (the first is 0) that have more or fewer than it.

    Empty fields beyond the header are not counted; ``blank`` is the number of empty lines between rows.
    """

    header: list[str]
    rows: int = 0
    long: dict[int, int] = field(default_factory=dict)
    short: dict[int, int] = field(default_factory=dict)
    blank: int = 0


def _tidied(lines: io.TextIOWrapper, delimiter: str, skip: int, tidy: IO[str]) -> Layout:
    """Copy the text with rows as long as the header; ``skip`` lines come before it.

    A quote that is not closed, or that is closed only after other rows, is an error that names the row.
    """
    layout, blank, width = Layout([]), 0, 0
    taken: list[str] = []  # the lines of a row
    how: dict[str, Any] = {"delimiter": delimiter, "skipinitialspace": True}

    def remembered() -> Iterator[str]:
        for line in islice(lines, skip, None):
            taken.append(line)
            yield line

    def refused(wrong: str) -> ValueError:
        row = f"row {layout.rows}" if width else "the header"
        return ValueError(f"{row} (line {reader.line_num + skip - len(taken) + 1}) {wrong}")

    reader = csv.reader(remembered(), strict=True, **how)
    writer = csv.writer(tidy, delimiter=delimiter, quoting=csv.QUOTE_ALL)
    while True:
        taken.clear()
        stray = False
        try:
            cells = next(reader)
        except StopIteration:
            break
        except UnicodeDecodeError:
            damage = f"begins as {lines.encoding.upper()}, but is damaged or was cut short"
            raise ValueError(f"{damage} after line {reader.line_num:,}: save it again") from None
        except csv.Error as error:
            if "unexpected end of data" in str(error):
                raise refused('has a quote (") that is not closed anywhere below') from None
            stray = len(taken) > 1  # within a line it harms no other row
            cells = next(csv.reader(taken, **how), [])
        # Where all lines within a field have a row's number of delimiters, these are too many for chance.
        inside = [line.count(delimiter) == width - 1 for line in taken[1:-1]]
        if stray or (all(inside) and (width - 1) * len(inside) >= 4):
            raise refused(f'has a quote (") that is closed {len(taken) - 1:,} lines below: one of the two is too many')
        if any("\0" in line for line in taken):
            raise refused("holds NUL bytes: this is not a text file, or is UTF-16 without a mark")
        if not cells or (len(cells) == 1 and width != 1 and not cells[0].strip(" ")):
            blank += width > 0
            continue
        if not width:
            layout.header, width, layout.rows = cells, len(cells), -1  # the header is no row
        layout.blank, blank = layout.blank + blank, 0
        if len(cells) < width:
            layout.short[layout.rows] = len(cells)
        elif any(cell.strip() for cell in cells[width:]):
            layout.long[layout.rows] = len(cells)
        if len(cells) == width and '"' not in taken[0]:
            tidy.write(taken[0])  # twice as fast
        else:
            writer.writerow([*cells[:width], *[""] * (width - len(cells))])
        layout.rows += 1
    if not width:
        raise ValueError("is empty")
    if len(layout.long) > _MOST * layout.rows:
        row, fields = next(iter(layout.long.items()))
        raise ValueError(
            f"{len(layout.long):,} of {layout.rows:,} rows have more fields than the header (row {row} has {fields}, "
            f"the header {width}): it lacks a name, or values hold the delimiter"
        )
    return layout


def _layout_notes(layout: Layout, delimiter: str, path: Path) -> list[str]:
    """What was guessed of the text, and what of it was left out."""
    notes = []
    usual = "\t" if ".tsv" in path.suffixes[-2:] else ","
    if delimiter != usual and len(layout.header) > 1:
        notes.append(f"The columns are separated by a {_DELIMITERS[delimiter]}.")
    dropped, absent = "the fields beyond it were dropped", "the others are taken to be missing"
    for rows, how, result in ((layout.long, "more", dropped), (layout.short, "fewer", absent)):
        for first, fields in islice(rows.items(), 1):
            where = f"the first is row {first} with {fields} of {len(layout.header)}"
            many = counted(len(rows), "row has", "rows have")
            notes.append(f"{many} {how} fields than the header, {where}; {result}.")
    if layout.blank:
        notes.append(counted(layout.blank, "blank line") + " between rows skipped: not counted as rows.")
    return notes


def _delimiter(text: str) -> str:
    """The sign that splits the first lines into the same number of fields, more than one; a comma if none does."""
    lines = list(io.StringIO(text, newline=""))
    lines = lines[:-1][:50] or lines

    def agreement(sign: str) -> tuple[float, int]:
        counts = [len(row) for row in csv.reader(lines, delimiter=sign) if row] or [1]
        return (counts.count(counts[0]) if counts[0] > 1 else 0, counts[0])

    best = max(_DELIMITERS, key=agreement)
    return best if agreement(best)[0] else ","


def _find_encoding(path: Path, head: bytes) -> tuple[str, str, list[str]]:
    """An encoding, what is done with bytes that do not fit it, and what is to be told of it.

    That of the mark; else UTF-8 if most lines that are not ASCII can be read so; else Windows-1252.
    """
    for mark, name in _MARKS.items():
        if head.startswith(mark):
            return name, "strict", []
    wide, bad = 0, []
    with _open(path) as file:
        for number, line in enumerate(file, start=1):
            if not line.isascii():
                try:
                    line.decode("utf-8")
                    wide += 1
                except UnicodeDecodeError:
                    bad.append(number)
    if not bad:
        return "utf-8", "strict", []
    if wide <= len(bad):
        # Windows-1252 leaves five bytes undefined; they are no reason to refuse a file.
        return "cp1252", "replace", ["The file is not UTF-8; it was read as Windows-1252."]
    lines = f"{counted(len(bad), 'line is', 'lines are')} not UTF-8, the first is line {bad[0]:,}"
    return "utf-8", "replace", [f"{lines}; what cannot be read there is shown as \ufffd."]


def _open(path: Path) -> IO[bytes]:
    """The bytes of a file, unpacked if it is gzipped."""
    return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb")  # type: ignore[return-value]


@contextmanager
def _named_errors(path: Path) -> Iterator[None]:
    """Say in one line, with the name of the file, why it is not read."""
    limit = csv.field_size_limit(_FIELD)
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path.name} is not read: the gzipped data are damaged or cut short ({error})") from None
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None
    finally:
        csv.field_size_limit(limit)


def mend_columns(frame: pd.DataFrame, delimiter: str, read: Read) -> list[str]:
    """Turn, in place, words into the numbers and gaps they stand for; return notes about it.

    Among numbers and dates a word such as NA or None stands for a gap; among words it is one of them, a class if the
    column is a label. An empty cell is always a gap. Where a column alone does not tell what its commas are ("1,234"),
    the others do; failing these, they are decimal commas unless commas separate the columns. Whole numbers that were
    rounded become the digits they were.
    """
    styles: dict[str, Style] = {}
    gaps = {}
    doubtful = [name for name in frame.columns if frame[name].isna().all()]
    for name in frame.columns[[pd.api.types.is_string_dtype(kind) for kind in frame.dtypes]]:
        # Of whole numbers beyond 2⁶³ pandas leaves gaps as they are written.
        frame[name] = frame[name].mask(frame[name].isin(GAPS | {""}))
        present = frame[name].dropna().astype(str).str.strip()
        if style := _style(present):
            styles[name] = style
        elif len(present) < len(frame) and not _are_plain(present):
            doubtful.append(name)
    commas, guessed = "decimal comma" in styles.values(), [name for name, style in styles.items() if style == "either"]
    decimal = commas or ("thousands" not in styles.values() and delimiter != ",")
    styles |= dict.fromkeys(guessed, "decimal comma" if decimal else "thousands")
    for name, style in styles.items():
        frame[name] = _numbers(frame[name], style)
    floats = frame.columns[[getattr(kind, "kind", "") == "f" for kind in frame.dtypes]].difference([*styles, *doubtful])
    large = [name for name in floats if bool((frame[name].abs() >= EXACT).any())]
    again = [*doubtful, *(floats if commas else large)]
    raw = read(usecols=again, dtype=str, keep_default_na=False, na_values=[""]) if again else frame[[]]
    for name in raw.columns:
        words = raw[name].mask(raw[name].isin(GAPS)).str.strip()
        present = words.dropna()
        meant = set(raw[name].dropna()) & GAPS
        if name in doubtful and meant and raw[name].nunique() > 1:  # a single word in all is the way to write a gap
            frame[name], gaps[name] = raw[name], meant
        elif name in large and present.str.fullmatch(r"[+-]?\d+").all():
            frame[name] = words
        elif commas and present.str.fullmatch(_DOTTED).all() and present.str.contains(".", regex=False).any():
            # Beside decimal commas dots are between thousands.
            frame[name], styles[name] = pd.to_numeric(words.str.replace(".", "", regex=False)), "thousands"
    return _notes(styles, guessed, gaps)


def _style(words: pd.Series[Any]) -> Style | None:
    """How the numbers of a column are written; None if they need no reading, or are none."""
    if not bool(words.str.contains(r"\d[,'’ \u00a0\u202f]\d|\d\.\d{3}\.\d{3}", regex=True).any()):
        return None
    comma, point = (words.str.fullmatch(pattern).astype(bool) for pattern in (_COMMA, _POINT))
    if max(comma.mean(), point.mean()) < MOSTLY:
        return None
    commas, points = int((comma & ~point).sum()), int((point & ~comma).sum())
    if commas or points:
        return "decimal comma" if commas >= points else "thousands"
    if not bool(words.str.contains(",", regex=False).any()):
        return "thousands"
    return "decimal comma" if bool(words.str.fullmatch(_BARE).any()) else "either"


def _are_plain(words: pd.Series[Any]) -> bool:
    """Whether most words of a column are numbers, dates or truth values."""
    some = words.iloc[:: max(1, len(words) // _LOOK)]
    shares = [some.str.fullmatch(pattern).astype(bool).mean() for pattern in (ISO_DATE, "(?i)true|false")]
    return bool(max(pd.to_numeric(some, errors="coerce").notna().mean(), *shares) >= MOSTLY)


def _numbers(column: pd.Series[Any], style: Style) -> Any:
    """The column as numbers, or, where some cells are none, with the others as Python writes them."""
    pattern, drop = (_COMMA, _GROUP) if style == "decimal comma" else (_POINT, "[,'’ \u00a0\u202f]")
    words = column.str.strip()
    plain = words.str.replace(drop, "", regex=True).str.replace(",", ".", regex=False)
    words = plain.where(words.str.fullmatch(pattern).eq(True), column)
    try:
        return pd.to_numeric(words)
    except (ValueError, TypeError):
        return words


def _notes(styles: dict[str, Style], guessed: list[str], words: dict[str, set[str]]) -> list[str]:
    notes = []
    if words:
        kinds = listed([f"“{word}”" for word in sorted(set().union(*words.values()))])
        notes.append(f"In {listed(list(words))}, {kinds} is read as text; only empty cells count as missing there.")
    for style, what in (("decimal comma", "a decimal comma"), ("thousands", "separated thousands")):
        if named := [name for name, own in styles.items() if own == style]:
            notes.append(f"Numbers with {what} were read in {listed(named)}.")
    if guessed:
        notes.append(f"Whether the comma in {listed(guessed)} is before decimals or between thousands was guessed.")
    return notes
