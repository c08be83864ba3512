"""The terminal: results on stdout; progress, notes and errors on stderr."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape

SECONDS_TO_WAIT = 2  # before a progress bar appears
_WIDTH_OF_PIPES = 120  # of tables, if there is no terminal


class Terminal:
    """The output of a command; --quiet and --json are only handled here."""

    def __init__(self, *, quiet: bool = False, as_json: bool = False):
        self.is_quiet = quiet
        self.is_json = as_json
        self.out = make_console(to_stderr=False)
        self.err = make_console(to_stderr=True)
        self.has_progress = self.err.is_terminal and not quiet

    def show(self, *things: Any) -> None:
        """Print a result, unless --json."""
        if not self.is_json:
            self.out.print(*things, sep="\n")

    def report(self, *things: Any) -> None:
        """Print a summary, unless --quiet or --json."""
        if not self.is_quiet:
            self.show(*things)

    def note(self, text: str) -> None:
        """Print a note on stderr, unless --quiet."""
        if not self.is_quiet:
            self.err.print(escape(text))

    def fail(self, text: str) -> None:
        """Print an error on stderr."""
        self.err.print(f"[bold red]Error:[/] {escape(text)}", soft_wrap=True)

    def answer(self, facts: dict[str, Any]) -> None:
        """Print the JSON object of --json."""
        if self.is_json:
            typer.echo(json.dumps(_to_json(facts), allow_nan=False))

    @contextmanager
    def progress(self, *columns: str) -> Iterator[Any]:
        """Yield a rich Progress on stderr that appears after two seconds."""
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        begin = perf_counter()

        class PatientProgress(Progress):
            def get_renderables(self) -> Iterable[Any]:
                return super().get_renderables() if perf_counter() - begin >= SECONDS_TO_WAIT else ()

        with PatientProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            *(TextColumn(column) for column in columns),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=self.err,
            disable=not self.has_progress,
            transient=True,
            speed_estimate_period=3600,  # iterations may take minutes
        ) as bar:
            yield bar


def make_console(*, to_stderr: bool) -> Console:
    """Return a console, with a fixed width if it is not a terminal."""
    console = Console(stderr=to_stderr, highlight=False, emoji=False)  # ":train:" in a name is not an emoji
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _WIDTH_OF_PIPES
    return console


def _to_json(value: Any) -> Any:
    """Convert NumPy's types to Python's, and NaN and infinity to null."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): _to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_to_json(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value
