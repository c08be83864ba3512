"""Which column of a table holds the labels."""

from __future__ import annotations

import re
from pathlib import Path

from .errors import DataError, suggest

# Columns that hold labels unless another is named.
LABEL_COLUMNS = ("label", "labels", "class", "target", "y")


def find_label_column(
    path: Path,
    names: list[str] | None,
    n_columns: int,
    has_labels: bool,
    label_column: str | None,
    n_features: int | None,
) -> int | None:
    """Return the number of the column with the labels, or None if there is none."""
    if label_column is not None:
        return _resolve_column(path, names, n_columns, label_column)
    if not has_labels or n_columns == n_features:
        return None
    named = [number for number, name in enumerate(names or []) if name.lower() in LABEL_COLUMNS]
    return named[0] if named else n_columns - 1


def _resolve_column(path: Path, names: list[str] | None, n_columns: int, wanted: str) -> int:
    if names and wanted in names:
        return names.index(wanted)
    if wanted == "last":
        return n_columns - 1
    if re.fullmatch(r"-?\d+", wanted) and -n_columns <= int(wanted) < n_columns:
        return int(wanted) % n_columns
    known = f"; its columns are {', '.join(names[:20])}{', ...' if len(names) > 20 else ''}" if names else ""
    raise DataError(
        f"{path} has no column {wanted!r} among its {n_columns}{known}. Columns go by name, by number from 0, or "
        f"'last'{suggest(wanted, names or [])}"
    )
