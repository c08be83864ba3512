"""Where files are, and how they are written: completely or not at all, so that a reader finds the old or the new.

On a disk, the content goes to a new file in the same folder, is flushed to the disk, and replaces the old file in one
step.  If the process is killed or the power fails, one of the two is there, at worst beside a hidden file
``.ddlearn-*.tmp``, which a later write to the same folder removes.

Addresses such as ``s3://bucket/file`` are those of fsspec, which comes with Dask.  An object store has no folders and
renames nothing, but what it is given in one piece is there completely or not at all.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

_TEMPORARY = ".ddlearn-"  # how the names of temporary files begin
_OLD = 3600  # seconds after which a temporary file that nobody has written to is an orphan


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Replace the content of a file, or create it, in one step.

    A link is followed, and the permissions of an existing file are kept.  On any failure, including Ctrl-C, an OSError
    or the interruption is raised, the existing file is unchanged, and no temporary file is left.
    """
    with _writing(path) as (target, temporary, mode):
        _write_through(temporary, data, mode)
        os.replace(temporary, target)
    _sync_folder(target.parent)
    _remove_orphans(target.parent)


def make_sure_of_room(path: str | os.PathLike[str], n_bytes: int) -> None:
    """Raise an OSError if a file of that size could not be written, as :func:`write_atomically` would."""
    with _writing(path) as (_, temporary, mode):
        _write_through(temporary, bytes(n_bytes), mode)
        temporary.unlink()


@contextmanager
def _writing(path: str | os.PathLike[str]) -> Iterator[tuple[Path, Path, int | None]]:
    """Yield the file to replace, a temporary one beside it, and its permissions; clean up and explain if that fails."""
    target = Path(os.path.realpath(path))  # the file that a link points to is replaced, not the link
    temporary = target.parent / f"{_TEMPORARY}{secrets.token_hex(8)}.tmp"
    try:
        yield target, temporary, _find_mode(target)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if not isinstance(error, OSError):
            raise
        reason = f"{error.strerror}; an existing file is unchanged"
        if isinstance(error, FileNotFoundError):
            reason = f"the folder {target.parent} does not exist: create it first"
        raise OSError(error.errno, f"Cannot write the file ({reason})", str(path)) from error


def _remove_orphans(folder: Path) -> None:
    """Remove what processes that were killed have left behind; whoever still writes to a file keeps it young."""
    with suppress(OSError):
        for path in folder.glob(f"{_TEMPORARY}*.tmp"):
            with suppress(OSError):
                if time.time() - path.lstat().st_mtime > _OLD:
                    path.unlink()


def _find_mode(target: Path) -> int | None:
    """Return the permissions of an existing file, None if there is none; raise if it may not be replaced."""
    try:
        status = target.stat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EISDIR if stat.S_ISDIR(status.st_mode) else errno.EINVAL, "it is not a regular file")
    if not os.access(target, os.W_OK):  # the permissions of the folder alone would allow it
        raise PermissionError(errno.EACCES, "it is read-only")
    return stat.S_IMODE(status.st_mode)


def _write_through(path: Path, data: bytes, mode: int | None) -> None:
    """Write a new file and wait until it is on the disk."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    with os.fdopen(descriptor, "wb") as file:
        if mode is not None:
            os.chmod(path, mode)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Make the new name survive a power failure, where the system supports that; the file is complete either way."""
    with suppress(OSError, AttributeError):  # Windows cannot open folders
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class Disk:
    """The files of this machine, by those methods of a file system of fsspec that are needed here."""

    exists = staticmethod(os.path.exists)
    makedirs = staticmethod(os.makedirs)
    open = staticmethod(open)
    pipe_file = staticmethod(write_atomically)
    rm_file = staticmethod(os.remove)

    def info(self, path: str) -> dict[str, Any]:
        """Return whether a path is a "file", a "directory" or "other", and the number of bytes of a file."""
        status = os.stat(path)
        kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "directory"}
        return {"type": kinds.get(stat.S_IFMT(status.st_mode), "other"), "size": status.st_size}

    def ls(self, path: str, detail: bool) -> list[str]:
        """Return the paths of the files in a folder."""
        return [f"{path}/{name}" for name in os.listdir(path)]


def locate(path: str | os.PathLike[str]) -> tuple[Any, str]:
    """Return the file system to which a path or an address leads, and the path there.

    >>> files, path = locate("file:///tmp/fit")  # on a disk, where files are replaced in one step
    >>> type(files).__name__, path
    ('Disk', '/tmp/fit')
    """
    path = os.fspath(path)
    if not _is_address(path):
        return Disk(), path
    try:
        from fsspec.core import url_to_fs
        from fsspec.implementations.local import LocalFileSystem
    except ImportError as error:
        raise ImportError(f'{path} needs fsspec, which comes with Dask: pip install "ddlearn[dask]".') from error
    files, path = url_to_fs(path)
    files.invalidate_cache()  # others write there, too
    return (Disk() if isinstance(files, LocalFileSystem) else files), path


def make_absolute(path: str) -> str:
    """Return a path that leads to the same place from every working directory."""
    return path if _is_address(path) else os.path.abspath(path)


def _is_address(path: str) -> bool:
    return "://" in path
