"""The tables that a command line names: one file, or several files, a folder, a glob or a URL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from likely._destination import keep_inputs, writable
from likely._rows.sources import Source, is_one_file, source_of


def one_or_several(named: list[str] | None) -> tuple[Any, list[str]]:
    """What the DATA arguments of an audit name, and the files among it."""
    if not named:
        return None, []
    data = named[0] if len(named) == 1 else named
    if is_one_file(data):
        return Path(named[0]), named
    source = source_of(data)
    return data, [] if source is None else source.paths


def several_files(data: Any) -> Source | None:
    """The table in several files, a folder, a glob or a URL, which is read in blocks; None for a single file."""
    return None if is_one_file(data) else source_of(data)


def check_output(out: Path, inputs: dict[str, Any], source: Source | None) -> None:
    """Raise an error, before any work, if OUT is one of the inputs or a folder, or cannot be written."""
    if not out.parent.is_dir():
        raise FileNotFoundError(f"the folder {out.parent} of --out does not exist")
    for path in [inputs["DATA"]] if source is None else source.paths:
        keep_inputs([out], inputs | {"DATA": path})
    if not out.exists() or out.is_file():  # otherwise a pipe or a device, which is written to directly
        with writable(out.parent):
            pass
