"""One kind of file for models and checkpoints: arrays and a JSON header, checked before anything is made of them.

The file is a safetensors file, which any tool for that format opens.  Its metadata hold one entry, "ddlearn", a JSON
object with the SHA-256 of the whole file (taken with zeros in its own place), the kind of file, the version of the
format, the version of the library, the arrays that lie column by column, and the content that the kind defines.
Nothing in it is ever executed.

A reader trusts nothing: the length of the header is compared with the size of the file and a limit before the header
is read, kind and version before the rest is, and the hash before the content is looked at.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from .atomic import write_atomically

__all__ = ["Container", "ModelFileError", "read_container", "write_container"]

Arrays = dict[str, NDArray[Any]]

FORMAT_VERSION = 1
MODEL, CHECKPOINT = "model", "checkpoint"
_ADVICE = {MODEL: "read it with ddlearn.load(path)", CHECKPOINT: "resume it with ddlearn.Checkpoint(path, resume=True)"}

# A header of this size would hold the names of half a million features; what claims more is not ours.
MAX_HEADER_BYTES = 2**24
_LENGTH_BYTES = 8
_ENTRY = "ddlearn"
_NO_DIGEST = "0" * hashlib.sha256().digest_size * 2
# What a value of the wrong type or an array of the wrong shape can make the reading code raise.
_READING_ERRORS = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)


class ModelFileError(ValueError):
    """A file is not a whole and valid model file or checkpoint.

    Examples
    --------
    >>> import ddlearn, tempfile
    >>> with tempfile.NamedTemporaryFile() as empty:
    ...     try:
    ...         ddlearn.load(empty.name)
    ...     except ddlearn.ModelFileError as error:
    ...         print(str(error).removeprefix(empty.name))
     is not a ddlearn file: it has only 0 bytes.
    """


class Container(NamedTuple):
    """What a file holds."""

    content: dict[str, Any]  # JSON
    arrays: Arrays


@contextmanager
def blame_file(path: str | os.PathLike[str]) -> Iterator[None]:
    """Say of errors in the content of a file which file it was."""
    try:
        yield
    except ModelFileError:
        raise
    except _READING_ERRORS as error:
        raise ModelFileError(f"{os.fspath(path)} does not hold what it should: {error}.") from error


def write_container(path: str | os.PathLike[str], kind: str, content: dict[str, Any], arrays: Arrays) -> None:
    """Write a file, in one step.

    Parameters
    ----------
    path : str or path-like
        The file.
    kind : {"model", "checkpoint"}
        What it is.
    content : dict
        JSON.
    arrays : dict of str to ndarray
        Arrays of any numeric dtype that safetensors knows.
    """
    by_columns = sorted(name for name, array in arrays.items() if array.flags.fnc)
    entry = {
        "sha256": _NO_DIGEST,  # first, so that no other text can be taken for it
        "kind": kind,
        "format_version": FORMAT_VERSION,
        "library_version": import_module("ddlearn").__version__,  # the package imports this file, so only now
        "by_columns": by_columns,
        "content": content,
    }
    tensors = {name: np.asarray(array.T if array.flags.fnc else array, order="C") for name, array in arrays.items()}
    text = json.dumps(entry, allow_nan=False, separators=(",", ":"))
    data = bytearray(safetensors.numpy.save(tensors, {_ENTRY: text}))
    n_header = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES], "little")
    if n_header > MAX_HEADER_BYTES:
        raise ValueError(
            f"The names and parameters to be stored take {n_header} bytes, more than the {MAX_HEADER_BYTES} that a "
            "file may have: fit without feature names, or with shorter names of classes."
        )
    place = data.index(_NO_DIGEST.encode())
    data[place : place + len(_NO_DIGEST)] = hashlib.sha256(data).hexdigest().encode()
    write_atomically(path, data)


def read_container(path: str | os.PathLike[str], kind: str) -> Container:
    """Read a file of that kind, or say what is wrong with it.

    Parameters
    ----------
    path : str or path-like
        The file.
    kind : {"model", "checkpoint"}
        What it must be.

    Returns
    -------
    Container
        Content and arrays, as they were written.

    Raises
    ------
    ModelFileError
        If it is anything but a whole file of that kind and of a known version.
    OSError
        If there is no file or it may not be read.
    """
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):  # to open a pipe would wait for a writer
        raise ModelFileError(f"{os.fspath(path)} is not a file{' but a folder' * stat.S_ISDIR(status.st_mode)}.")
    with open(path, "rb") as file, blame_file(path):
        header = _read_header(file, status.st_size)
        entry = _parse_header(header)
        _check_kind(entry, kind)
        data = header + file.read(status.st_size)
        _check_digest(data, entry)
        return Container(entry["content"], _read_arrays(data, entry["by_columns"]))


def _read_header(file: BinaryIO, n_bytes: int) -> bytes:
    """Return the bytes before the arrays, if there are that many."""
    name = file.name
    start = file.read(_LENGTH_BYTES)
    if len(start) < _LENGTH_BYTES:
        raise ModelFileError(f"{name} is not a ddlearn file: it has only {len(start)} bytes.")
    n_header = int.from_bytes(start, "little")
    if n_header > MAX_HEADER_BYTES:
        raise ModelFileError(f"{name} is not a ddlearn file: it claims a header of {n_header} bytes.")
    if _LENGTH_BYTES + n_header > n_bytes:
        raise ModelFileError(f"{name} is cut off: it has {n_bytes} bytes, its header alone {n_header}.")
    return start + file.read(n_header)


def _parse_header(header: bytes) -> dict[str, Any]:
    """Return the entry of the metadata that is ours."""
    try:
        entry = json.loads(json.loads(header[_LENGTH_BYTES:])["__metadata__"][_ENTRY])
        if not isinstance(entry["sha256"], str) or not isinstance(entry["kind"], str):
            raise TypeError("its hash and kind are not text")
        if type(entry["format_version"]) is not int:
            raise TypeError("its format version is not a number")
    except _READING_ERRORS as error:
        raise ValueError(f"its header is damaged, or not that of a ddlearn file ({error})") from error
    return entry


def _check_kind(entry: dict[str, Any], kind: str) -> None:
    version = entry["format_version"]
    if version > FORMAT_VERSION:
        raise ValueError(
            f"it has format version {version}, written by ddlearn {entry.get('library_version')}, while this library "
            f"reads versions up to {FORMAT_VERSION}: upgrade ddlearn"
        )
    if version != FORMAT_VERSION:
        raise ValueError(f"there is no format version {version}")
    if entry["kind"] != kind:
        advice = _ADVICE.get(entry["kind"], "it was not written by ddlearn")
        raise ValueError(f"it is a {entry['kind']}, not a {kind}: {advice}")


def _check_digest(data: bytes, entry: dict[str, Any]) -> None:
    digest = entry["sha256"].encode()
    place = data.find(digest)
    found = hashlib.sha256()
    found.update(memoryview(data)[:place])
    found.update(_NO_DIGEST.encode())
    found.update(memoryview(data)[place + len(_NO_DIGEST) :])
    if found.hexdigest() != entry["sha256"]:
        raise ValueError("it is damaged or cut off: its SHA-256 does not agree with its content")


def _read_arrays(data: bytes, by_columns: list[str]) -> Arrays:
    try:
        arrays = safetensors.numpy.load(data)
    except safetensors.SafetensorError as error:
        raise ValueError(f"its arrays cannot be read ({error})") from error
    # A copy is a plain array of its own, writable and aligned, as those of a fit are.
    return {name: array.T.copy("F") if name in by_columns else array.copy() for name, array in arrays.items()}
