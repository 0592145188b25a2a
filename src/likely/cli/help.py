"""How the help of a command shows its options."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand


class PlainFlags:
    """Mixin of commands whose flags are shown without a type: ``--json <bool>`` reads as if it took a value."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters of the command, its help option included."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False):
                param.metavar = ""
        return params


class PlainCommand(PlainFlags, TyperCommand):
    """A single command."""
