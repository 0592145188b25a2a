"""One run of one entry, as files: NAME.json with the numbers, NAME-1.svg, NAME-2.svg … beside it.

The report is made from these files alone, so running one entry again keeps the others, and a run that was cut short
loses nothing that had finished.
"""

from __future__ import annotations

import json
import math
import sys
import traceback
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from experiments.entries.bar import Bar
from experiments.entries.digest import digest
from experiments.entries.entry import Context, Entry, Result
from experiments.entries.parts import Picture, Table
from likely._files import replacing
from likely._page.machine import machine, versions

FORMAT = 1  # raised when files written before can no longer be read; such files count as not run


@dataclass(frozen=True)
class Record:
    """What came of running an entry: a result, or the error that stopped it.

    ``made_from`` is a digest of all that decided the result; where it is still the same, so is the result. ``date``
    is the day it ran, in UTC; of records older than this field, the day they were stored.
    """

    name: str
    quick: bool
    seed: int
    command: str
    versions: dict[str, str]
    machine: dict[str, str | int]
    result: Result | None = None
    error: str | None = None
    traceback: str | None = None
    made_from: str = ""
    date: str = ""


def run_entry(entry: Entry, context: Context, command: str) -> Record:
    """Run an entry under its seed. An exception ends this entry only and becomes its record."""
    import torch

    about = (entry.name, context.quick, context.seed, command, versions(), machine())
    date = datetime.now(UTC).date().isoformat()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(context.seed)
        try:
            return Record(*about, result=entry.run(context), date=date)
        except Exception as error:
            message = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            return Record(*about, error=message, traceback=traceback.format_exc(), date=date)


def save(record: Record, folder: Path) -> None:
    """Write the record's files, replacing those of an earlier run of the same entry.

    Each is whole or not there, and the JSON, written last, tells whether the pictures are those of the same run.
    """
    text = json.dumps(_as_json(record), indent=1, ensure_ascii=False, allow_nan=False)
    pictures = record.result.pictures if record.result else ()
    folder.mkdir(parents=True, exist_ok=True)
    for number, picture in enumerate(pictures, start=1):
        write_text(folder / f"{record.name}-{number}.svg", picture.svg)
    write_text(folder / f"{record.name}.json", text + "\n")
    kept = {f"{record.name}-{number}.svg" for number in range(1, len(pictures) + 1)}
    for old in folder.glob(f"{record.name}-[0-9]*.svg"):
        if old.name not in kept:
            old.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    with replacing(path) as beside:
        beside.write_text(text, encoding="utf-8")


def load(name: str, folder: Path, *, pictures: bool = True) -> Record | None:
    """The record of an entry, or None where there is none that this version can read.

    Args:
        name: The entry's name.
        folder: Where :func:`save` wrote it.
        pictures: Whether to read the pictures too, which must then be there.

    Raises:
        ValueError: If the record is damaged, or one of its pictures is missing or of another run.
    """
    path = folder / f"{name}.json"
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        if stored.pop("format", None) != FORMAT:
            return None
        if result := stored.pop("result"):
            if not pictures:
                result["pictures"] = []
            result = _result(result, [folder / f"{name}-{i}.svg" for i in range(1, len(result["pictures"]) + 1)])
        return Record(**stored, result=result)
    except FileNotFoundError as missing:
        if missing.filename == str(path):
            return None
        raise Damaged(f"{missing.filename}, a picture of {path.name}, is missing") from None
    except Damaged:
        raise
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise Damaged(f"{path} is damaged ({type(error).__name__}: {error})") from None


class Damaged(ValueError):
    """A record that cannot be read: its entry has to be run again."""


def load_or_tell(name: str, folder: Path) -> Record | None:
    """The record of an entry; one that is damaged counts as not run, which is said on standard error."""
    try:
        return load(name, folder)
    except Damaged as error:
        print(f"likely: {error}: {name} counts as not run", file=sys.stderr)
        return None


def _result(stored: dict[str, Any], svgs: list[Path]) -> Result:
    return Result(
        stored["verdict"],
        stored["notes"],
        tuple(table_from_json(table) for table in stored["tables"]),
        tuple(_picture(words, path) for words, path in zip(stored["pictures"], svgs, strict=True)),
        tuple(bar_from_json(bar) for bar in stored.get("bars", ())),
    )


def _picture(words: dict[str, Any], path: Path) -> Picture:
    """Records once had no digests: their pictures are taken as they are."""
    svg = path.read_text(encoding="utf-8")
    whole = "<svg" in svg and svg.rstrip().endswith("</svg>")
    if words.pop("digest", None) not in (None, digest(svg.encode())) or not whole:
        raise Damaged(f"{path} is not the picture of its record, but of another run or damaged")
    return Picture(svg, **words)


def _as_json(record: Record) -> dict[str, Any]:
    stored = {"format": FORMAT, **vars(record)}
    if result := record.result:
        stored["result"] = {
            "verdict": result.verdict,
            "notes": result.notes,
            "tables": [_table_as_json(table) for table in result.tables],
            "pictures": [
                {"alt": p.alt, "caption": p.caption, "wide": p.wide, "digest": digest(p.svg.encode())}
                for p in result.pictures
            ],
            **({"bars": [bar_as_json(bar) for bar in result.bars]} if result.bars else {}),
        }
    return stored


def bar_as_json(bar: Bar) -> dict[str, Any]:
    """Its fields, without those that say nothing."""
    told = {name: _to_json(value) for name, value in vars(bar).items()}
    return {name: value for name, value in told.items() if value not in (None, "")}


def bar_from_json(stored: dict[str, Any]) -> Bar:
    """The same bar again."""
    return Bar(**{"value": math.nan, "bar": None} | {name: _from_json(value) for name, value in stored.items()})


def _table_as_json(table: Table) -> dict[str, Any]:
    frame = table.frame.reset_index()
    rows = [{str(column): _to_json(value) for column, value in row.items()} for row in frame.to_dict("records")]
    best = [{"columns": columns, "better": better} for columns, better in table.best.items()]
    index = [str(name) for name in frame.columns[: table.frame.index.nlevels]]
    return {"caption": table.caption, "digits": table.digits, "best": best, "index": index, "rows": rows}


def table_from_json(stored: dict[str, Any]) -> Table:
    """The same table again."""
    import pandas as pd

    rows = [{column: _from_json(value) for column, value in row.items()} for row in stored["rows"]]
    best = {tuple(c) if isinstance(c := one["columns"], list) else c: one["better"] for one in stored["best"]}
    return Table(pd.DataFrame(rows).set_index(stored["index"]), stored["caption"], best, digits=stored["digits"])


def _to_json(value: Any) -> Any:
    """Plain Python for numpy's scalars; JSON has no NaN, and no infinities, which become words."""
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


def _from_json(value: Any) -> Any:
    return {None: math.nan, "inf": math.inf, "-inf": -math.inf}.get(value, value)
