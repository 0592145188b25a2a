"""What earlier runs measured, a line each in FOLDER/history.jsonl, and how a run differs from the last of its kind."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, Literal

from experiments.entries import Bar, Record
from experiments.entries.bar import printed
from experiments.entries.record import bar_as_json, bar_from_json
from likely._files import naming

FILE = "history.jsonl"
ALIKE = ("name", "quick", "machine")  # runs that differ in these are not compared
NOISE = 0.1  # of a value of which no run knows the spread


@dataclass(frozen=True)
class Compared:
    """A bar, and what the run before measured of it, if it did."""

    bar: Bar
    before: Bar | None = None

    @property
    def change(self) -> str:
        """The ratio to the value before, or the difference where there is no ratio to speak of."""
        if self.before is None:
            return "–"
        now, then = self.bar.value, self.before.value
        if not math.isfinite(now - then):
            return "–"
        if now > 0 < then:
            return f"× {printed(now / then, 3)}"
        return ("+" if now >= then else "") + printed(now - then, 3)

    @property
    def trend(self) -> Literal["better", "worse", ""]:
        """Whether it moved by more than twice the spread of the two runs."""
        if self.before is None or not math.isfinite(gain := self.bar.value - self.before.value):
            return ""
        spread = math.hypot(self.bar.spread or 0.0, self.before.spread or 0.0)
        if abs(gain) <= (2 * spread or NOISE * abs(self.before.value)):
            return ""
        return "better" if (gain < 0) == self.bar.lower_is_better else "worse"


@dataclass(frozen=True)
class Comparison:
    """All bars of a run, and in words which run they are compared with."""

    bars: tuple[Compared, ...]
    last: str


def remember(record: Record, folder: Path) -> None:
    """Add what a run measured to the folder's history: a whole line or none, whoever else adds one."""
    line = {name: getattr(record, name) for name in (*ALIKE, "seed", "versions")}
    line |= {"day": date.today().isoformat(), "bars": _bars(record)}
    text = json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n"
    append_whole(folder / FILE, text.encode())


def append_whole(path: Path, line: bytes) -> None:
    """Append a line to a file, all of it or nothing, behind whole lines.

    Args:
        path: The file, which is made if it is not there.
        line: What to append, with its line feed.

    Raises:
        OSError: If it cannot be written. ``filename`` is ``path``, and the file is as it was.
    """
    with naming(path), open(path, "ab+", buffering=0) as file:
        with suppress(ImportError, OSError):
            import fcntl  # which Windows has not

            fcntl.flock(file.fileno(), fcntl.LOCK_EX)
        end = file.seek(0, os.SEEK_END)
        file.seek(max(0, end - 1))
        if end and file.read(1) != b"\n":  # a process was killed while it wrote
            line = b"\n" + line
        try:
            while line:
                line = line[file.write(line) :]
        except BaseException:
            file.truncate(end)
            raise


def compare(record: Record, folder: Path, against: Path | None = None) -> Comparison:
    """The record's bars beside those of the run before it in its own folder, else of the last one in ``against``."""
    own = list(_runs_like(record, folder))
    if own and own[-1]["bars"] == _bars(record):  # the record itself
        own.pop()
    if not own and against is not None and against.resolve() != folder.resolve():
        own = list(_runs_like(record, against))
    bars = record.result.bars if record.result else ()
    if not own:
        return Comparison(tuple(map(Compared, bars)), "No earlier run of the same machine is stored.")
    before = {bar.name: bar for bar in map(bar_from_json, own[-1]["bars"])}
    versions = ", ".join(f"{name} {own[-1]['versions'][name]}" for name in ("likely", "torch"))
    last = f"Changes are since the run of {own[-1]['day']} on the same machine ({versions})."
    return Comparison(tuple(Compared(bar, before.get(bar.name)) for bar in bars), last)


def tally(bars: Iterable[Compared]) -> str:
    """How many bars are met, and how many measures moved, in words."""
    bars = tuple(bars)
    met, wrong = (sum(one.bar.met is value for one in bars) for value in (True, False))
    counts = {"met": met, "missed": wrong, "not judged": len(bars) - met - wrong}
    counts |= {
        f"{trend} than in the last run": sum(one.trend == trend for one in bars) for trend in ("better", "worse")
    }
    return f"{len(bars)} measures: " + ", ".join(f"{n} {what}" for what, n in counts.items() if n) + "."


def _bars(record: Record) -> Sequence[dict[str, Any]]:
    return [bar_as_json(bar) for bar in record.result.bars] if record.result else []


def _runs_like(record: Record, folder: Path) -> Iterator[dict[str, Any]]:
    path = folder / FILE
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
    for number, line in enumerate(lines, start=1):
        try:
            run = json.loads(line)
            alike = all(run[name] == getattr(record, name) for name in ALIKE)
        except (ValueError, LookupError, TypeError):
            _tell_once(f"likely: line {number} of {path} is damaged and is left out")
            continue
        if alike:
            yield run


@cache
def _tell_once(message: str) -> None:
    print(message, file=sys.stderr)
