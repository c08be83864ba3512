"""The arrays of a public set, downloaded first if no folder has its files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from .errors import DatasetNotFoundError
from .files import (
    DATA_VARIABLE,
    convert,
    find_files,
    list_folders,
    read_files,
    read_originals,
)
from .sources import SOURCES, Original, Source


def load_arrays(name: str, data_home: str | os.PathLike[str] | None) -> Mapping[str, NDArray[Any]]:
    """Return the arrays of a data set, from the first folder that has it, or else downloaded."""
    source = SOURCES[name]
    folders = list_folders(data_home)
    files = find_files(source, folders)
    if files:
        return read_files(source, files)
    _download_originals(source, folders)
    return read_originals(source, folders[-1])


def _download_originals(source: Source, folders: list[Path]) -> None:
    for original in source.originals:
        failures = []
        for mirror in source.mirrors:
            try:
                _download(original, mirror, folders[-1])
                break
            except ImportError as error:
                raise _not_found(source, folders, ['downloads need pooch: pip install "ddlearn[data]"']) from error
            except (OSError, ValueError) as error:  # from the network or the file system; from convert
                failures.append(f"{mirror}{original.name}: {error}")
        else:
            raise _not_found(source, folders, failures)


def _download(original: Original, mirror: str, folder: Path) -> None:
    """Download a file unless it is there.  It appears in the folder whole and verified, or not at all."""
    import pooch  # late: only a download needs it

    def download_and_verify(url: str, path: str, _: object) -> None:
        pooch.HTTPDownloader()(url, path, None)
        convert(original, Path(path).read_bytes())

    # pooch downloads to a temporary file and gives it its name when the downloader has returned.
    files = pooch.Pooch(folder, mirror, registry={original.name: None})
    files.fetch(original.name, downloader=download_and_verify)


def _not_found(source: Source, folders: list[Path], failures: list[str]) -> DatasetNotFoundError:
    names = " and ".join(original.name for original in source.originals)
    places = [f"{folder}{'' if folder.is_dir() else ' (does not exist yet)'}" for folder in folders]
    return DatasetNotFoundError(
        "\n  ".join([f"{source.title} is not on this machine and could not be downloaded:", *failures])
        + "\n  ".join([f"\nPut {source.archive} (or {names}) into one of these folders:", *places])
        + f"\nor set the environment variable {DATA_VARIABLE} to the folder that has it, "
        + f"for example: export {DATA_VARIABLE}=/path/to/folder"
    )
