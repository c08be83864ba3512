"""The parameters of DDLClassifier as options, read from its source so that they cannot differ from it."""

from __future__ import annotations

import ast
import functools
import inspect
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import typer
from rich.markup import escape

# Other names, as short as people type them.
ALIASES = {"random_state": "seed", "n_jobs": "jobs"}
# A program is alone on its machine more often than a library is.
OWN_DEFAULTS = {"n_jobs": -1}
# There is no earlier fit to go on from (see --resume), no command that learns batch after batch or gives out codes.
NO_OPTIONS = frozenset({"warm_start", "forgetting", "sparse_output"})


class Parameter(NamedTuple):
    """A parameter of DDLClassifier, as its source tells it."""

    name: str
    kind: str
    default: Any
    description: str
    choices: tuple[str, ...]  # all texts that it may be, or none if the docstring does not list them
    words: tuple[str, ...]  # texts that it may be in place of a number


@functools.cache
def read_parameters() -> dict[str, Parameter]:
    """Read the constructor of DDLClassifier from its source: to import it would take seconds."""
    tree = ast.parse((Path(__file__).parents[1] / "estimators" / "classifier.py").read_text(encoding="utf-8"))
    class_ = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "DDLClassifier")
    constructor = next(node for node in class_.body if isinstance(node, ast.FunctionDef) and node.name == "__init__")
    described = _read_descriptions(ast.get_docstring(class_) or "")
    arguments = [*constructor.args.args[1:], *constructor.args.kwonlyargs]
    defaults = [*constructor.args.defaults, *constructor.args.kw_defaults]
    return {
        argument.arg: Parameter(
            argument.arg,
            ast.unparse(argument.annotation).split(" | ")[0] if argument.annotation else "Any",
            OWN_DEFAULTS.get(argument.arg, ast.literal_eval(default) if default else None),
            *described[argument.arg],
        )
        for argument, default in zip(arguments, defaults, strict=True)
        if argument.arg not in NO_OPTIONS
    }


def _read_descriptions(docstring: str) -> dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]]:
    """Return what a numpydoc docstring says of each parameter, in one line of plain text, and its choices."""
    section = re.split(r"\n\n?(?:Parameters|Attributes)\n-+\n", docstring)[1]
    entries = re.findall(r"^(\w+) : (.*)\n((?:[ \t]+.*\n?|\n)+)", section + "\n", re.MULTILINE)
    return {name: (_to_plain_text(text), _list_choices(type_), _list_words(type_)) for name, type_, text in entries}


def _list_choices(type_: str) -> tuple[str, ...]:
    """Return the texts that a numpydoc type such as '{"omp", "ormp"} or SparseCoder' lists."""
    choices = re.match(r"\{(.*?)\}", type_)
    return ast.literal_eval(f"({choices[1]},)") if choices else ()


def _list_words(type_: str) -> tuple[str, ...]:
    """Return the texts that a numpydoc type such as 'float or "auto", default=1.0' allows beside numbers."""
    kind = type_.split(", default=")[0]
    return tuple(re.findall(r'"(\w+)"', kind)) if re.match("int|float", kind) else ()


def _to_plain_text(text: str) -> str:
    text = re.sub(r":\w+:`~?([^`]*)`|``([^`]*)``", lambda match: match[1] or match[2], text)
    text = re.sub(r",\s+or\s+an\s+object", "", text)  # which a command line cannot give
    return " ".join(textwrap.dedent(text).split())


def make_option(parameter: Parameter) -> inspect.Parameter:
    """Return a parameter for typer; None means that the option was not given."""
    flag = parameter.name.replace("_", "-")
    names = [f"--{flag}"]
    if parameter.name in ALIASES:
        names.insert(0, f"--{ALIASES[parameter.name]}")
    types: dict[str, Any] = {"int": int, "bool": bool}
    parsers: dict[str, Callable[[str], Any]] = {"float": parse_number, "tuple[int, int]": parse_size}
    metavars = {"float": "NUMBER", "tuple[int, int]": "HxW"}
    if parameter.words:
        types = {}
        parsers[parameter.kind] = functools.partial(parse_number_or_word, parameter.words)
        metavars[parameter.kind] = "|".join(["NUMBER", *parameter.words])
    if parameter.kind == "bool":
        names = [f"--{flag}/--no-{flag}"]
    option = typer.Option(
        *names,
        parser=parsers.get(parameter.kind),
        metavar=metavars.get(parameter.kind),
        help=escape(parameter.description),
        show_default=False if parameter.default is None else str(parameter.default),
        rich_help_panel="Model (the parameters of DDLClassifier)",
    )
    type_: Any = Literal.__getitem__(parameter.choices) if parameter.choices else types.get(parameter.kind, str)
    return inspect.Parameter(
        parameter.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[type_ | None, option]
    )


def offer(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    """Return a parameter for typer that is no parameter of the model."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def parse_number(text: str) -> int | float:
    """Return an integer where there is one: to error_budget, 1 and 1.0 are different."""
    try:
        return int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a number.") from None


def parse_number_or_word(words: tuple[str, ...], text: str) -> int | float | str:
    """Return a word that is known, or a number."""
    if text in words:
        return text
    try:
        return parse_number(text)
    except typer.BadParameter:
        raise typer.BadParameter(f"{text!r} is neither a number nor {' or '.join(words)}.") from None


def parse_size(text: str) -> tuple[int, int]:
    """Return a height and a width."""
    match = re.fullmatch(r"([1-9]\d{0,4})x([1-9]\d{0,4})", text)
    if match is None:
        raise typer.BadParameter(f"{text!r} is not a height and a width in pixels, such as 32x24.")
    return int(match[1]), int(match[2])
