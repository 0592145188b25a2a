"""Who may have a table's files open: one that trains in them, or any number that only read."""

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PATIENCE = 0.5  # seconds to wait for others who only read a table into memory, or save one
# What file systems answer that have no locks; those who only read go on without.
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL)


def open_locked(path: Path, flags: int, *, exclusive: bool) -> int:
    """The descriptor of the file that has this name now, locked until it is released; refused if it is in use."""
    while True:
        descriptor = os.open(path, flags, 0o666)
        try:
            _lock(descriptor, path, exclusive=exclusive)
            if is_at(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # another file took its place meanwhile


def is_at(descriptor: int, path: Path) -> bool:
    """Whether an open file still is the one of this name."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Keep anybody from training in the table ``path``, if there is one, while another takes its place."""
    try:
        descriptor = open_locked(path, os.O_RDONLY, exclusive=False)
    except FileNotFoundError:
        yield
        return
    try:
        yield
    finally:
        release(descriptor, os.getpid())


def release(descriptor: int, owner: int) -> None:
    """Close the file; a forked process, which has the lock of its parent, leaves it as it is."""
    import fcntl  # which Windows has not

    if os.getpid() == owner:  # even if forked processes still have the file open
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _lock(descriptor: int, path: Path, *, exclusive: bool) -> None:
    import fcntl

    until = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_NB | (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH))
            return
        except BlockingIOError:
            if time.monotonic() > until:
                said = "the table is in use, by another process or by a RowStore not closed"
                raise OSError(errno.EBUSY, said, str(path)) from None
            time.sleep(0.02)
        except OSError as error:
            if not exclusive and error.errno in _NO_LOCKS:
                return
            raise OSError(error.errno, f"the file cannot be locked: {error.strerror}", str(path)) from error
