"""Terminal output of commands: a progress bar, and text without control characters."""

from __future__ import annotations

import io
import sys
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_JOINERS = {"\u200c", "\u200d"}  # invisible, and part of how some languages and emoji are written


def accept_any_sign() -> None:
    """Make standard output and error escape characters that the terminal's encoding lacks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


@contextmanager
def progress() -> Iterator[Callable[[str, float], None]]:
    """A function of the current step and the share done that updates a bar; silent if there is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True, highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        bar = bars.add_task("reading", total=1.0)
        yield lambda what, share: bars.update(bar, description=what, completed=share)


def safe(text: str) -> str:
    r"""One line in which control characters, which a terminal would act on, are escaped as in Python.

    >>> safe("price\x1b[31m\n"), safe("größe in €"), safe("abc\u202ecba")
    ('price\\x1b[31m\\n', 'größe in €', 'abc\\u202ecba')
    """
    return "".join(sign if _is_text(sign) else sign.encode("unicode_escape").decode("ascii") for sign in text)


def _is_text(sign: str) -> bool:
    return sign.isprintable() or sign in _JOINERS or unicodedata.category(sign) == "Zs"
