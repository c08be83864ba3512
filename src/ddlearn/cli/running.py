"""Turns functions into commands: with a terminal, the common options, and messages instead of tracebacks."""

from __future__ import annotations

import functools
import inspect
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, NoReturn

import typer

from .options import FLAG, make_option, read_options, show_all_help
from .source import SOURCE_OPTIONS, Source
from .terminal import Terminal, clean

INTERRUPTED = 130  # the exit code that shells use after Ctrl-C


def _share(
    *,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", metavar=FLAG, help="No progress, notes and summaries.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", metavar=FLAG, help="Print one JSON object.")] = False,
    debug: Annotated[
        bool, typer.Option("--debug", metavar=FLAG, hidden=True, help="Show the traceback of an error.")
    ] = False,
    help_all: Annotated[
        bool,
        typer.Option(
            "--help-all", metavar=FLAG, is_eager=True, callback=show_all_help, help="Show every option, in full."
        ),
    ] = False,
) -> None:
    """Declare the options of all commands."""


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Return a function for typer that calls a command with a terminal, its options expanded, and reports errors."""
    own = dict(inspect.signature(function, eval_str=True).parameters)
    del own["terminal"]

    @functools.wraps(function)
    def run(*, quiet: bool, as_json: bool, debug: bool, help_all: bool, **options: Any) -> None:
        terminal = Terminal(quiet=quiet, as_json=as_json)
        if "source" in own:
            read = {name: options.pop(name) for name in SOURCE_OPTIONS}
            options["source"] = None if read["data"] is None else Source(**read)
        if "settings" in own:
            options["settings"] = {name: options.pop(name) for name in read_options()}
        with warnings.catch_warnings(), _show_log(terminal):
            warnings.showwarning = lambda message, *_: terminal.note(f"Warning: {message}")
            warnings.filterwarnings("ignore", "X does not have valid feature names")  # commands compare names
            try:
                function(terminal, **options)
            except KeyboardInterrupt:
                terminal.fail("interrupted.")
                raise typer.Exit(INTERRUPTED) from None
            except (typer.Exit, BrokenPipeError):  # handled by typer
                raise
            except typer.BadParameter as error:
                error.message = clean(error.message, keep="\n")
                raise
            except Exception as error:
                if debug:
                    raise
                _fail(terminal, error)

    shared = inspect.signature(_share, eval_str=True).parameters.values()
    parameters = [*(option for one in own.values() for option in _expand(one)), *shared]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


@contextmanager
def _show_log(terminal: Terminal) -> Iterator[None]:
    """Show what the library logs, such as that it compiles, as notes."""
    logger, handler = logging.getLogger("ddlearn"), logging.Handler()
    handler.emit = lambda record: terminal.note(record.getMessage())  # type: ignore[method-assign]
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def _expand(parameter: inspect.Parameter) -> list[inspect.Parameter]:
    """Return the options for a parameter: `source` is DATA, optional with a default, `settings` is the model's."""
    if parameter.name == "source":
        data, *how = SOURCE_OPTIONS.values()
        return [data if parameter.default is inspect.Parameter.empty else data.replace(default=None), *how]
    if parameter.name == "settings":
        return [make_option(one) for one in read_options().values()]
    return [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)]


def _fail(terminal: Terminal, error: Exception) -> NoReturn:
    if isinstance(error, OSError) and error.filename:
        terminal.fail(f"{error.filename}: {error.strerror}.")
    elif isinstance(error, ValueError | OSError | ImportError):
        # The library names its parameters as Python writes them.
        terminal.fail(str(error).replace("set image_shape=(height, width)", "give --image-shape HxW"))
    elif isinstance(error, MemoryError):
        terminal.fail(f"out of memory ({error}): use fewer samples, features or atoms.")
    else:
        terminal.fail(
            f"{type(error).__name__}: {error}\nThis is a bug in ddlearn: please report the output of --debug."
        )
    raise typer.Exit(1)
