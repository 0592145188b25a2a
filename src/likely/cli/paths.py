"""The tables that a command line names: one file, or several files, a folder, a glob or a URL."""

from __future__ import annotations

import glob
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from likely._rows.sources import ENDINGS, Source, is_one_file, source_of
from likely.cli.outputs import Names, Outputs, read_outputs

MOST = 1 << 26  # largest number of values that a calibrator is fitted to


@dataclass(frozen=True)
class Outside:
    """A model's outputs in several files, which are read in blocks."""

    source: Source
    name: str

    @classmethod
    def of(cls, data: str | Path) -> Outside | None:
        """The outputs in a folder, a glob or a URL; None for a single file."""
        source = None if is_one_file(data) else source_of(str(data))
        return None if source is None else cls(source, Path(data).name)

    def sample(self, names: Names) -> Outputs:
        """A regular sample of the rows with their labels or targets, and a note about it."""
        stride = max(1, -(-len(self.source) * self.source.width // MOST))
        (table,) = self.source.every(stride)
        outputs = read_outputs(Path(self.name), names, truth=True, table=table)
        if stride == 1:
            return outputs
        note = f"Fitted on {len(outputs):,} of {len(self.source):,} rows, one in {stride:,}."
        return replace(outputs, notes=(*outputs.notes, note))


def one_or_several(named: list[str] | None) -> tuple[Any, list[Path]]:
    """Resolve the DATA arguments of a command."""
    if not named:
        return None, []
    if len(named) == 1 and is_one_file(named[0]):
        return Path(named[0]), [Path(named[0])]
    files = [file for name in named if "://" not in name for file in _files(name)]
    return (named[0] if len(named) == 1 else named), files


def _files(name: str) -> list[Path]:
    names = [name] if os.path.exists(name) else glob.glob(name, recursive=True)
    inside = [path.rglob("*") if path.is_dir() else [path] for path in map(Path, names)]
    return [file for files in inside for file in files if file.suffix.lower() in ENDINGS]
