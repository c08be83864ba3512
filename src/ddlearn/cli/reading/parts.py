"""Files that belong together, such as ``parts/X-*.npy``: found by a pattern and joined in natural order."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .samples import DataError, Samples, check_size, list_differences

PART_SUFFIXES = (".npy", ".npz", ".parquet")
_GLOB = re.compile(r"[*?\[]")


def is_pattern(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a pattern of files, with ``*``, ``?`` or ``[``."""
    return not Path(path).exists() and _GLOB.search(os.fspath(path)) is not None


def find_files(path: str | os.PathLike[str]) -> list[Path]:
    """Return the files of a pattern, with part-2 before part-10, or the path itself if it is none."""
    text = os.fspath(path)
    if not is_pattern(text):
        return [Path(text)]
    found = _match(text)
    if not found:
        raise DataError(f"{text}: there is no such file.")

    def split(path: str) -> list[Any]:  # into text and numbers in alternation
        return [int(text) if number % 2 else text for number, text in enumerate(re.split(r"([0-9]+)", path))]

    return [Path(path) for path in sorted(found, key=split)]


def _match(pattern: str) -> list[str]:
    """Return the files of a pattern; ``**`` does not follow links, which may lead anywhere."""
    if "**" not in pattern:
        return glob.glob(pattern)
    parts = Path(pattern).parts
    n_fixed = next(place for place, part in enumerate(parts) if _GLOB.search(part))
    root = Path(*parts[:n_fixed])
    found = root.glob(str(Path(*parts[n_fixed:])))
    return [str(path) for path in found if not any(part.startswith(".") for part in path.relative_to(root).parts)]


def check_parts(files: Sequence[Path], suffixes: Sequence[str]) -> None:
    """Check that parts are files of one kind, before any of them is read."""
    for file in files:
        if file.suffix.lower() not in suffixes:
            raise DataError(f"{file}: parts must be {', '.join(suffixes)}, not {file.suffix!r}.")
        if file.suffix.lower() != files[0].suffix.lower():
            raise DataError(f"{file} is another kind of file than {files[0]}: give parts of one kind.")


def join_samples(files: Sequence[Path], parts: Sequence[Samples]) -> Samples:
    """Return the rows of all parts as one array; they must have the same features."""
    first = parts[0]
    for file, part in zip(files, parts, strict=True):
        if part.feature_names != first.feature_names:
            differences = list_differences(part.feature_names or [], first.feature_names or []) or "in another order"
            raise DataError(f"{file} has other columns than {files[0]}: {differences}.")
        if part.X.shape[1:] != first.X.shape[1:] or part.image_shape != first.image_shape:
            raise DataError(
                f"{file} has shape {part.X.shape}, but {files[0]} {first.X.shape}: all parts must have the same "
                "features."
            )
        if (part.labels is None) != (first.labels is None):
            with_labels, without = (files[0], file) if part.labels is None else (file, files[0])
            raise DataError(f"{without} has no labels, but {with_labels} has: either all parts have labels, or none.")
    if len(parts) == 1:
        return first
    X = [part.X for part in parts]
    shape = (sum(map(len, X)), X[0].shape[1])
    check_size(files[0].parent, shape, max(one.itemsize for one in X), "write one .npy, which stays on disk")
    labels = None if first.labels is None else np.concatenate([part.labels for part in parts])  # text, if one is
    return first._replace(X=np.concatenate(X), labels=labels, notes=list(dict.fromkeys(first.notes)))
