"""Files that are whole or not there, and NumPy's that cannot be read."""

import os
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path, *, shared: bool = False) -> Iterator[Path]:
    """A file beside ``path`` to write to, which takes its place once all is written.

    So that a process killed at any time leaves the old file or the new one, never half of one; an error leaves the old.
    Where several processes may write it, it is ``shared``: each has its own file beside it, and the last one stays.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "note.txt")
    ...     with replacing(path) as beside:
    ...         _ = beside.write_text("whole")
    ...     path.read_text(), [file.name for file in Path(folder).iterdir()]
    ('whole', ['note.txt'])
    """
    beside = path.with_name(f"{path.name}.{os.getpid()}.partial" if shared else f"{path.name}.partial")
    try:
        yield beside
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Say in one line why the .npy or .npz file ``path`` is not read.

    >>> import numpy as np
    >>> with reading(Path("lost.npy")):
    ...     np.load("lost.npy")
    Traceback (most recent call last):
    FileNotFoundError: lost.npy does not exist
    """
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} does not exist") from None
    except (ValueError, EOFError, OSError, zipfile.BadZipFile, zlib.error) as error:
        reason = "it holds pickled objects, which could run code" if "pickle" in str(error) else str(error)
        raise ValueError(f"{path.name} is not read: {reason}") from None
