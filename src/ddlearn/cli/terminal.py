"""The terminal: results on stdout; progress, notes and errors on stderr.

Names of files, classes and arrays come from strangers.  They may hold sequences that move the cursor, rename the window
or turn text around, so all that is printed goes through :func:`clean`.
"""

from __future__ import annotations

import difflib
import json
import math
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import typer
from rich import markup
from rich.console import Console

SECONDS_TO_WAIT = 2  # before a progress bar appears
_WIDTH_OF_PIPES = 120  # of tables, if there is no terminal
# Control characters, those that turn the direction of text, and bytes of file names that are not UTF-8.
_UNPRINTABLE = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ud800-\\udfff]")


def clean(text: Any, *, keep: str = "") -> str:
    r"""Return a value as text in which characters that a terminal would obey are visible, as in ``\x1b``."""
    return _UNPRINTABLE.sub(lambda found: found[0] if found[0] in keep else repr(found[0])[1:-1], str(text))


def escape(text: Any) -> str:
    """Return a value as one line of text without markup, for messages and for the cells of tables."""
    return markup.escape(clean(text))


class _CleanConsole(Console):
    """A console that cleans whatever it prints, the parts of tables and progress bars included."""

    def render(self, renderable: Any, options: Any = None) -> Iterable[Any]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=clean(segment.text, keep="\n"))


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
            self.err.print(markup.escape(text))

    def fail(self, text: str) -> None:
        """Print an error on stderr."""
        self.err.print(f"[bold red]Error:[/] {markup.escape(text)}", soft_wrap=True)

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
    console = _CleanConsole(stderr=to_stderr, highlight=False, emoji=False)  # ":train:" in a name is not an emoji
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


def suggest(wanted: str, known: Iterable[str]) -> str:
    """Return the end of a message: the known name that is closest."""
    near = difflib.get_close_matches(wanted, list(known), 1)
    return f"; did you mean {near[0]!r}?" if near else "."
