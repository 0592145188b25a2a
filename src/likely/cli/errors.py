"""How commands report errors: in one line, with exit code 2, without a traceback."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import typer

from likely.cli.terminal import safe

TRACEBACK = "LIKELY_TRACEBACK"  # the environment variable that turns tracebacks on
# Errors of usage, which typer prints: click's or, in later versions, those of typer's copy of click.
_USAGE: type[Exception] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


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
    except SystemExit as ended:
        if not isinstance(ended.__context__, BrokenPipeError):  # which rich turns into exit code 1
            raise
        _print(ended.__context__)
        raise typer.Exit(2) from None
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        if isinstance(error, OSError) and error.filename is None and error.errno in (errno.EPIPE, errno.ENOSPC):
            _abandon_output()
        _print(error)
        raise typer.Exit(2) from None


def _print(error: BaseException) -> None:
    with suppress(OSError, ValueError):
        typer.echo(f"likely: {error_line(error)}", err=True)


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
    elif isinstance(error, RecursionError):
        text = "something in the input is nested too deeply"
    elif not isinstance(error, ValueError | OSError | ImportError):
        text = f"a bug in likely, {type(error).__name__}: {text}; please report it with {TRACEBACK}=1 set"
    return safe(" ".join(text.split()) or type(error).__name__)


def _abandon_output() -> None:
    """Discard buffered output, which would otherwise raise the error again when the process ends."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
