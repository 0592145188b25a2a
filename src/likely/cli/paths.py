"""The tables that a command line names: one file, or several files, a folder, a glob or a URL."""

from __future__ import annotations

import glob
import os
from pathlib import Path
from typing import Any

from likely._destination import keep_inputs, writable
from likely._rows.sources import ENDINGS, Source, is_one_file, source_of


def one_or_several(named: list[str] | None) -> tuple[Any, list[Path]]:
    """What the DATA arguments of an audit name, and the files among it."""
    if not named:
        return None, []
    if len(named) == 1 and is_one_file(named[0]):
        return Path(named[0]), [Path(named[0])]
    files = [file for name in named if "://" not in name for file in _files(name)]
    return (named[0] if len(named) == 1 else named), files


def several_files(data: str | Path) -> Source | None:
    """The table in a folder, a glob or a URL, which is read in blocks; None for a single file."""
    return None if is_one_file(data) else source_of(str(data))


def check_output(out: Path, inputs: dict[str, Any], source: Source | None) -> None:
    """Raise an error, before any work, if OUT is one of the inputs or a folder, or cannot be written."""
    if not out.parent.is_dir():
        raise FileNotFoundError(f"the folder {out.parent} of --out does not exist")
    for path in [inputs["DATA"]] if source is None else source.paths:
        keep_inputs([out], inputs | {"DATA": path})
    if not out.exists() or out.is_file():  # otherwise a pipe or a device, which is written to directly
        with writable(out.parent):
            pass


def _files(name: str) -> list[Path]:
    names = [name] if os.path.exists(name) else glob.glob(name, recursive=True)
    inside = [path.rglob("*") if path.is_dir() else [path] for path in map(Path, names)]
    return [file for files in inside for file in files if file.suffix.lower() in ENDINGS]
