"""Configuration files: options of the model in TOML or JSON, over which the command line wins."""

from __future__ import annotations

import difflib
import json
import tomllib
from pathlib import Path
from typing import Any

import typer

from .options import (
    ALIASES,
    OWN_DEFAULTS,
    Parameter,
    parse_size,
    read_parameters,
)

# By the first type of an annotation: what a configuration file may hold.
_VALUE_TYPES: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "str": (str,),
    "Any": (str, int, float),
}


def merge_settings(config: Path | None, given: dict[str, Any]) -> dict[str, Any]:
    """Join the settings of the configuration file and of the command line, which wins."""
    settings = {"n_jobs": OWN_DEFAULTS["n_jobs"]} | ({} if config is None else _read_config(config))
    return settings | {name: value for name, value in given.items() if value is not None}


def _read_config(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        content = json.loads(text) if path.suffix.lower() == ".json" else tomllib.loads(text)
    except (OSError, ValueError) as error:  # both parsers raise ValueErrors
        raise typer.BadParameter(f"{path} cannot be read as TOML (or JSON, if it is named .json): {error}") from None
    if not isinstance(content, dict):
        raise typer.BadParameter(f"{path} holds a {type(content).__name__}: write names and values of options.")
    parameters = read_parameters()
    full_names = {alias: name for name, alias in ALIASES.items()} | {name: name for name in parameters}
    settings = {}
    for key, value in content.items():
        name = full_names.get(key.replace("-", "_"))
        if name is None:
            near = difflib.get_close_matches(key, full_names, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(full_names))}."
            raise typer.BadParameter(f"{path}: there is no option {key!r}; {hint}")
        settings[name] = _check_value(parameters[name], value, str(path))
    return settings


def _check_value(parameter: Parameter, value: Any, place: str) -> Any:
    """Return a value of a configuration file as the constructor takes it, or say what is wrong."""
    if parameter.kind == "tuple[int, int]":
        return parse_size("x".join(map(str, value)) if isinstance(value, list) else str(value))
    if value in parameter.words:
        return value
    expected = _VALUE_TYPES[parameter.kind]
    if not isinstance(value, expected) or (isinstance(value, bool) and bool not in expected):
        names = " or ".join([*(type_.__name__ for type_ in expected), *map(repr, parameter.words)])
        raise typer.BadParameter(f"{place}: {parameter.name} = {value!r}, but it must be {names}.")
    if parameter.choices and value not in parameter.choices:
        raise typer.BadParameter(f"{place}: {parameter.name} = {value!r}, but it must be one of {parameter.choices}.")
    return value
