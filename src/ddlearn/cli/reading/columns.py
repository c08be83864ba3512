"""The columns of a table: which are features and in what order, which holds the labels, and which are left out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from ..terminal import suggest
from .samples import DataError, list_differences, list_some, name_column

LABEL_COLUMNS = ("label", "labels", "class", "target", "y")  # unless another column is given
_INDEX_NAME = re.compile(r"|Unnamed: 0(\.\d+)?|__index_level_\d+__")  # an index that pandas has written


class Wanted(NamedTuple):
    """What is to be read of a table."""

    has_labels: bool = True  # whether one of the columns may hold them
    label_column: str | None = None  # as the user gives it
    ignore: Sequence[str] = ()  # as the user gives them
    n_features: int | None = None  # of the model; a table with as many columns has no labels
    feature_names: Sequence[str] = ()  # of the model; a table with a header is read in this order, without others
    label_name: str | None = None  # of the table that the model was fitted to


class Columns(NamedTuple):
    """What is read: numbers of columns."""

    features: list[int]
    label: int | None
    label_name: str | None
    is_guessed: bool  # whether the label column is only the last one
    notes: list[str]  # for the user


def choose_columns(
    path: Path, names: Sequence[str] | None, n_columns: int, wanted: Wanted, index: Iterable[int] = ()
) -> Columns:
    """Choose from all columns of a table; ``index`` are those that pandas has marked as an index."""
    ignored = {_find(path, column, names, n_columns) for column in wanted.ignore}
    explicit = None if wanted.label_column is None else _find(path, wanted.label_column, names, n_columns)
    notes = []
    skipped = {*index, *([0] if names and _INDEX_NAME.fullmatch(names[0]) else [])}
    skipped |= {number for number, name in enumerate(names or ()) if name.startswith("__index_level_")}
    skipped -= ignored | {explicit} | {number for number in skipped if names and names[number] in wanted.feature_names}
    if skipped:
        notes.append(f"{path}: column {_list(skipped, names)} is an index that pandas has written: it is left out.")
    left = [number for number in range(n_columns) if number not in ignored | skipped]
    if names and wanted.feature_names:
        label = explicit if explicit is not None else _recall_label(names, left, wanted)
        features = _match(path, names, [number for number in left if number != label], wanted.feature_names)
        surplus = set(left) - {*features, label}
        if surplus:
            notes.append(f"{path}: the model does not know column {_list(surplus, names)}: ignored.")
        return Columns(features, label, _name(label, names), False, notes)
    label, is_guessed = (explicit, False) if explicit is not None else _guess_label(names, left, wanted)
    return Columns([number for number in left if number != label], label, _name(label, names), is_guessed, notes)


def refuse_columns(path: Path, wanted: Wanted) -> None:
    """Raise if columns are named for a file that has none."""
    for what, given in (("label column", wanted.label_column), ("column to ignore", wanted.ignore)):
        if given:
            raise DataError(f"{path}: only tables (.csv, .parquet) have a {what}, here {given!r}.")


def _find(path: Path, column: str, names: Sequence[str] | None, n_columns: int) -> int:
    """Return the number of a column that the user names."""
    if names and column in names:
        return names.index(column)
    if column == "last":
        return n_columns - 1
    if re.fullmatch(r"-?\d+", column) and -n_columns <= int(column) < n_columns:
        return int(column) % n_columns
    known = f"; its columns are {', '.join(names[:20])}{', ...' if len(names) > 20 else ''}" if names else ""
    raise DataError(
        f"{path} has no column {column!r} among its {n_columns}{known}. Give a column by its name, its number "
        f"from 0, or 'last'{suggest(column, names or [])}"
    )


def _guess_label(names: Sequence[str] | None, left: list[int], wanted: Wanted) -> tuple[int | None, bool]:
    """Return the label column by its usual names, or else the last, and whether it is only the last."""
    if not wanted.has_labels or len(left) == wanted.n_features or not left:
        return None, False
    named = [number for number in left if names and names[number].lower() in LABEL_COLUMNS]
    if not named and not names and wanted.label_name and wanted.label_name.isdecimal():
        named = [number for number in left if str(number) == wanted.label_name]  # no header, then and now
    return (named[0], False) if named else (left[-1], True)


def _recall_label(names: Sequence[str], left: list[int], wanted: Wanted) -> int | None:
    """Return the label column of a table whose features are known: the one of the model, or what is over."""
    surplus = [number for number in left if names[number] not in wanted.feature_names]
    if not wanted.has_labels:
        return None
    usual = [number for number in surplus if names[number].lower() in LABEL_COLUMNS]
    of_model = [number for number in surplus if names[number] == wanted.label_name]
    only = surplus if wanted.label_name is None and len(surplus) == 1 else []
    return next(iter([*of_model, *usual, *only]), None)


def _match(path: Path, names: Sequence[str], left: list[int], expected: Sequence[str]) -> list[int]:
    """Return the columns with the names of the model's features, in its order."""
    found = [names[number] for number in left]
    if found == list(expected):
        return left
    if set(expected) - set(found):
        differences = list_differences(found, expected)
        raise DataError(f"{path} has other columns than the model was fitted to: {differences}.")
    if any(found.count(name) > 1 for name in expected):
        raise DataError(f"{path} repeats names of columns, in another order than the model was fitted to.")
    return [left[found.index(name)] for name in expected]


def _name(label: int | None, names: Sequence[str] | None) -> str | None:
    return None if label is None else names[label] if names else str(label)


def _list(columns: Iterable[int], names: Sequence[str] | None) -> str:
    return list_some([name_column(number, names) for number in sorted(columns)])
