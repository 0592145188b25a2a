"""Where data files are, and what to say when one is not there."""

import lzma
import os
import pickle
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from experiments.data._sources import hint

VARIABLE = "LIKELY_DATA"
_DAMAGED: tuple[type[Exception], ...] = (  # what readers of damaged files raise
    *(ValueError, EOFError, OSError, LookupError, AttributeError, TypeError, NotImplementedError, MemoryError),
    *(pickle.UnpicklingError, struct.error, zipfile.BadZipFile, zlib.error, lzma.LZMAError),
)


class RunsCode(pickle.UnpicklingError):
    """A pickle that is more than arrays."""


def folder(data: str | os.PathLike[str] | None) -> Path:
    """The data folder: the one given, else the one the environment names."""
    named = data if data is not None else os.environ.get(VARIABLE)
    if not named:
        raise FileNotFoundError(f"no data folder is known: pass data=, or set {VARIABLE} to a folder")
    return Path(named)


def names(kind: str, data: str | os.PathLike[str] | None) -> list[str]:
    """The sets of one kind that are in the folder, in order; none where there is no folder."""
    if data is None and not os.environ.get(VARIABLE):
        return []
    return sorted(path.stem for path in (folder(data) / kind).glob("*.npz"))


def read(kind: str, name: str, data: str | os.PathLike[str] | None) -> dict[str, NDArray[np.generic]]:
    """All arrays of ``KIND/NAME.npz``."""
    try:
        path = folder(data) / kind / f"{name}.npz"
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{error} that holds {kind}/{name}.npz") from None
    if not path.is_file():
        there = ", ".join(names(kind, data)) or "nothing"
        raise FileNotFoundError(
            f"{path} is missing: put the file there, or name another folder by data= or {VARIABLE}. "
            f"Under {kind}/ there is {there}{hint(f'{kind}/{name}')}"
        )
    # Pickled arrays could run code; every file of ours does without.
    return read_npz(path)


def read_npz(path: Path) -> dict[str, NDArray[np.generic]]:
    """All arrays of an npz file; one that is damaged is refused by its name."""
    with refusing(path), path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
        return {key: stored[key] for key in stored.files}


@contextmanager
def refusing(path: Path) -> Iterator[None]:
    """Say in one line that a data file cannot be read, whatever its reader raised."""
    try:
        yield
    except RunsCode:
        raise
    except _DAMAGED as error:
        reason = str(error) or type(error).__name__
        raise ValueError(f"{path} cannot be read ({reason}): remove it, and get or copy it again") from None


def need(arrays: dict[str, NDArray[np.generic]], keys: tuple[str, ...], where: str) -> None:
    """Refuse a file that lacks an array."""
    missing = [key for key in keys if key not in arrays]
    if missing:
        raise ValueError(f"{where}.npz lacks the arrays {', '.join(missing)}; it has {', '.join(arrays)}")
