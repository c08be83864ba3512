"""The formats of the original files: USPS's text, MNIST's idx, and Extended Yale B's archive of PGM images.

Each function turns the content of a file into the arrays in it, and may fail in any way if it is another file.
"""

from __future__ import annotations

import gzip
import io
import re
import zipfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

_YALEB_FACE = re.compile(r"yaleB(\d\d)_P00A([+-]\d{3})E([+-]\d\d)\.pgm")
_PGM_HEADER = re.compile(rb"P5\s+(?:#[^\n]*\n\s*)*168\s+192\s+255\s")


def read_usps_text(content: bytes) -> tuple[NDArray[Any], ...]:
    """Read lines of a digit and 256 values from -1 to 1."""
    table = np.loadtxt(io.BytesIO(_unpack(content)), dtype=np.float32, ndmin=2)
    return (table[:, 1:] + 1) / 2, table[:, 0].astype(np.uint8)


def read_idx(content: bytes) -> tuple[NDArray[Any], ...]:
    """Read MNIST's format: two zeros, the type (8 is uint8), the number of axes, their lengths, then the values."""
    content = _unpack(content)
    if content[:3] != b"\0\0\x08":
        raise ValueError("no idx file of bytes")
    n_axes = content[3]
    shape = np.frombuffer(content, ">u4", n_axes, offset=4)
    return (np.frombuffer(content, np.uint8, offset=4 + 4 * n_axes).reshape(shape),)


def read_yaleb_zip(content: bytes) -> tuple[NDArray[Any], ...]:
    """Read the faces by subject and file name, each reduced to 96 x 84 by the mean of 2 x 2 pixels, rounded half up."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        paths = {path.rpartition("/")[2]: path for path in archive.namelist()}
        # The pattern leaves out ambient light, images marked .bad, and what file managers add.
        faces = [match for match in map(_YALEB_FACE.fullmatch, sorted(paths)) if match]
        images = [_halve(_read_pgm(archive.read(paths[face.string]))) for face in faces]
    subject, azimuth, elevation = np.array([face.groups() for face in faces]).astype(np.int16).T
    person = np.unique(subject, return_inverse=True)[1]
    return np.stack(images), person.astype(np.uint8), subject.astype(np.uint8), azimuth, elevation


def _unpack(content: bytes) -> bytes:
    # Some servers declare gzip as an encoding of the transfer, and then it is already undone.
    return gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content


def _read_pgm(content: bytes) -> NDArray[np.uint8]:
    header = _PGM_HEADER.match(content)
    if header is None:
        raise ValueError("no binary PGM image of 192 x 168 pixels")
    return np.frombuffer(content, np.uint8, offset=header.end()).reshape(192, 168)


def _halve(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    height, width = image.shape
    total = image.reshape(height // 2, 2, width // 2, 2).sum(axis=(1, 3), dtype=np.uint16)
    return ((total + 2) // 4).astype(np.uint8)
