"""What is in the samples before anything is fitted: classes, copies, missing values, scales, columns to leave out."""

from __future__ import annotations

import shlex
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .reading import DataError, Samples
from .reading.samples import list_some, name_column
from .source import Source

_FEWEST_ROWS = 20  # of which a column of different numbers looks like an identifier
_MOST_VALUES = 50_000_000  # that are looked at for columns to leave out
_MOST_CLASSES_PER_ROW = 0.25  # of a label column that was only guessed
_UNBALANCED = 10  # times as many samples in the largest class as in the smallest
_MOST_NAMES = 5


def find_odd_columns(samples: Samples) -> dict[str, list[str]]:
    """Return the columns of a table that never change, and those where every row has another whole number."""
    odd: dict[str, list[str]] = {"constant": [], "identifier": []}
    if samples.image_shape is not None or samples.X.size > _MOST_VALUES:
        return odd
    names = samples.feature_names or map(str, range(samples.X.shape[1]))
    for name, column in zip(names, samples.X.T, strict=True):
        known = column[~np.isnan(column)]
        if len(known) > 1 and (known == known[0]).all():
            odd["constant"].append(name)
        elif len(known) >= _FEWEST_ROWS and (known == np.trunc(known)).all() and len(np.unique(known)) == len(known):
            odd["identifier"].append(name)
    return odd


def list_odd_columns(samples: Samples) -> list[str]:
    """Return what to tell of columns that say nothing about the classes."""
    odd, notes = find_odd_columns(samples), []
    if odd["constant"] and samples.feature_names is not None:
        notes.append(f"{_name(odd['constant'])} the same value in every row, which tells nothing.")
    if odd["identifier"]:
        options = " ".join(f"--ignore {shlex.quote(name)}" for name in odd["identifier"][:_MOST_NAMES])
        notes.append(
            f"{_name(odd['identifier'])} another whole number in every row, like an identifier, which says nothing of "
            f"new samples. To leave it out: {options}"
        )
    return notes


def _name(columns: list[str]) -> str:
    named = list_some([repr(name) for name in columns])
    return f"Columns {named} have" if len(columns) > 1 else f"Column {named} has"


def require_labels(samples: Samples, data: str) -> Any:
    """Return the labels, or raise an error if there are none or some are empty."""
    if samples.labels is None:
        raise DataError(
            f"{data} has no labels: give the column of a table by --label-column NAME, a file by --labels FILE, or "
            "images in one sub-folder per class."
        )
    empty = np.flatnonzero(samples.labels.astype(str) == "")
    if len(empty):
        others = f", as in {len(empty) - 1} other rows" if len(empty) > 1 else ""
        raise DataError(
            f"{data}, row {empty[0]}: there is no label{others}. Write a word such as unknown there, and fit with "
            "--unlabeled unknown."
        )
    return samples.labels


def check_guess(samples: Samples, data: str) -> None:
    """Raise if the last column was taken for the labels, but does not look like labels."""
    if not samples.is_guessed or samples.labels is None:
        return
    n_classes = len(np.unique(samples.labels))
    if n_classes > max(_MOST_CLASSES_PER_ROW * len(samples.labels), 2):
        raise DataError(
            f"{data}: column {samples.label_name!r} was taken for the labels, since it is the last, but it has "
            f"{n_classes} different values in {len(samples.labels)} rows. Name the label column by --label-column; "
            "--label-column last if it is this one."
        )


def refuse_missing(samples: Samples, data: str) -> None:
    """Raise if values are missing, with the place of the first."""
    if isinstance(samples.X, np.memmap):  # which the model looks through
        return
    is_missing = np.isnan(samples.X)
    if is_missing.any():
        row, column = np.argwhere(is_missing)[0]
        raise DataError(
            f"{data}, row {row}, column {name_column(int(column), samples.feature_names)}: the value is missing, as "
            f"are {int(is_missing.sum()) - 1:,} others. To leave them out, fit with --set robustness.missing=mask; or "
            "fill them in the file."
        )


def look_at(source: Source, samples: Samples) -> dict[str, Any]:
    """Return what is in the samples, and the command to run next."""
    X, labels = samples.X, samples.labels
    n_missing = int(np.isnan(X).sum())
    first = np.unique(X, axis=0, return_inverse=True)[1].ravel()
    counts = np.bincount(first)
    facts: dict[str, Any] = {
        "data": source.data,
        "n_samples": len(X),
        "n_features": X.shape[1],
        "image_shape": samples.image_shape,
        "label_column": samples.label_name,
        "n_missing": n_missing,
        "n_incomplete_samples": int(np.isnan(X).any(axis=1).sum()),
        "n_copies": int(len(X) - len(counts)),
        "n_contradictions": 0,
        "scale": _describe_scale(X),
        "odd_columns": find_odd_columns(samples),
    }
    if labels is not None:
        names, sizes = np.unique(labels, return_counts=True)
        facts["classes"] = dict(zip(names.tolist(), sizes.tolist(), strict=True))
        pairs = {(group, label) for group, label in zip(first.tolist(), labels.tolist(), strict=True)}
        facts["n_contradictions"] = len(pairs) - len(counts)
    facts["next"] = _suggest_command(source, facts)
    return facts


def _describe_scale(X: NDArray[Any]) -> dict[str, float]:
    """Return the range of all values, and how much the spreads of features differ."""
    spreads = np.nanstd(X, axis=0)
    spreads = spreads[spreads > 0]
    ratio = float(spreads.max() / spreads.min()) if len(spreads) else 1.0
    return {"smallest": float(np.nanmin(X)), "largest": float(np.nanmax(X)), "ratio_of_spreads": ratio}


def _suggest_command(source: Source, facts: dict[str, Any]) -> str:
    """Return the command that fits these samples, with the options that they need."""
    words = ["ddlearn", "fit", source.data]
    if source.labels is not None:
        words += ["--labels", str(source.labels)]
    if source.label_column is not None:
        words += ["--label-column", source.label_column]
    for name in [*(source.ignore or ()), *facts["odd_columns"]["identifier"][:_MOST_NAMES]]:
        words += ["--ignore", name]
    if source.image_size is not None:
        words += ["--image-size", "x".join(map(str, source.image_size))]
    words += ["--colour"] * source.colour
    sizes = list(facts.get("classes", {}).values())
    if sizes and max(sizes) > _UNBALANCED * min(sizes):
        words += ["--class-weight", "balanced"]
    if facts["n_missing"]:
        words += ["--set", "robustness.missing=mask"]
    return shlex.join([*words, "--test-size", "0.2"])
