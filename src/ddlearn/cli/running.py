"""How every command runs: with a terminal, the options that all have, and messages instead of tracebacks."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Annotated, Any, NoReturn

import typer

from .options import make_option, offer, read_parameters
from .source import SOURCE_OPTIONS, Source
from .terminal import Terminal

INTERRUPTED = 130  # what shells report for a command ended by Ctrl-C

# Options that all commands have, by the name of the parameter.
_SHARED_OPTIONS = [
    offer("quiet", Annotated[bool, typer.Option("--quiet", "-q", help="No progress, notes and summaries.")], False),
    offer("as_json", Annotated[bool, typer.Option("--json", help="Print one JSON object.")], False),
    offer("debug", Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")], False),
]


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Return a function as typer takes it, which gives it a terminal and tells what goes wrong.

    A parameter `source` becomes DATA and the options that say how it is read; `settings`, those of the model.  A source
    that may be None is a DATA that need not be given.
    """
    own = {
        name: one for name, one in inspect.signature(function, eval_str=True).parameters.items() if name != "terminal"
    }

    @functools.wraps(function)
    def run(*, quiet: bool, as_json: bool, debug: bool, **options: Any) -> None:
        terminal = Terminal(quiet=quiet, as_json=as_json)
        if "source" in own:
            read = {name: options.pop(name) for name in SOURCE_OPTIONS}
            options["source"] = None if read["data"] is None else Source(**read)
        if "settings" in own:
            options["settings"] = {name: options.pop(name) for name in read_parameters()}
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_: terminal.note(f"Warning: {message}")
            # Names are compared before, where the data have some.
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            try:
                function(terminal, **options)
            except KeyboardInterrupt:
                terminal.fail("interrupted.")
                raise typer.Exit(INTERRUPTED) from None
            except Exception as error:
                if debug or _is_for_typer(error):
                    raise
                _fail(terminal, error)

    parameters = [option for one in own.values() for option in _expand(one)] + _SHARED_OPTIONS
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


def _expand(parameter: inspect.Parameter) -> list[inspect.Parameter]:
    """Return the options that a parameter of a command stands for."""
    if parameter.name == "source":
        data, *how = SOURCE_OPTIONS.values()
        return [data if parameter.default is inspect.Parameter.empty else data.replace(default=None), *how]
    if parameter.name == "settings":
        return [make_option(one) for one in read_parameters().values()]
    return [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)]


def _is_for_typer(error: Exception) -> bool:
    """Whether it asks for an exit or tells of wrong usage, or nobody reads our output any more."""
    return isinstance(error, typer.Exit | typer.BadParameter | BrokenPipeError)


def _fail(terminal: Terminal, error: Exception) -> NoReturn:
    if isinstance(error, OSError) and error.filename:
        terminal.fail(f"{error.filename}: {error.strerror}.")
    elif isinstance(error, ValueError | OSError | ImportError):
        terminal.fail(str(error))
    elif isinstance(error, MemoryError):
        terminal.fail(f"there is not enough memory ({error}): give fewer samples, features or atoms.")
    else:
        terminal.fail(
            f"{type(error).__name__}: {error}\nThis is a mistake in ddlearn: please report what --debug shows."
        )
    raise typer.Exit(1)
