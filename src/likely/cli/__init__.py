"""The `likely` command: `audit`, `calibrate`, `predict` and `info`.

Everything heavy is imported by the command that needs it, so `likely --help` answers at once; and typer is imported
inside `build`, so that an install without the `cli` extra gets a sentence instead of a traceback.
"""

import json
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

if TYPE_CHECKING:
    import typer

Described = Mapping[str, Mapping[str, object]]
CLI_EXTRA = ("typer", "rich", "jinja2", "pandas", "matplotlib")


def main() -> None:
    """The entry point of the console script."""
    missing = [name for name in CLI_EXTRA if find_spec(name) is None]
    if missing:
        sys.exit(f"The likely command needs {', '.join(missing)}: pip install 'likely[cli]'")
    from likely.cli.terminal import accept_any_sign

    accept_any_sign()
    build()()


def build() -> "typer.Typer":
    """The typer application."""
    import typer

    from likely.cli.refusing import Commands

    app = typer.Typer(
        cls=Commands,
        help="Find wrong rows and labels in tables, and calibrate the probabilities or intervals that models predict.",
        epilog="Each command has its own help, with examples: likely audit --help",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    def version(asked: bool) -> None:
        if asked:
            import likely

            typer.echo(f"likely {likely.__version__}")
            raise typer.Exit

    @app.callback()
    def likely_command(
        show: Annotated[
            bool, typer.Option("--version", help="Print the version and exit.", callback=version, is_eager=True)
        ] = False,
    ) -> None:
        pass

    @app.command()
    def info(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
        """Show versions, hardware and the extras that are installed."""
        from likely._machine import extras, machine, versions

        about: Described = {"versions": versions(), "machine": machine(), "extras": extras()}
        typer.echo(json.dumps(about, indent=1, ensure_ascii=False) if as_json else readable(about))

    from likely.cli import audit, calibrate

    app.command("audit", help=audit.HELP, epilog=audit.EXAMPLES)(audit.audit_command)
    app.command("calibrate", help=calibrate.HELP, epilog=calibrate.EXAMPLES)(calibrate.calibrate_command)
    app.command("predict", help=calibrate.PREDICT_HELP, epilog=calibrate.PREDICT_EXAMPLES)(calibrate.predict_command)
    return app


def readable(about: Described) -> str:
    """What `likely info` shows people."""
    words = {"True": "installed", "False": "not installed"}
    lines = []
    for heading, values in about.items():
        lines.append(heading)
        lines += [f"  {name:<14}{words.get(str(value), value)}" for name, value in values.items()]
    return "\n".join(lines)
