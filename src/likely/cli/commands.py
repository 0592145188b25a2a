"""What commands share: how they declare options, print, show progress, and report errors in one line."""

import errno
import os
import sys
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import typer
from typer.core import TyperGroup

_JOINERS = {"\u200c", "\u200d"}  # invisible, and part of how some languages and emoji are written
TRACEBACK = "LIKELY_TRACEBACK"  # the environment variable that turns tracebacks on
# Errors of usage, which typer prints: click's or, in later versions, those of typer's copy of click.
_USAGE: type[Exception] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


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


class OneLineErrors:
    """Mixin of commands and groups of commands that report every error in one line."""

    def make_context(self, *args: Any, **options: Any) -> Any:
        """Parse the command line; ``--help`` and ``--version`` print here."""
        with _in_one_line():
            return super().make_context(*args, **options)  # type: ignore[misc]

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with _in_one_line():
            result = super().invoke(ctx)  # type: ignore[misc]
            sys.stdout.flush()  # an error here can still be reported; at the end of the process it cannot
            return result


@contextmanager
def _in_one_line() -> Iterator[None]:
    """Turn an error into one line on standard error and the exit code 2."""
    try:
        yield
    except (_USAGE, typer.Exit, typer.Abort):
        raise
    except (Exception, SystemExit) as error:
        # rich turns a broken pipe into exit code 1
        cause = error.__context__ if isinstance(error, SystemExit) else error
        if not isinstance(cause, Exception) or os.environ.get(TRACEBACK):
            raise
        if isinstance(cause, OSError) and cause.filename is None and cause.errno in (errno.EPIPE, errno.ENOSPC):
            _abandon_output()
        with suppress(OSError, ValueError):
            typer.echo(f"likely: {error_line(cause)}", err=True)
        raise typer.Exit(2) from None


def error_line(error: BaseException) -> str:
    r"""An error message in one line, safe to print.

    >>> error_line(OSError(28, "No space left on device", "out/scores.csv"))
    'out/scores.csv: No space left on device'
    >>> error_line(ValueError("two\nlines"))
    'two lines'
    """
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        where = "standard output" if error.filename is None else error.filename
        text = f"{where if isinstance(where, int) else os.fspath(where)}: {error.strerror}"
    elif isinstance(error, MemoryError):
        text = f"there is not enough memory for this {text}"
    elif not isinstance(error, ValueError | OSError | ImportError):
        text = f"a bug in likely, {type(error).__name__}: {text}; please report it with {TRACEBACK}=1 set"
    return safe(" ".join(text.split()) or type(error).__name__)


def _abandon_output() -> None:
    """Discard buffered output, which would otherwise raise the error again when the process ends."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def option(text: str, metavar: str, panel: str | None = None, **more: Any) -> Any:
    """An option with a value, which the help shows as ``metavar`` in a panel of its own."""
    return typer.Option(help=text, metavar=metavar, rich_help_panel=panel, **more)


def seed_option(panel: str) -> Any:
    """The option of every command that draws random numbers."""
    return option("Random seed.", "NUMBER", panel, min=0, max=2**32 - 1)


class Commands(OneLineErrors, TyperGroup):
    """The group of all commands."""
