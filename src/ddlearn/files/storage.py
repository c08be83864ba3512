"""Where files are: on a disk, or where an address such as ``s3://bucket/file`` leads to.

Addresses are those of fsspec, which comes with Dask.  An object store has no folders and renames nothing, but what it
is given in one piece is there completely or not at all.
"""

from __future__ import annotations

import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from .atomic import write_atomically


class Place(ABC):
    """A file or a folder, which need not exist yet."""

    @abstractmethod
    def exists(self) -> bool:
        """Whether there is anything."""

    @abstractmethod
    def find_kind(self) -> tuple[str, int]:
        """Return "file", "directory" or "other", and the number of bytes of a file."""

    @abstractmethod
    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Open a file for reading."""

    @abstractmethod
    def write(self, data: bytes | bytearray) -> None:
        """Write a file completely or not at all."""

    @abstractmethod
    def remove(self) -> None:
        """Remove a file."""

    @abstractmethod
    def make_folder(self) -> None:
        """Make a folder, unless it is there or such things are unknown."""

    @abstractmethod
    def list_folder(self) -> list[str]:
        """Return the names of the files in a folder."""


class DiskPlace(Place):
    """A path of this machine, which it may share with others."""

    def __init__(self, path: str):
        self.path = path

    def exists(self) -> bool:
        return os.path.exists(self.path)

    def find_kind(self) -> tuple[str, int]:
        status = os.stat(self.path)
        kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "directory"}
        return kinds.get(stat.S_IFMT(status.st_mode), "other"), status.st_size

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        with open(self.path, "rb") as file:
            yield file

    def write(self, data: bytes | bytearray) -> None:
        write_atomically(self.path, data)

    def remove(self) -> None:
        os.remove(self.path)

    def make_folder(self) -> None:
        os.makedirs(self.path, exist_ok=True)

    def list_folder(self) -> list[str]:
        return os.listdir(self.path)


class RemotePlace(Place):
    """A path in a file system of fsspec."""

    def __init__(self, files: Any, path: str):
        self.files = files
        self.path = path
        files.invalidate_cache()  # others write there, too

    def exists(self) -> bool:
        return self.files.exists(self.path)

    def find_kind(self) -> tuple[str, int]:
        status = self.files.info(self.path)
        return status["type"], status["size"]

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        with self.files.open(self.path, "rb") as file:
            yield file

    def write(self, data: bytes | bytearray) -> None:
        self.files.pipe_file(self.path, bytes(data))

    def remove(self) -> None:
        self.files.rm_file(self.path)

    def make_folder(self) -> None:
        self.files.makedirs(self.path, exist_ok=True)

    def list_folder(self) -> list[str]:
        return [path.rsplit("/", 1)[-1] for path in self.files.ls(self.path, detail=False)]


def find_place(path: str | os.PathLike[str]) -> Place:
    """Return where a path or an address leads to.

    >>> find_place("file:///tmp/fit").path  # of a disk, where files are replaced in one step
    '/tmp/fit'
    """
    path = os.fspath(path)
    if not _is_address(path):
        return DiskPlace(path)
    try:
        from fsspec.core import url_to_fs
        from fsspec.implementations.local import LocalFileSystem
    except ImportError as error:
        raise ImportError(f'{path} needs fsspec, which comes with Dask: pip install "ddlearn[dask]".') from error
    files, path = url_to_fs(path)
    return DiskPlace(path) if isinstance(files, LocalFileSystem) else RemotePlace(files, path)


def make_absolute(path: str) -> str:
    """Return a path that leads to the same place from every working directory."""
    return path if _is_address(path) else os.path.abspath(path)


def _is_address(path: str) -> bool:
    return "://" in path
