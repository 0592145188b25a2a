"""Units of an entry that is not finished, kept so that a run goes on where it was interrupted."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from experiments.entries.digest import digest
from likely._files import replacing

T = TypeVar("T")


def once(folder: Path, unit: tuple[object, ...], compute: Callable[[], T]) -> T:
    """What an earlier run kept of this unit, else what is computed now, which is kept."""
    path = folder / f"{digest(repr(unit).encode())}.pickle"
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
