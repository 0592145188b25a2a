"""NumPy's files, which may claim anything of themselves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from likely._files import reading


@contextmanager
def loading(path: Path) -> Iterator[None]:
    """Say in one line why an .npy or .npz file is not read, also where its header claims more than there can be.

    >>> with loading(Path("big.npy")):
    ...     raise MemoryError("Unable to allocate 21.8 TiB")
    Traceback (most recent call last):
    ...
    ValueError: big.npy is not read: its header claims more than memory holds (Unable to allocate 21.8 TiB)
    """
    if path.exists() and not path.is_file():  # a pipe would be waited for
        raise FileNotFoundError(f"{path} is not a file")
    with reading(path):
        try:
            yield
        except MemoryError as error:
            raise ValueError(f"its header claims more than memory holds ({error})") from None
        except (ValueError, OverflowError) as error:
            if "mmap length" in str(error) or isinstance(error, OverflowError):
                raise ValueError("its header claims more than the file holds") from None
            raise
