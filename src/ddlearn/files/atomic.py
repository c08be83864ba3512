"""Files that are written whole or not at all: whoever reads the path finds the old content or the new one.

The content goes to a new file in the same folder, is forced to the disk, and takes the place of the old file in one
step.  A kill or a power cut at any moment leaves one of the two, at worst with a hidden file ``.ddlearn-*.tmp`` beside.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path


def write_atomically(path: str | os.PathLike[str], data: bytes | bytearray) -> None:
    """Put ``data`` in the file at ``path``, in one step.

    A link is followed, a file that was there hands on its permissions.  If anything fails, Ctrl-C included, the file
    that was there is unchanged and nothing else is left.

    Parameters
    ----------
    path : str or path-like
        The file; its folder must exist.
    data : bytes or bytearray
        The content.

    Raises
    ------
    OSError
        Of the fitting kind: the folder does not exist or may not be written to, the file may not be, the disk is full.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "greeting")
    ...     write_atomically(path, b"hello")
    ...     path.read_bytes()
    b'hello'
    """
    target = Path(os.path.realpath(path))  # what a link points to is replaced, not the link
    try:
        mode = _find_mode(target)
        temporary = target.parent / f".ddlearn-{secrets.token_hex(8)}.tmp"
        try:
            _write_through(temporary, data, mode)
            os.replace(temporary, target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise OSError(error.errno, f"Cannot write the file ({_explain(error, target)})", str(path)) from error
    _sync_folder(target.parent)


def _find_mode(target: Path) -> int | None:
    """Return the permissions of the file that is there, None without one; raise if it may not be replaced."""
    try:
        status = target.stat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EISDIR if stat.S_ISDIR(status.st_mode) else errno.EINVAL, "it is not a regular file")
    if not os.access(target, os.W_OK):  # the folder's permissions alone would allow it
        raise PermissionError(errno.EACCES, "it is read-only")
    return stat.S_IMODE(status.st_mode)


def _write_through(path: Path, data: bytes | bytearray, mode: int | None) -> None:
    """Write a new file and wait until the disk has it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    with os.fdopen(descriptor, "wb") as file:
        if mode is not None:
            os.chmod(path, mode)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _explain(error: OSError, target: Path) -> str:
    if isinstance(error, FileNotFoundError):
        return f"the folder {target.parent} does not exist: create it first"
    return f"{error.strerror}; what was there before is unchanged"


def _sync_folder(folder: Path) -> None:
    """Make the new name outlive a power cut, where the system can: the file is whole either way."""
    with suppress(OSError, AttributeError):  # Windows opens no folders
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
