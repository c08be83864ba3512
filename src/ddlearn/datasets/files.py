"""The files of the public sets: where they are, how they are read, and how they are verified (SHA-256)."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import CorruptDatasetError
from .sources import SOURCES, Original, Source

DATA_VARIABLE = "DDLEARN_DATA"


def find_datasets(*, data_home: str | os.PathLike[str] | None = None) -> dict[str, dict[str, Any]]:
    """Tell where the data sets are, and whether their files are what they should be; nothing is downloaded.

    Parameters
    ----------
    data_home : str, path or None, default=None
        The only folder to look in.  By default the folder that the environment variable ``DDLEARN_DATA`` names, then
        ``~/.cache/ddlearn``.

    Returns
    -------
    dict of dict
        For "digits", "usps", "mnist" and "yaleb": ``where``, the file, the folder of several files, or None if they are
        not here; ``bytes``, their size, or None; ``checksum``, "good", "wrong" or, where there is no file, empty; and
        ``advice``, what to do to get the data, or None if they can be loaded.

    See Also
    --------
    load_usps : Loads, and downloads if need be, one of the sets.

    Examples
    --------
    >>> from ddlearn.datasets import find_datasets
    >>> found = find_datasets(data_home="no such folder")
    >>> found["digits"]["where"], found["usps"]["where"]
    ('in scikit-learn', None)
    """
    digits = {"where": "in scikit-learn", "bytes": None, "checksum": "", "advice": None}
    folders = list_folders(data_home)
    return {"digits": digits} | {name: _describe_files(source, folders) for name, source in SOURCES.items()}


def list_folders(data_home: str | os.PathLike[str] | None) -> list[Path]:
    """List where to look, the folder to download to last."""
    if data_home is not None:
        return [Path(data_home).expanduser()]
    # The same folder on every platform, and with or without pooch: what was downloaded once is found again.
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "ddlearn"
    given = os.environ.get(DATA_VARIABLE)
    return [Path(given).expanduser(), cache] if given else [cache]


def find_files(source: Source, folders: list[Path]) -> list[Path]:
    """List the files of the first folder that has the archive, or all original files; none if no folder has them."""
    for folder in folders:
        originals = [folder / original.name for original in source.originals]
        for files in ([folder / source.archive], originals):
            if all(file.is_file() for file in files):
                return files
    return []


def read_files(source: Source, files: list[Path]) -> Mapping[str, NDArray[Any]]:
    """Return the arrays in what :func:`find_files` found, verified."""
    if files[0].name == source.archive:
        return _read_archive(files[0], source.sha256)
    return read_originals(source, files[0].parent)


def _describe_files(source: Source, folders: list[Path]) -> dict[str, Any]:
    files = find_files(source, folders)
    if not files:
        return {"where": None, "bytes": None, "checksum": "", "advice": _advise(source, folders)}
    where = files[0] if len(files) == 1 else files[0].parent
    facts = {"where": str(where), "bytes": sum(file.stat().st_size for file in files)}
    try:
        read_files(source, files)
    except CorruptDatasetError as error:
        return facts | {"checksum": "wrong", "advice": str(error)}
    return facts | {"checksum": "good", "advice": None}


def _advise(source: Source, folders: list[Path]) -> str:
    names = " and ".join(original.name for original in source.originals)
    return (
        f"{source.title}: put {source.archive}, or {names}, into {' or '.join(map(str, folders))}; or install "
        f'"ddlearn[data]", and it is downloaded from {source.mirrors[0]} when it is first used.'
    )


def _read_archive(path: Path, sha256: str) -> Mapping[str, NDArray[Any]]:
    content = path.read_bytes()  # once: what is verified is what is used
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise _corrupt(path, f"its SHA-256 is {found}, expected {sha256}")
    return np.load(io.BytesIO(content), allow_pickle=False)


def read_originals(source: Source, folder: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays in the original files, verified."""
    arrays: dict[str, NDArray[Any]] = {}
    for original in source.originals:
        path = folder / original.name
        content = path.read_bytes()
        try:
            arrays |= convert(original, content)
        except ValueError as error:
            raise _corrupt(path, str(error)) from error
    return arrays


def _corrupt(path: Path, reason: str) -> CorruptDatasetError:
    return CorruptDatasetError(
        f"{path} is damaged or another version: {reason}. "
        "Put a good copy in its place, or delete it and load again: it is then looked for elsewhere or downloaded."
    )


def convert(original: Original, content: bytes) -> dict[str, NDArray[Any]]:
    """Return the arrays in the content of an original file; ValueError if they are not those of the set."""
    try:
        arrays = original.read(content)
    except Exception as error:  # foreign or damaged bytes can fail in any way inside zip, gzip and number parsers
        raise ValueError(f"it cannot be read as {original.name} ({type(error).__name__}: {error})") from error
    found = _digest(arrays)
    if found != original.digest:
        raise ValueError(f"the SHA-256 of the numbers in it is {found}, expected {original.digest}")
    return dict(zip(original.arrays, arrays, strict=True))


def _digest(arrays: tuple[NDArray[Any], ...]) -> str:
    """Return the SHA-256 of the types, shapes and numbers of arrays, the same on every machine."""
    total = hashlib.sha256()
    for array in arrays:
        array = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        total.update(f"{array.dtype.str}{array.shape}".encode())
        total.update(array.data)
    return total.hexdigest()
