"""The JSON of files of unknown origin: its text, the version that wrote it, and fields that are checked before use."""

import json
import sys
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from likely._files import loading
from likely._saving.codec import shown

FORMAT = 1
_MOST = 10**7  # classes, features or rows; a file that claims more would fill the memory
_DIGITS = 1000  # maximum length of a whole number; Python's error for more is harder to read
_EXPLAINED = (ValueError, MemoryError, OSError, EOFError, ImportError, zipfile.BadZipFile, zlib.error)


def new_header() -> dict[str, Any]:
    """Return the first fields of a file."""
    # The package is on a higher floor but always loaded by now.
    return {"format": FORMAT, "likely": str(sys.modules["likely"].__version__)}


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Raise an error that names the file, and says why the model in it is not read."""
    with loading(path):
        try:
            yield
        except _EXPLAINED:
            raise
        except RecursionError:
            raise ValueError("it is not a model of likely: it is nested too deeply") from None
        except Exception as error:
            raise ValueError(f"it is damaged ({type(error).__name__}: {error})") from error


def parsed(text: str) -> dict[str, Any]:
    """Return the JSON of a file, an object of a format that is known."""
    if not text.strip():
        raise ValueError("it is empty")
    try:
        header = json.loads(text, parse_constant=_refused, object_pairs_hook=_unique, parse_int=_whole_number)
    except json.JSONDecodeError as error:
        cut = "" if text.rstrip().endswith("}") else "; it does not end with }: was the file cut short?"
        raise ValueError(f"it is not JSON: {error.msg} at line {error.lineno}, column {error.colno}{cut}") from None
    if not isinstance(header, dict):
        raise ValueError("it is not a model of likely: it is not an object")
    version = new_header()
    for field in version:
        if field not in header:
            raise ValueError(f"it is not a model of likely: it has no {field!r}")
    if whole(header, "format", 1) > FORMAT:
        raise ValueError(
            f"it has format {header['format']}, written by likely {str(header['likely'])[:20]}; this is likely "
            f"{version['likely']}, which reads format {FORMAT}: install a later one"
        )
    return header


def whole(header: dict[str, Any], field: str, least: int = 0) -> int:
    """Return a field that holds a whole number from ``least`` to 10⁷."""
    value = header.get(field)
    if type(value) is not int or not least <= value <= _MOST:
        raise ValueError(f"{field!r} must be a whole number from {least} to {_MOST}, found {shown(value)}")
    return value


def _refused(constant: str) -> NoReturn:
    raise ValueError(f"it holds {constant}, which is no number of JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise ValueError(f"it has the field {max(names, key=names.count)!r} twice in one object")
    return dict(pairs)


def _whole_number(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise ValueError(f"it holds a whole number of {len(digits.lstrip('-'))} digits")
    return int(digits)
