"""The terminal: results on stdout; progress, notes and errors on stderr."""

from __future__ import annotations

import json
import logging
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
_WIDTH_OF_PIPES = 120  # of tables, where there is no terminal that has a width


class Terminal:
    """Where a command shows things; only here is decided what --quiet and --json leave out."""

    def __init__(self, *, quiet: bool = False, as_json: bool = False):
        self.is_quiet = quiet
        self.is_json = as_json
        self.out = make_console(to_stderr=False)
        self.err = make_console(to_stderr=True)
        self.has_progress = self.err.is_terminal and not quiet

    def show(self, *things: Any) -> None:
        """Show what was asked for."""
        if not self.is_json:
            self.out.print(*things, sep="\n")

    def report(self, *things: Any) -> None:
        """Show what was done, which --quiet leaves out."""
        if not self.is_quiet:
            self.show(*things)

    def note(self, text: str) -> None:
        """Tell of something on the side."""
        if not self.is_quiet:
            self.err.print(escape(text))

    def fail(self, text: str) -> None:
        """Tell what went wrong."""
        self.err.print(f"[bold red]Error:[/] {escape(text)}", soft_wrap=True)

    def answer(self, facts: dict[str, Any]) -> None:
        """Give the one JSON object of --json."""
        if self.is_json:
            typer.echo(json.dumps(_to_json(facts), allow_nan=False))

    @contextmanager
    def show_log(self, name: str) -> Iterator[None]:
        """Show what a logger tells as notes."""
        logger, handler = logging.getLogger(name), logging.Handler()
        handler.emit = lambda record: self.note(record.getMessage())  # type: ignore[method-assign]
        level = logger.level
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        try:
            yield
        finally:
            logger.removeHandler(handler)
            logger.setLevel(level)

    @contextmanager
    def progress(self, *columns: str) -> Iterator[Any]:
        """Yield a rich Progress on stderr that appears when two seconds have passed."""
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
    """Return where text is shown; what is no terminal gets a width all the same."""
    console = Console(stderr=to_stderr, highlight=False, emoji=False)  # in usps:train: there is no tram
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _WIDTH_OF_PIPES
    return console


def _to_json(value: Any) -> Any:
    """Return what JSON can hold: NumPy's types as Python's, NaN and infinity as null."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): _to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_to_json(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value
