"""Going on after an interruption: what a result is made from, which entries are finished, units of the others."""

from __future__ import annotations

import hashlib
import json
import pickle
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from likely._files import replacing
from likely._machine import machine, version, versions

if TYPE_CHECKING:
    from likely.reproduce._entry import Context
    from likely.reproduce._record import Record

T = TypeVar("T")
RIVALS = ("pyod", "combo")  # not needed, and compared with where installed
DEPTH = 2  # folders below the data folder that are looked into; deeper ones hold single pictures by the thousand


def origin(context: Context) -> str:
    """A digest of all that decides a result besides its entry: settings, data files, code, libraries, and the GPU.

    The code itself is in it, not only its version: whoever changes a line gets new results, not the old ones.
    """
    files = [] if context.data is None else sorted(_listed(context.data, DEPTH))
    made_with = {**versions(), **{name: version(name) for name in RIVALS}, "gpu": machine().get("gpu")}
    parts = [context.quick, context.seed, files, _source(), made_with]
    return _digest(json.dumps(parts).encode())


def finished(name: str, made_from: str, folder: Path) -> Record | None:
    """The record of an entry that ended well and was made from the same, else None."""
    from likely.reproduce._record import load_or_tell

    record = load_or_tell(name, folder)
    return record if record and record.result and record.made_from == made_from else None


def once(folder: Path, unit: tuple[object, ...], compute: Callable[[], T]) -> T:
    """What an earlier run kept of this unit, else what is computed now, which is kept."""
    path = folder / f"{_digest(repr(unit).encode())}.pickle"
    if path.exists():
        try:
            kept: T = pickle.loads(path.read_bytes())
            return kept
        except Exception as error:  # of which a damaged pickle may raise any
            print(f"likely: {path} is damaged ({error}) and is computed again", file=sys.stderr)
    found = compute()
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(path) as beside:
        beside.write_bytes(pickle.dumps(found))
    return found


def _listed(folder: Path, depth: int) -> Iterator[tuple[str, int]]:
    """Names and sizes of the files in a folder; hidden ones and unfinished downloads are no data."""
    for path in folder.iterdir():
        if path.name.startswith(".") or path.suffix == ".partial":
            continue
        if path.is_file():
            yield path.name, path.stat().st_size
        elif depth and path.is_dir():
            yield from ((f"{path.name}/{name}", size) for name, size in _listed(path, depth - 1))


@cache
def _source() -> str:
    package = Path(__file__).parents[1]
    files = sorted(path for path in package.rglob("*") if path.suffix in (".py", ".npz"))
    return _digest(b"".join(str(path.relative_to(package)).encode() + path.read_bytes() for path in files))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]
