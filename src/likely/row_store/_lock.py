"""Locks of a table's files: one process may train in them, or any number may read them."""

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PATIENCE = 0.5  # seconds to wait for a process that reads a table into memory, or saves one
# Errors of file systems without locks; readers continue without a lock.
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL)


def open_locked(path: Path, flags: int, *, exclusive: bool) -> int:
    """Return a locked descriptor of the file that now has this name; raise an error if it is in use."""
    while True:
        descriptor = os.open(path, flags, 0o666)
        try:
            _lock(descriptor, path, exclusive=exclusive)
            if is_at(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # another file has replaced it meanwhile


def is_at(descriptor: int, path: Path) -> bool:
    """Whether an open file is still the one of this name."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


@contextmanager
def kept_from_training(path: Path) -> Iterator[None]:
    """Prevent training in the table ``path``, if there is one, while another replaces it."""
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
    """Close the file; a forked process, which shares the lock of its parent, does not release it."""
    import fcntl  # not available on Windows

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
                message = "the table is in use, by another process or by a RowStore not closed"
                raise OSError(errno.EBUSY, message, str(path)) from None
            time.sleep(0.02)
        except OSError as error:
            if not exclusive and error.errno in _NO_LOCKS:
                return
            raise OSError(error.errno, f"the file cannot be locked: {error.strerror}", str(path)) from error
