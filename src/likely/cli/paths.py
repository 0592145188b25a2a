"""The tables that a command line names: one file, or several by their names, a folder, a glob or a URL."""

from __future__ import annotations

import glob
import os
from pathlib import Path
from typing import Any

from likely._rows.sources import ENDINGS, is_one_file


def one_or_several(named: list[str] | None) -> tuple[Any, list[Path]]:
    """What the arguments name, and the files here that they stand for.

    Args:
        named: the arguments; a glob is expanded where the shell did not do so.

    Returns:
        A path if they are one file, else a string or a list of them; and local files, which must not be written to.
    """
    if not named:
        return None, []
    if len(named) == 1 and is_one_file(named[0]):
        return Path(named[0]), [Path(named[0])]
    files = [file for name in named if "://" not in name for file in _files(name)]
    return (named[0] if len(named) == 1 else named), files


def _files(name: str) -> list[Path]:
    names = [name] if os.path.exists(name) else glob.glob(name, recursive=True)
    inside = [path.rglob("*") if path.is_dir() else [path] for path in map(Path, names)]
    return [file for own in inside for file in own if file.suffix.lower() in ENDINGS]
