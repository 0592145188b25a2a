"""The `likely` command: `audit`, `calibrate`, `predict` and `info`.

Everything heavy is imported by the command that needs it, so `likely --help` answers at once; and typer is imported
inside `build`, so that an install without the `cli` extra gets a sentence instead of a traceback. `likely info` and
`likely --version` work without it.
"""

import io
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

if TYPE_CHECKING:
    import typer

CLI_EXTRA = ("typer", "rich", "jinja2", "pandas")


def main() -> None:
    """The entry point of the console script."""
    accept_any_sign()
    missing = [name for name in CLI_EXTRA if find_spec(name) is None]
    if missing:
        if answer := _without_extra(sys.argv[1:]):
            print(answer)
            return
        sys.exit(f"The likely command needs {', '.join(missing)}: pip install 'likely[cli]'")
    build()()


def accept_any_sign() -> None:
    """Make standard output and error escape characters that the terminal's encoding lacks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def build() -> "typer.Typer":
    """The typer application."""
    import typer

    from likely.cli.commands import Commands

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
        """Show what a bug report needs: versions, hardware, kernels, libraries and settings."""
        from likely.cli.info import shown

        typer.echo(shown(as_json))

    from likely.cli import audit, calibrate

    for name, run, text, examples in (
        ("audit", audit.audit_command, audit.HELP, audit.EXAMPLES),
        ("calibrate", calibrate.calibrate_command, calibrate.HELP, calibrate.EXAMPLES),
        ("predict", calibrate.predict_command, calibrate.PREDICT_HELP, calibrate.PREDICT_EXAMPLES),
    ):
        app.command(name, help=text, epilog=examples)(run)
    return app


def _without_extra(words: list[str]) -> str | None:
    """What an install without the `cli` extra prints for these words; None where they need it."""
    if words == ["--version"]:
        import likely

        return f"likely {likely.__version__}"
    if words[:1] == ["info"] and set(words[1:]) <= {"--json"}:
        from likely.cli.info import shown

        return shown("--json" in words)
    return None
