"""Where a command may write: no file that it reads, and a folder that takes files, tried before any work is done."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from likely._files import replacing


def keep_inputs(outputs: Iterable[Path], inputs: Mapping[str, str | os.PathLike[str] | None]) -> None:
    """Refuse to write over a file that is read, by whatever path, symbolic or hard link it is named, or over a folder.

    The names of the inputs are what an error calls them; None stands for one that is not given.

    >>> keep_inputs([Path("a/../new.csv")], {"DATA": "new.csv", "--labels": None})
    Traceback (most recent call last):
    ...
    ValueError: a/../new.csv is the file given as DATA, which would be lost: write to another place
    """
    for output in outputs:
        if output.is_dir():
            raise IsADirectoryError(errno.EISDIR, "this is a folder, and a file is to be written there", str(output))
        for name, file in inputs.items():
            if file is not None and _same(output, Path(file)):
                raise ValueError(f"{output} is the file given as {name}, which would be lost: write to another place")


@contextmanager
def writable(folder: Path, *, create: bool = False) -> Iterator[None]:
    """Try a folder before the work that is to be written to it; an error in the block removes what was created for it.

    Where no file can be made in it an error names the folder.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()] if create else []
    try:
        if create:
            folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        _remove(missing)
        raise OSError(error.errno, f"nothing can be written to this folder: {error.strerror}", str(folder)) from None
    try:
        yield
    except BaseException:
        _remove(missing)
        raise


def write_together(contents: Mapping[Path, bytes]) -> None:
    """Write several files as one: all are written beside their places, and then all are put there.

    A full disk or any other error, which names the file, leaves the older files, all of them, as they were.
    """
    with ExitStack() as stack:
        for path, content in contents.items():
            with stack.enter_context(replacing(path)).open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())  # some systems find out only now that the disk is full


def write_parquet(parts: Iterable[Any], path: Path) -> None:
    """Write frames, or mappings of columns, to one Parquet file, one after the other."""
    import pyarrow as pa
    from pyarrow import parquet

    with ExitStack() as stack:
        writer = None
        for part in parts:
            table = pa.table(part)
            writer = writer or stack.enter_context(parquet.ParquetWriter(path, table.schema))
            writer.write_table(table.cast(writer.schema))


def _same(first: Path, second: Path) -> bool:
    with suppress(OSError, ValueError):
        if os.path.samefile(first, second):
            return True
    return os.path.realpath(first) == os.path.realpath(second)


def _remove(folders: Iterable[Path]) -> None:
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()
