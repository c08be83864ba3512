"""The command ``ddlearn``: look, fit, predict, evaluate, explain, report, compare, info, demo."""

from __future__ import annotations

from typing import Annotated

try:
    import typer
    from rich import console  # noqa: F401  (needed by the files below)
except ModuleNotFoundError as error:  # this folder is only imported to run a command
    raise SystemExit(f'The command line needs {error.name}: pip install "ddlearn[cli]"') from error

from .commands import COMMANDS

__all__ = ["app", "main"]

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Discriminative dictionary learning: fit a classifier to images or tables, use it, and explain its decisions.",
)
for _command in COMMANDS:
    app.command(name=_command.__name__)(_command)


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.", is_eager=True)] = False,
) -> None:
    if version:
        import ddlearn

        typer.echo(f"ddlearn {ddlearn.__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line, for ``ddlearn`` and ``python -m ddlearn``."""
    app(prog_name="ddlearn")
