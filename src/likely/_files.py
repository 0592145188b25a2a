"""Files that are whole or not there."""

import os
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
