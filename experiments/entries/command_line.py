"""A function as a command, which ends in one line and the exit code 2 where it cannot do what it was asked."""

from __future__ import annotations

from collections.abc import Callable

import typer
from typer.core import TyperCommand

from likely.cli import accept_any_sign
from likely.cli.commands import OneLineErrors


class Command(OneLineErrors, TyperCommand):
    """A command by itself."""


def application(function: Callable[..., None]) -> typer.Typer:
    """The typer application that reads the arguments of a function from the command line."""
    app = typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.command(cls=Command)(function)
    return app


def main(function: Callable[..., None]) -> None:
    """Run a function with the arguments of the command line."""
    accept_any_sign()
    application(function)()
