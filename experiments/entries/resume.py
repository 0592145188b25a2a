"""Going on after an interruption: what a result is made from, and which entries are finished."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import likely
from experiments.entries.digest import digest
from experiments.entries.entry import Context
from experiments.entries.record import Record, load_or_tell
from likely._page.machine import machine, version, versions

RIVALS = ("pyod", "combo")  # not needed, and compared with where installed
CODE = (".py", ".npz")
DEPTH = 2  # folders below the data folder that are looked into; deeper ones hold single pictures by the thousand


def origin(context: Context) -> str:
    """A digest of all that decides a result besides its entry: settings, data files, code, libraries, and the GPU.

    The code itself is in it, not only its version: whoever changes a line gets new results, not the old ones.
    """
    files = [] if context.data is None else sorted(_listed(context.data, DEPTH))
    made_with = {**versions(), **{name: version(name) for name in RIVALS}, "gpu": machine().get("gpu")}
    parts = [context.quick, context.seed, files, _source(), made_with]
    return digest(json.dumps(parts).encode())


def finished(name: str, made_from: str, folder: Path) -> Record | None:
    """The record of an entry that ended well and was made from the same, else None."""
    record = load_or_tell(name, folder)
    return record if record and record.result and record.made_from == made_from else None


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
    """Of the package and of the experiments, stored outputs included."""
    roots = (Path(likely.__file__).parent, Path(__file__).parents[1])
    files = sorted((path.relative_to(root.parent), path) for root in roots for path in root.rglob("*"))
    return digest(b"".join(str(name).encode() + path.read_bytes() for name, path in files if path.suffix in CODE))
