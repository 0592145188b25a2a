"""How commands declare their options, and how their help shows them."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from likely.cli.errors import OneLineErrors


def option(text: str, metavar: str, panel: str | None = None, **more: Any) -> Any:
    """An option with a value, which the help shows as ``metavar`` in a panel of its own."""
    return typer.Option(help=text, metavar=metavar, rich_help_panel=panel, **more)


def seed_option(panel: str) -> Any:
    """The option of every command that draws random numbers."""
    return option("Random seed.", "NUMBER", panel, min=0, max=2**32 - 1)


class _PlainFlags:
    """Mixin of commands whose flags are shown without a type: ``--json <bool>`` reads as if it took a value."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters of the command, its help option included."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False):
                param.metavar = ""
        return params


class PlainCommand(_PlainFlags, TyperCommand):
    """A single command."""


class Commands(OneLineErrors, _PlainFlags, TyperGroup):
    """The group of all commands."""
