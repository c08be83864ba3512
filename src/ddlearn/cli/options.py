"""The settings of the model: the parameters of DDLClassifier as options, a configuration file, and ``--set``.

The parameters are read from the source text of the constructor and its docstring: options cannot differ from them, and
``--help`` need not import Numba, which takes seconds.
"""

from __future__ import annotations

import ast
import functools
import inspect
import json
import re
import textwrap
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.markup import escape

from .terminal import suggest

ALIASES = {"random_state": "seed", "n_jobs": "jobs", "refine": "epochs"}  # shorter names
# A program usually has the machine to itself, and whoever repeats a command expects the same result.
OWN_DEFAULTS = {"n_jobs": -1, "random_state": 0}
# What --help shows of the options of the model; --help-all shows all of them, as the docstring describes them.
_BASIC = {
    "n_components": "Number of atoms; by default half the labelled samples, at most 500.",
    "description": "What is coded of a sample: it divided by its norm, standardised features, or gradients.",
    "class_weight": "Give all classes the same weight.",
    "refine": "Epochs of refinement; by default 10.",
    "unlabeled": "The label of samples without one.",
    "n_jobs": "Number of threads; -1 is all cores.",
    "random_state": "Seed of random numbers.",
}
NO_OPTIONS = frozenset({"warm_start", "verbose"})  # without a meaning on the command line

FLAG = " "  # in place of the type of an option that has no value
NESTED = "__"  # separates the names of nested parameters in scikit-learn's set_params
_SIZE = "tuple[int, int]"
_KINDS = {"int", "float", "bool", "str", "Any", _SIZE}  # types of an annotation that an option can have


class Parameter(NamedTuple):
    """A parameter of DDLClassifier."""

    name: str
    kinds: tuple[str, ...]  # the types of its annotation that an option can have
    default: Any
    description: str
    words: tuple[str, ...]  # the texts in the docstring's type, and "none" to override another default

    @property
    def is_number(self) -> bool:
        """Whether numbers are values."""
        return not {"int", "float"}.isdisjoint(self.kinds)

    def parse(self, text: str) -> Any:
        """Return the value that a text stands for, on the command line and in a configuration file."""
        if text in self.words:
            return text
        if "bool" in self.kinds:
            return parse_word(("True", "False"), text) == "True"
        if _SIZE in self.kinds:
            return parse_size(text)
        if self.is_number:
            number = parse_number(text, self.words)
            if isinstance(number, float) and "float" not in self.kinds:
                raise typer.BadParameter(f"{text!r} is not an integer.")
            return number
        return parse_word(self.words, text) if self.words else text


@functools.cache
def read_parameters() -> dict[str, Parameter]:
    """Read the parameters of DDLClassifier."""
    path = Path(__file__).parents[1] / "estimators" / "classifier.py"
    return parse_parameters(path.read_text(encoding="utf-8"))


def parse_parameters(source: str) -> dict[str, Parameter]:
    """Return the parameters of the class DDLClassifier in a source text."""
    tree = ast.parse(source)
    class_ = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "DDLClassifier")
    constructor = next(node for node in class_.body if isinstance(node, ast.FunctionDef) and node.name == "__init__")
    section = re.split(r"\n\n?(?:Parameters|Attributes)\n-+\n", ast.get_docstring(class_) or "")[1]
    entries = re.findall(r"^(\w+) : (.*)\n((?:[ \t]+.*\n?|\n)+)", section + "\n", re.MULTILINE)
    described = {name: (type_.split(", default=")[0], text) for name, type_, text in entries}
    arguments = [*constructor.args.args[1:], *constructor.args.kwonlyargs]
    defaults = [*constructor.args.defaults, *constructor.args.kw_defaults]
    parameters = {}
    for argument, node in zip(arguments, defaults, strict=True):
        types = ast.unparse(argument.annotation).split(" | ") if argument.annotation else ["Any"]
        kinds = tuple(type_ for type_ in types if type_ in _KINDS)
        default = ast.literal_eval(node) if node else None
        type_, text = described[argument.arg]
        words = tuple(re.findall(r'"(\w+)"', type_))
        if "None" in types and default is not None:
            words = (*words, "none")
        default = OWN_DEFAULTS.get(argument.arg, default)
        parameters[argument.arg] = Parameter(argument.arg, kinds, default, _to_plain_text(text), words)
    return parameters


def read_options() -> dict[str, Parameter]:
    """Return the parameters that are options; those that can only be objects are left to ``--set``."""
    return {name: one for name, one in read_parameters().items() if one.kinds and name not in NO_OPTIONS}


def _to_plain_text(text: str) -> str:
    text = re.sub(r":\w+:`~?([^`]*)`|``([^`]*)``", lambda match: match[1] or match[2], text)
    text = re.sub(r",\s+or\s+an\s+object", "", text)  # impossible on a command line
    return " ".join(textwrap.dedent(text).split())


def make_option(parameter: Parameter) -> inspect.Parameter:
    """Return a parameter for typer; None means that the option was not given."""
    flag, is_switch = parameter.name.replace("_", "-"), "bool" in parameter.kinds
    names = [f"--{flag}/--no-{flag}" if is_switch else f"--{flag}"]
    if parameter.name in ALIASES:
        names.insert(0, f"--{ALIASES[parameter.name]}")
    kinds = ["HxW"] * (_SIZE in parameter.kinds) or ["NUMBER"] * parameter.is_number
    option = typer.Option(
        *names,
        parser=None if is_switch else parameter.parse,
        metavar="|".join([*kinds, *parameter.words]) or "TEXT",
        help=_BASIC.get(parameter.name) or escape(parameter.description),
        show_default=False if parameter.default is None else str(parameter.default),
        rich_help_panel="Model (the parameters of DDLClassifier)",
        hidden=parameter.name not in _BASIC,
    )
    type_ = bool if is_switch else Any
    return inspect.Parameter(
        parameter.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[type_ | None, option]
    )


def show_all_help(context: typer.Context, is_wanted: bool) -> None:
    """Print the help with every option, in full, and exit."""
    if not is_wanted:
        return
    parameters = read_options()
    for option in context.command.params:
        option.hidden = False  # type: ignore[attr-defined]
        if option.name in parameters:
            option.help = escape(parameters[option.name].description)  # type: ignore[attr-defined]
    typer.echo(context.get_help())
    raise typer.Exit


def parse_number(text: str, words: Iterable[str] = ()) -> int | float:
    """Return an integer if possible: a robustness of 1 and of 1.0 are different; `words` are for the message."""
    try:
        return int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)
    except ValueError:
        raise typer.BadParameter(" or ".join([f"{text!r} is not a number", *words]) + ".") from None


def parse_word(words: tuple[str, ...], text: str) -> str:
    """Return one of the words."""
    if text not in words:
        raise typer.BadParameter(f"{text!r} is not one of {', '.join(words)}{suggest(text, words)}")
    return text


def parse_size(text: str) -> tuple[int, int]:
    """Return a height and a width."""
    match = re.fullmatch(r"([1-9]\d{0,4})x([1-9]\d{0,4})", text)
    if match is None:
        raise typer.BadParameter(f"{text!r} is not a height and a width in pixels, such as 32x24.")
    return int(match[1]), int(match[2])


def parse_value(text: str) -> Any:
    """Return the value of a nested option: true, false, none, a number, a size such as 8x8, or text."""
    if text.lower() in ("true", "false", "none"):
        return {"true": True, "false": False, "none": None}[text.lower()]
    for parse in (parse_number, parse_size):
        try:
            return parse(text)
        except typer.BadParameter:
            pass
    return text


def merge_settings(config: Path | None, given: dict[str, Any], nested: Iterable[str] = ()) -> dict[str, Any]:
    """Join the settings of the configuration file and of the command line, with the texts of ``--set`` last."""
    parameters = read_options()
    settings = OWN_DEFAULTS | ({} if config is None else _read_config(config))
    settings |= {name: value for name, value in given.items() if value is not None}
    settings |= {name: None for name, value in settings.items() if value == "none" and "none" in parameters[name].words}
    for text in nested:
        match = re.fullmatch(r"(\w[\w-]*(?:\.\w[\w-]*)+)=(.*)", text)
        if match is None:
            raise typer.BadParameter(f"--set {text}: write NAME.OPTION=VALUE, such as inference.n_candidates=3.")
        settings[_to_parameter_name(match[1])] = parse_value(match[2])
    return settings


def _to_parameter_name(name: str) -> str:
    return name.replace("-", "_").replace(".", NESTED)


def _read_config(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        content = json.loads(text) if path.suffix.lower() == ".json" else tomllib.loads(text)
    except (OSError, ValueError) as error:  # both parsers raise ValueErrors
        raise typer.BadParameter(f"{path} cannot be read as TOML (or JSON, if named .json): {error}") from None
    if not isinstance(content, dict):
        raise typer.BadParameter(f"{path} is a {type(content).__name__}: write names and values of options.")
    parameters = read_options()
    full_names = {alias: name for name, alias in ALIASES.items()} | {name: name for name in parameters}
    settings = {}
    for key, value in _flatten(content):
        if NESTED in key:
            settings[key] = parse_value(value) if isinstance(value, str) else value
        elif key in full_names:
            text = "x".join(map(str, value)) if isinstance(value, list) else str(value)  # as on the command line
            try:
                settings[full_names[key]] = parameters[full_names[key]].parse(text)
            except typer.BadParameter as error:
                raise typer.BadParameter(f"{path}: {key} = {value!r}: {error.message}") from None
        else:
            raise typer.BadParameter(
                f"{path}: there is no option {key!r} among {', '.join(sorted(full_names))}{suggest(key, full_names)}"
            )
    return settings


def _flatten(content: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield names as in set_params: a table [inference] or a key "inference.n_candidates" is a nested option."""
    for key, value in content.items():
        name = prefix + _to_parameter_name(key)
        if isinstance(value, dict):
            yield from _flatten(value, name + NESTED)
        else:
            yield name, value
