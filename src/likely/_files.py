"""Files that are whole or not there, NumPy's that cannot be read, spreadsheets, and where a command may write."""

import errno
import os
import re
import secrets
import shutil
import stat
import tempfile
import time
import weakref
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from likely._typing import FilePath

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_BATCH_ROWS = 1 << 20  # read at a time
_ABANDONED = 3600  # seconds without a write after which an unfinished file is that of a process that is no more
# Of a write that fails half-way: such errors do not carry the name of the file.
_NO_ROOM = {getattr(errno, name) for name in ("ENOSPC", "EDQUOT", "EFBIG", "EIO", "EROFS") if hasattr(errno, name)}


@contextmanager
def replacing(path: FilePath) -> Iterator[Path]:
    """A new, empty file in the folder of ``path`` to write to; it takes the place of ``path`` at the end of the block.

    A process killed at any time, a full disk or any other error leave the old file whole; a kill leaves a hidden
    ``.partial`` file beside it, which a call of an hour later removes. Every call has a file of its own, so that of
    several processes or threads that write the same ``path`` the last one to finish stays, whole. The new file has
    the permissions of the old one. If ``path`` is a symbolic link the file it points to is replaced; a pipe or a
    device such as ``/dev/stdout`` is written to as it is. The folder must exist; an error names ``path``.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "note.txt")
    ...     with replacing(path) as beside:
    ...         _ = beside.write_text("whole")
    ...     path.read_text(), [file.name for file in Path(folder).iterdir()]
    ('whole', ['note.txt'])
    """
    as_given, path = path, Path(path)
    with naming(as_given):
        mode = _mode(path)
    if mode is not None and not stat.S_ISREG(mode):
        yield path
        return
    with naming(as_given):
        target = Path(os.path.realpath(path))
        prefix = (
            f".{target.name[:40]}."  # hidden, and short enough to leave room for the rest: names may have 255 bytes
        )
        _remove_abandoned(target.parent, prefix)
        beside = target.with_name(f"{prefix}{secrets.token_hex(8)}.partial")
        beside.touch(exist_ok=False)
    try:
        with naming(as_given, beside):
            yield beside
            with beside.open("r+b") as written:
                os.fsync(written.fileno())  # else a power failure could leave the new name with nothing in it
            if mode is not None:
                os.chmod(beside, stat.S_IMODE(mode))
            os.replace(beside, target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    _fsync_folder(target.parent)


@contextmanager
def loading(path: Path) -> Iterator[None]:
    """Say in one line why the .npy or .npz file ``path``, which may claim anything of itself, is not read.

    >>> with loading(Path("big.npy")):
    ...     raise MemoryError("Unable to allocate 21.8 TiB")
    Traceback (most recent call last):
    ...
    ValueError: big.npy is not read: its header claims more than memory holds (Unable to allocate 21.8 TiB)
    """
    if path.exists() and not path.is_file():  # a pipe would be waited for
        raise FileNotFoundError(f"{path} is not a file")
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} does not exist") from None
    except (
        ValueError, OverflowError, MemoryError, EOFError, OSError, NotImplementedError, zipfile.BadZipFile, zlib.error,
    ) as error:  # fmt: skip
        reason = str(error)
        if isinstance(error, MemoryError):
            reason = f"its header claims more than memory holds ({error})"
        elif isinstance(error, OverflowError) or "mmap length" in reason:
            reason = "its header claims more than the file holds"
        elif "containing pickled data" in reason:  # what numpy takes any other file for
            reason = "it is neither an .npy nor an .npz file"
        elif "pickle" in reason:
            reason = "it holds pickled objects, which could run code"
        raise ValueError(f"{path.name} is not read: {reason}") from None


def _mode(path: Path) -> int | None:
    """Kind and permissions of an older file; refused where it could not be written to itself."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, "the file there is read-only", str(path))
    return mode


def _remove_abandoned(folder: Path, prefix: str) -> None:
    """Remove what killed processes left unfinished of a file: tables may be large, and kills frequent."""
    with suppress(OSError):  # a folder that is not there or may not be listed
        for beside in folder.iterdir():
            ours = re.fullmatch(re.escape(prefix) + r"[0-9a-f]{16}\.partial", beside.name)
            if ours and beside.stat().st_mtime < time.time() - _ABANDONED:
                beside.unlink()


@contextmanager
def naming(path: FilePath, beside: Path | None = None) -> Iterator[None]:
    """Let errors of writing name the destination, which the user knows; those of other files keep their names."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno in _NO_ROOM:
            raise OSError(error.errno, f"not written: {error.strerror or error}", os.fspath(path)) from error
        if beside is None or str(error.filename) == str(beside):
            raise OSError(error.errno, error.strerror, os.fspath(path)) from error
        raise


def _fsync_folder(folder: Path) -> None:
    """So that the new name, too, outlasts a power failure; not every system lets folders be opened."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def keep_inputs(outputs: Iterable[Path], inputs: Mapping[str, FilePath | None]) -> None:
    """Refuse to write over a file that is read, by whatever path, symbolic or hard link it is named, or over a folder.

    The names of the inputs are what an error calls them; None stands for one that is not given.

    >>> keep_inputs([Path("a/../new.csv")], {"DATA": "new.csv", "--labels": None})
    Traceback (most recent call last):
    ...
    ValueError: a/../new.csv is the file given as DATA, which would be lost: write to another place
    """
    for output in outputs:
        if output.is_dir():
            raise IsADirectoryError(errno.EISDIR, "this is a folder, but a file is to be written there", str(output))
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


class TemporaryParquet:
    """Frames, or mappings of columns, in a Parquet file that goes when nobody holds it any more."""

    def __init__(self, parts: Iterable[Any]) -> None:
        folder = tempfile.mkdtemp(prefix="likely-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self.path = Path(folder, "rows.parquet")
        write_parquet(parts, self.path)

    def __getitem__(self, name: str) -> Any:
        from pyarrow import parquet

        return parquet.read_table(self.path, columns=[name])[name].to_numpy()

    def __iter__(self) -> Iterator[Any]:
        from pyarrow import parquet

        with parquet.ParquetFile(self.path) as file:
            yield from (batch.to_pandas() for batch in file.iter_batches(_BATCH_ROWS))

    def __getstate__(self) -> Any:
        raise TypeError("the rows of a table that was read in blocks are in a temporary file: call save(folder)")


def spreadsheet(frame: Any) -> str:
    """A frame as CSV in which no cell is a formula."""
    safe = frame.rename(columns=lambda name: harmless(str(name)))
    for place, dtype in enumerate(safe.dtypes):
        if dtype.kind not in "biuf":
            texts = safe.iloc[:, place].map(str, na_action="ignore").map(harmless, na_action="ignore")
            safe.isetitem(place, texts)
    return str(safe.to_csv(float_format="%.6g", lineterminator="\n"))


def harmless(text: str) -> str:
    """The text, after an apostrophe if a spreadsheet would take it for a formula, and without line ends.

    >>> harmless("=1+1"), harmless("fine"), harmless(" @SUM(A1)")
    ("'=1+1", 'fine', "' @SUM(A1)")
    """
    guarded = "'" + text if text.startswith(_FORMULA) or text.lstrip().startswith(_FORMULA) else text
    return guarded.replace("\r", " ").replace("\n", " ")


def _same(first: Path, second: Path) -> bool:
    with suppress(OSError, ValueError):
        if os.path.samefile(first, second):
            return True
    return os.path.realpath(first) == os.path.realpath(second)


def _remove(folders: Iterable[Path]) -> None:
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()
