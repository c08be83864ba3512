"""The file format of models and checkpoints: arrays and a JSON header, verified before they are used.

The file is a safetensors file, which any tool for that format opens.  Its metadata have one entry, "ddlearn", a JSON
object with the SHA-256 of the whole file (computed with zeros in its place), the kind of file, the versions of the
format and of the library, the names of arrays in column-major order, and the content, which depends on the kind.
Nothing in a file is ever executed.

A reader trusts nothing: the length of the header is compared with the size of the file and a limit before the header
is read, the size of the file with what the header describes before the rest is read, kind and version are checked
first, and the hash before the content is used.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from .. import __version__
from .store import locate

Json = Any
Arrays = dict[str, NDArray[Any]]

FORMAT_VERSION = 6
MODEL, CHECKPOINT, ROWS = "model", "checkpoint", "rows"
_ADVICE = {
    MODEL: "read it with ddlearn.load(path)",
    CHECKPOINT: "resume it with ddlearn.Checkpoint(path, resume=True)",
    ROWS: "it belongs to the checkpoint beside its folder",
}

# A header of this size would hold the names of a quarter of a million features; a larger one is not ours.
MAX_HEADER_BYTES = 2**23
# Lists and objects in the content, and how deep they are nested: each takes far more memory than its two characters.
_MOST_NODES = 100_000
_DEEPEST_NODE = 20
_LENGTH_BYTES = 8
_ENTRY = "ddlearn"
_NO_DIGEST = "0" * hashlib.sha256().digest_size * 2
# What a value of the wrong type or an array of the wrong shape can raise while a file is read.
_READING_ERRORS = (
    *(ValueError, TypeError, LookupError, AttributeError, NameError, ArithmeticError, RecursionError, MemoryError),
)
_LONGEST_MESSAGE = 1000  # characters: what a stranger has put into a file may be printed


class ModelFileError(ValueError):
    """A file is not a complete and valid model file or checkpoint.

    Examples
    --------
    >>> import ddlearn, tempfile
    >>> with tempfile.NamedTemporaryFile() as empty:
    ...     try:
    ...         ddlearn.load(empty.name)
    ...     except ddlearn.ModelFileError as error:
    ...         print(str(error).removeprefix(empty.name))
     cannot be read: it is not a ddlearn file, since it has only 0 bytes.
    """


class Container(NamedTuple):
    """What a file holds."""

    content: dict[str, Json]
    arrays: Arrays


@contextmanager
def blame_file(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn errors in the content of a file into a ModelFileError that names the file."""
    try:
        yield
    except ModelFileError:
        raise
    except _READING_ERRORS as error:
        message = str(error).rstrip(".")
        if len(message) > _LONGEST_MESSAGE:
            message = f"{message[: _LONGEST_MESSAGE // 2]} ... {message[-_LONGEST_MESSAGE // 4 :]}"
        raise ModelFileError(f"{os.fspath(path)} cannot be read: {message}.") from error


def write_container(path: str | os.PathLike[str], kind: str, content: dict[str, Json], arrays: Arrays) -> None:
    """Write a file in one step; arrays have a numeric dtype that safetensors supports."""
    entry = {
        "sha256": _NO_DIGEST,  # first, so that no other text can be mistaken for it
        "kind": kind,
        "format_version": FORMAT_VERSION,
        "library_version": __version__,
        "by_columns": sorted(name for name, array in arrays.items() if array.flags.fnc),
        "content": content,
    }
    tensors = {name: np.asarray(array.T if array.flags.fnc else array, order="C") for name, array in arrays.items()}
    text = json.dumps(entry, allow_nan=False, separators=(",", ":"))
    data = safetensors.numpy.save(tensors, {_ENTRY: text})
    n_header = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES], "little")
    if n_header > MAX_HEADER_BYTES:
        raise ValueError(
            f"The names and parameters to be stored take {n_header} bytes, more than the {MAX_HEADER_BYTES} that a "
            "file may have: fit without feature names, or with shorter names of classes."
        )
    before, after = data.split(_NO_DIGEST.encode(), 1)
    files, path = locate(path)
    files.pipe_file(path, b"".join([before, hashlib.sha256(data).hexdigest().encode(), after]))


def read_container(path: str | os.PathLike[str], kind: str) -> Container:
    """Read a file of that kind, or raise a ModelFileError."""
    files, place = locate(path)
    found = files.info(place)
    if found["type"] != "file":  # opening a pipe would wait for a writer
        raise ModelFileError(f"{os.fspath(path)} is not a file{' but a folder' * (found['type'] == 'directory')}.")
    with files.open(place, "rb") as file, blame_file(path):
        header, size = _read_header(file, found["size"]), found["size"]
        entry, n_bytes = _parse_header(header)
        _check_kind(entry, kind)
        if size != n_bytes:
            raise ValueError(f"it is damaged or truncated: it has {size} bytes instead of {n_bytes}")
        file.seek(0)
        data = file.read(n_bytes)
        _check_digest(data, entry)
        _check_nodes(entry["content"])
        return Container(entry["content"], _read_arrays(data, entry["by_columns"]))


def _read_header(file: BinaryIO, n_bytes: int) -> bytes:
    """Return the bytes before the arrays, if the file is large enough."""
    start = file.read(_LENGTH_BYTES)
    n_header = int.from_bytes(start, "little")
    if len(start) < _LENGTH_BYTES:
        raise ValueError(f"it is not a ddlearn file, since it has only {len(start)} bytes")
    if n_header > MAX_HEADER_BYTES:
        raise ValueError(f"it is not a ddlearn file, since it claims a header of {n_header} bytes")
    if _LENGTH_BYTES + n_header > n_bytes:
        raise ValueError(f"it is truncated: it has {n_bytes} bytes, but its header alone has {n_header}")
    return start + file.read(n_header)


def _parse_header(header: bytes) -> tuple[dict[str, Any], int]:
    """Return the entry of the metadata that is ours, and the size of the file according to the header."""
    try:
        described = json.loads(header[_LENGTH_BYTES:])
        entry = json.loads(described.pop("__metadata__")[_ENTRY])
        if [type(entry[name]) for name in ("sha256", "kind", "format_version")] != [str, str, int]:
            raise TypeError("its hash, kind or version has the wrong type")
        return entry, len(header) + max((tensor["data_offsets"][1] for tensor in described.values()), default=0)
    except _READING_ERRORS as error:
        raise ValueError(f"its header is damaged, or not that of a ddlearn file ({error})") from error


def _check_nodes(content: Json) -> None:
    """Refuse content with so many lists and objects, or so deep ones, that to use it would take memory and time."""
    if not isinstance(content, dict):
        raise TypeError(f"its content is a {type(content).__name__}")
    n_nodes, level = 0, [content]
    for _ in range(_DEEPEST_NODE):
        children = (one.values() if isinstance(one, dict) else one for one in level)
        level = [one for some in children for one in some if isinstance(one, dict | list)]
        n_nodes += len(level)
        if not level:
            return
        if n_nodes > _MOST_NODES:
            break
    raise ValueError(f"its content has more than {_MOST_NODES} lists, or lists nested deeper than {_DEEPEST_NODE}")


def _check_kind(entry: dict[str, Any], kind: str) -> None:
    version, writer = entry["format_version"], f"written by ddlearn {entry.get('library_version')}"
    if version > FORMAT_VERSION:
        raise ValueError(
            f"it has format version {version}, {writer}, while this version of ddlearn reads versions up to "
            f"{FORMAT_VERSION}: upgrade ddlearn"
        )
    if version < 1:
        raise ValueError(f"there is no format version {version}")
    if entry["kind"] != kind:
        advice = _ADVICE.get(entry["kind"], "it was not written by ddlearn")
        raise ValueError(f"it is a {entry['kind']}, not a {kind}: {advice}")
    if version != FORMAT_VERSION:
        raise ValueError(
            f"it is a {kind} of the old format version {version}, {writer}, which this version cannot read: "
            "use the version of ddlearn that wrote it, or fit again"
        )


def check_array(name: str, array: NDArray[Any], shape: tuple[int, ...], dtype: Any) -> None:
    """Raise unless an array has that shape and type, and all its values are finite."""
    if array.shape != shape or array.dtype != dtype:
        raise ValueError(f"{name} is {array.dtype} of shape {array.shape}, expected {np.dtype(dtype)} of shape {shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} has values that are not finite")


def _check_digest(data: bytes, entry: dict[str, Any]) -> None:
    place = data.find(entry["sha256"].encode())
    found = hashlib.sha256(memoryview(data)[:place])
    found.update(_NO_DIGEST.encode())
    found.update(memoryview(data)[place + len(_NO_DIGEST) :])
    if found.hexdigest() != entry["sha256"]:
        raise ValueError("it is damaged or truncated: its SHA-256 does not match its content")


def _read_arrays(data: bytes, by_columns: list[str]) -> Arrays:
    try:
        arrays = safetensors.numpy.load(data)
    except safetensors.SafetensorError as error:
        raise ValueError(f"its arrays cannot be read ({error})") from error
    # A copy is a plain array of its own, writable and aligned, as the arrays of a fit are.
    return {name: array.T.copy("F") if name in by_columns else array.copy() for name, array in arrays.items()}
