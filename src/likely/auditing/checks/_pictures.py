"""Columns of pictures: unreadable, blank, dark, blurred and oddly sized ones, copies, and what gives the label away."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from likely._page import Table
from likely._typing import Array
from likely.auditing._columns import Columns
from likely.auditing._duplicates import ORDINARY
from likely.auditing._finding import Explained, Finding, Reason, number, percent, worst_first
from likely.auditing._images import ENDINGS, Pictures, pictures
from likely.auditing._leaks import Told, tells
from likely.auditing.checks._picture_facts import PROPERTIES, Facts

_MOSTLY = 0.9  # of a column's values must be names of pictures
_COMMON = 0.05  # of the pictures: what more of them have is how pictures are here
_DARK, _LIGHT, _BLANK = 60.0, 195.0, 2.0  # of 255
_FAR = 5.0  # deviations, of logarithms, by which sizes and sharpness may be off
_BLURRED = 0.05  # of the contrast: pictures without edges, that half the deviations are enough for
_LEAST = 0.1  # a deviation of a logarithm, at least
_GREY = 1.0  # of 255: channels that differ by less
_BITS, _BAND, _CLOSE = 3, 16, 6.0  # bits by which hashes of copies may differ, bits per band, and grey levels of 255
_GIVES = 0.3  # of what there is to know about the label


class _Kind(NamedTuple):
    """What is said of pictures with one fault: how sure, how far off, whether wrong, and the words."""

    sure: float
    far: float
    wrong: bool
    words: str


_KINDS = {
    "unreadable": _Kind(1.0, 5.0, True, "cannot be read"),
    "blank": _Kind(0.95, 2.0, True, "is of one colour"),
    "dark": _Kind(0.8, 1.0, False, "is dark throughout"),
    "light": _Kind(0.8, 1.0, False, "is light throughout"),
    "blurry": _Kind(0.6, 1.0, False, "is blurred"),
    "size": _Kind(0.7, 1.0, False, "is of an odd size"),
    "shape": _Kind(0.7, 1.0, False, "is far wider or taller than most"),
    "grey": _Kind(0.7, 0.5, False, "is grey, most are coloured"),
    "copy": _Kind(0.95, 0.1, False, "is almost a copy"),
}


def find_pictures(columns: Columns, images: Any, table: Path | None, notes: list[str]) -> Pictures | None:
    """Find the pictures of a table: those the user gives, or those that a column names."""
    n = len(columns.typed)
    if images is not None:
        return pictures(images, n)
    name = picture_column(columns)
    if name is None:
        return None
    if find_spec("PIL") is None:
        notes.append(f"{name} names images; to check them, install Pillow.")
        return None
    folder = table.parent if table is not None else Path()
    paths = [None if pd.isna(file) else folder / str(file) for file in columns.typed[name]]
    if not any(path.is_file() for path in paths if path is not None):
        notes.append(f"{name} names images, none of which is there; relative names are looked up beside the table.")
        return None
    notes.append(f"{name} names images, which are checked.")
    return pictures(paths, n)


def picture_column(columns: Columns) -> str | None:
    """Name the first column that holds names of picture files."""
    for name in columns.named("identifier", "text", "category"):
        present = columns.typed[name].dropna()
        if len(present) and not pd.api.types.is_numeric_dtype(present.dtype):
            some = present.iloc[:1_000]
            if np.mean([str(file).lower().endswith(ENDINGS) for file in some]) >= _MOSTLY:
                return name
    return None


def with_measurements(columns: Columns, facts: Facts) -> Columns:
    """Add what was measured of pictures to a table, as columns of numbers."""
    n = len(columns.typed)
    measured = {f"image {name}": _padded(getattr(facts, name), n) for name in PROPERTIES}
    measured = {
        name: values
        for name, values in measured.items()
        if name not in columns.kinds and len(np.unique(values[values == values])) > 1
    }
    typed = pd.concat([columns.typed, pd.DataFrame(measured, index=columns.typed.index)], axis=1)
    return Columns({**columns.kinds, **dict.fromkeys(measured, "number")}, typed, columns.odd)


def odd_pictures(facts: Facts, n: int, labels: Array | None = None) -> Finding:
    """Report pictures that cannot be read, show nothing, are unlike the others in size or light, or are copies."""
    rows = len(facts.width)
    faults = picture_faults(facts)
    odd: dict[int, list[tuple[str, str]]] = defaultdict(list)
    counts = {kind: len(rows_at_fault) for kind, rows_at_fault in faults.items()}
    for kind, rows_at_fault in faults.items():
        for row, more in rows_at_fault.items():
            odd[row].append((kind, more))
    certainty = np.zeros(n)
    for row, row_faults in odd.items():
        certainty[row] = max(_KINDS[kind].sure for kind, _ in row_faults)

    def explain(top: NDArray[np.int64]) -> Iterator[Explained]:
        for row in top:
            row_faults = sorted(odd[int(row)], key=lambda fault: -_KINDS[fault[0]].sure)
            kind, more = row_faults[0]
            problem = _KINDS[kind]
            reasons = [Reason("image", _KINDS[fault].words, text, _KINDS[fault].sure) for fault, text in row_faults]
            headline = f"the image {problem.words}{': ' if more else ''}{more}"
            yield Explained(headline, reasons, problem.far, problem.wrong, f"the image {problem.words}")

    counts_in_words = [
        f"{count:,} {_KINDS[kind].words.replace('is ', '', 1)}" for kind, count in counts.items() if count
    ]
    sentence = (
        f"Of {rows:,} images: {', '.join(counts_in_words)}."
        if counts_in_words
        else f"All {rows:,} images can be read, and none is odd."
    )
    gives: dict[str, Told] = {} if labels is None else _given_away(facts, labels[:rows])
    strong = {
        name: explained
        for name, explained in gives.items()
        if explained.share >= _GIVES and explained.share > 2 * explained.error
    }
    if strong:
        name, (share, error) = max(strong.items(), key=lambda item: item[1].share)
        sentence += f" The {name} alone explains {percent(share, error)} of the label: a model may learn that instead."
    return Finding(
        "images",
        "Images",
        sentence,
        scores={"image_brightness": _padded(facts.brightness, n), "image_sharpness": _padded(facts.sharpness, n)},
        numbers={
            "rows": len(odd),
            **counts,
            "tell_the_label": {name: round(explained.share, 4) for name, explained in gives.items()},
        },
        tables=(_table(facts),),
        **worst_first("images", certainty, certainty > 0, explain, most=None),
    )


def _padded(values: Array, n: int) -> Array:
    return np.concatenate([values, np.full(n - len(values), np.nan)])


def _table(facts: Facts) -> Table:
    measured = {name: getattr(facts, name) for name in PROPERTIES}
    read = ~np.isnan(facts.width)
    lines = {
        name: dict(zip(["5%", "median", "95%"], np.quantile(values[read], [0.05, 0.5, 0.95]), strict=True))
        for name, values in measured.items()
        if read.any()
    }
    frame = pd.DataFrame.from_dict(lines, orient="index").rename_axis("measured")
    return Table(frame, "What was measured: light, contrast and colour from 0 to 255.", digits=1)


def _given_away(facts: Facts, labels: Array) -> dict[str, Told]:
    """How much of the label each measurement tells alone, with its error."""
    known = ~np.isnan(labels)
    return {name: tells(getattr(facts, name)[known], labels[known], labels=True) for name in PROPERTIES}


def picture_faults(facts: Facts) -> dict[str, dict[int, str]]:
    """List the pictures with each fault."""
    unreadable = np.isnan(facts.width)
    blank = facts.contrast < _BLANK
    with np.errstate(divide="ignore", invalid="ignore"):
        area, shape = np.log(facts.width * facts.height), np.log(facts.width / facts.height)
        sharpness = np.log(np.maximum(facts.sharpness, 1e-3))
    size = {int(row): f"{facts.width[row]:.0f} × {facts.height[row]:.0f} pixels" for row in np.flatnonzero(~unreadable)}
    blurred = (_off(sharpness) < -_FAR) | ((_off(sharpness) < -_FAR / 2) & (facts.sharpness < _BLURRED))
    grey = facts.colour < _GREY
    faults = {
        "unreadable": dict.fromkeys(np.flatnonzero(unreadable).tolist(), ""),
        "blank": dict.fromkeys(np.flatnonzero(blank).tolist(), ""),
        "dark": _rare((facts.dark < _DARK) & ~blank, facts.brightness, "brightness"),
        "light": _rare((facts.light > _LIGHT) & ~blank, facts.brightness, "brightness"),
        "blurry": _rare(blurred & ~blank, facts.sharpness, "sharpness"),
        "size": {row: size[row] for row in _rare(np.abs(_off(area)) > _FAR, area, "")},
        "shape": {row: size[row] for row in _rare(np.abs(_off(shape)) > _FAR, shape, "")},
        "grey": _rare(grey & ~blank, facts.colour, "") if np.mean(grey) < _COMMON else {},
        "copy": copies_of(facts, unreadable | blank),
    }
    return {
        kind: {row: more for row, more in rows.items() if row not in faults["blank"] or kind == "blank"}
        for kind, rows in faults.items()
    }


def _rare(odd: NDArray[np.bool_], values: Array, what: str) -> dict[int, str]:
    """The rows that are odd, with their value, unless so many are that it is usual here."""
    if not odd.any() or odd.mean() > _COMMON:
        return {}
    middle = number(float(np.nanmedian(values))) if what else ""
    return {
        int(row): f"{what} {number(float(values[row]))}, usually {middle}" if what else ""
        for row in np.flatnonzero(odd)
    }


def _off(values: Array) -> Array:
    """Deviations from the median, by the quartiles."""
    present = values[np.isfinite(values)]
    if len(present) < 20:
        return np.zeros(len(values))
    first, middle, third = np.quantile(present, [0.25, 0.5, 0.75])
    off: Array = np.nan_to_num((values - middle) / max(float(third - first) / 1.35, _LEAST))
    return off


def copies_of(facts: Facts, leave_out: NDArray[np.bool_]) -> dict[int, str]:
    """Find pictures that are almost the same as an earlier one."""
    rows = np.flatnonzero(~leave_out)
    of: dict[int, int] = {}
    for start in range(0, 64, _BAND):
        key = (facts.hashes[rows] >> np.uint64(start)) & np.uint64((1 << _BAND) - 1)
        order = rows[np.argsort(key, kind="stable")]
        ordered = np.sort(key, kind="stable")
        for group in np.split(order, np.flatnonzero(np.diff(ordered)) + 1):
            for place in range(1, min(len(group), 500)):
                later, earlier = int(group[place]), group[:place]
                if later in of:
                    continue
                bits = np.bitwise_count(facts.hashes[earlier] ^ facts.hashes[later])
                near = earlier[bits <= _BITS]
                if len(near):
                    gap = np.sqrt(np.mean((facts.small[near] - facts.small[later]) ** 2, axis=1))
                    # A digit on black is close to others of its kind: copies differ by less than pictures do.
                    if gap.min() < min(_CLOSE, 0.1 * float(facts.contrast[later])):
                        of[later] = int(near[int(np.argmin(gap))])
    if len(of) > ORDINARY * len(rows):
        return {}
    return {later: f"of row {earlier}" for later, earlier in of.items()}
