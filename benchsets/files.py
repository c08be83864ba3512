"""The files of the public sets: found in folders or downloaded, verified by SHA-256, and read."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .originals import SHA256, SOURCES, Source


class DatasetNotFoundError(FileNotFoundError):
    """A data set is in none of the folders and could not be downloaded; the message says which files to put where."""


class CorruptDatasetError(OSError):
    """A file is damaged, truncated, or another version of the data set."""


def find_datasets(*, data_home: str | os.PathLike[str] | None = None) -> dict[str, dict[str, Any]]:
    """Find the data sets on this machine and verify their checksums; nothing is downloaded.

    Parameters
    ----------
    data_home : str, path or None, default=None
        The only folder to search.  By default the folder named by the environment variable ``DDLEARN_DATA``, then
        ``~/.cache/ddlearn``.

    Returns
    -------
    dict of dict
        For "usps", "mnist" and "yaleb": ``where``, the file, or the folder of several files, or None if missing;
        ``bytes``, their size, or None; ``checksum``, "good", "wrong" or, without a file, empty; and ``advice``, how to
        get the data, or None if they can be loaded.

    See Also
    --------
    load_usps : Loads one of the sets, and downloads it if necessary.

    Examples
    --------
    >>> from benchsets import find_datasets
    >>> find_datasets(data_home="no such folder")["usps"]["where"] is None
    True
    """
    folders = list_folders(data_home)
    return {name: _describe_files(source, folders) for name, source in SOURCES.items()}


def load_arrays(name: str, data_home: str | os.PathLike[str] | None) -> Mapping[str, NDArray[Any]]:
    """Return the arrays of a data set from the first folder that has it, or download it."""
    source, folders = SOURCES[name], list_folders(data_home)
    files = _find_files(source, folders)
    if not files:
        _download_originals(source, folders)
        files = _find_files(source, folders[-1:])
    return read_files(source, files)


def list_folders(data_home: str | os.PathLike[str] | None) -> list[Path]:
    """List the folders to search; downloads go to the last."""
    if data_home is not None:
        return [Path(data_home).expanduser()]
    # The same folder on every platform, with or without pooch, so that downloads are found again.
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "ddlearn"
    given = os.environ.get("DDLEARN_DATA")
    return [Path(given).expanduser(), cache] if given else [cache]


def _find_files(source: Source, folders: list[Path]) -> list[Path]:
    """List the archive, or all original files, of the first folder that has them."""
    for folder in folders:
        for files in ([folder / source.archive], [folder / name for name in source.originals]):
            if all(file.is_file() for file in files):
                return files
    return []


def _describe_files(source: Source, folders: list[Path]) -> dict[str, Any]:
    files = _find_files(source, folders)
    if not files:
        return {"where": None, "bytes": None, "checksum": "", "advice": f"{source.title}: {_advise(source, folders)}"}
    where = files[0] if len(files) == 1 else files[0].parent
    facts = {"where": str(where), "bytes": sum(file.stat().st_size for file in files)}
    try:
        read_files(source, files)
    except CorruptDatasetError as error:
        return facts | {"checksum": "wrong", "advice": str(error)}
    return facts | {"checksum": "good", "advice": None}


def _advise(source: Source, folders: list[Path]) -> str:
    return (
        f"put {source.archive}, or {' and '.join(source.originals)}, into {' or '.join(map(str, folders))}; or name "
        f"the folder that has it: export DDLEARN_DATA=/path/to/folder; or install pooch to download it."
    )


def read_files(source: Source, files: list[Path]) -> Mapping[str, NDArray[Any]]:
    """Return the verified arrays of a data set from its archive or its original files."""
    arrays: dict[str, NDArray[Any]] = {}
    for path in files:
        content = path.read_bytes()  # once, so that exactly the verified bytes are used
        try:
            if path.name == source.archive:
                _verify("its SHA-256", hashlib.sha256(content).hexdigest(), path.name)
                return np.load(io.BytesIO(content), allow_pickle=False)
            arrays |= _convert(source, path.name, content)
        except ValueError as error:
            raise CorruptDatasetError(
                f"{path} is damaged or another version: {error}. Replace it by a good copy, or delete it and load "
                "again to search other folders or download it."
            ) from error
    return arrays


def _convert(source: Source, name: str, content: bytes) -> dict[str, NDArray[Any]]:
    """Return the arrays in the content of an original file; ValueError if they are not those of the set."""
    try:
        arrays = source.read(content)
    except Exception as error:  # zip, gzip and number parsers raise all kinds of errors for damaged bytes
        raise ValueError(f"it cannot be read as {name} ({type(error).__name__}: {error})") from error
    _verify("the SHA-256 of its arrays", compute_digest(arrays), name)
    return dict(zip(source.originals[name], arrays, strict=True))


def _verify(what: str, found: str, name: str) -> None:
    if found != SHA256[name]:
        raise ValueError(f"{what} is {found}, expected {SHA256[name]}")


def compute_digest(arrays: Iterable[NDArray[Any]]) -> str:
    """Return the SHA-256 of the types, shapes and values of arrays, the same on every machine."""
    total = hashlib.sha256()
    for array in arrays:
        array = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        total.update(f"{array.dtype.str}{array.shape}".encode())
        total.update(array.data)
    return total.hexdigest()


def _download_originals(source: Source, folders: list[Path]) -> None:
    """Download the original files that are missing; each appears complete and verified, or not at all."""
    try:
        import pooch
    except ImportError as error:
        raise _not_found(source, folders, ["downloads need pooch: pip install pooch"]) from error
    for name in source.originals:

        def download_and_verify(url: str, path: str, _: object, name: str = name) -> None:
            pooch.HTTPDownloader()(url, path, None)
            _convert(source, name, Path(path).read_bytes())

        failures = []
        for mirror in source.mirrors:
            try:
                # pooch downloads to a temporary file and renames it after the downloader has returned.
                pooch.Pooch(folders[-1], mirror, registry={name: None}).fetch(name, downloader=download_and_verify)
                break
            except (OSError, ValueError) as error:  # of the network or file system; of _convert
                failures.append(f"{mirror}{name}: {error}")
        else:
            raise _not_found(source, folders, failures)


def _not_found(source: Source, folders: list[Path], failures: list[str]) -> DatasetNotFoundError:
    headline = f"{source.title} is not on this machine and could not be downloaded:"
    return DatasetNotFoundError("\n  ".join([headline, *failures]) + f"\nTo use it, {_advise(source, folders)}")
