"""The files of the public sets: their formats, checksums and download addresses."""

from __future__ import annotations

import gzip
import io
import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_YALEB_FACE = re.compile(r"yaleB(\d\d)_P00A([+-]\d{3})E([+-]\d\d)\.pgm")
_PGM_HEADER = re.compile(rb"P5\s+(?:#[^\n]*\n\s*)*168\s+192\s+255\s")


@dataclass(frozen=True)
class Source:
    """A data set: one archive of ours, or the files of the original distribution and where to download them."""

    title: str
    archive: str
    read: Callable[[bytes], tuple[NDArray[Any], ...]]  # may raise anything if the content is not as expected
    originals: dict[str, tuple[str, ...]]  # the arrays in each file
    mirrors: tuple[str, ...]


def _read_usps(content: bytes) -> tuple[NDArray[Any], ...]:
    """Read lines of a digit and 256 values from -1 to 1."""
    table = np.loadtxt(io.BytesIO(_unpack(content)), dtype=np.float32, ndmin=2)
    return (table[:, 1:] + 1) / 2, table[:, 0].astype(np.uint8)


def _read_idx(content: bytes) -> tuple[NDArray[Any], ...]:
    """Read MNIST's format: two zeros, the type (8 is uint8), the number of axes, their lengths, then the values."""
    content = _unpack(content)
    if content[:3] != b"\0\0\x08":
        raise ValueError("not an idx file of bytes")
    n_axes = content[3]
    shape = np.frombuffer(content, ">u4", n_axes, offset=4)
    return (np.frombuffer(content, np.uint8, offset=4 + 4 * n_axes).reshape(shape),)


def _unpack(content: bytes) -> bytes:
    # Some servers declare gzip as a transfer encoding, and the download is already decompressed.
    return gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content


def _read_yaleb(content: bytes) -> tuple[NDArray[Any], ...]:
    """Read the faces in the order of subject and file name, each reduced to 96 x 84 pixels."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        paths = {path.rpartition("/")[2]: path for path in archive.namelist()}
        # The pattern excludes ambient light, images marked .bad, and files added by file managers.
        faces = [match for match in map(_YALEB_FACE.fullmatch, sorted(paths)) if match]
        images = [_halve(_read_pgm(archive.read(paths[face.string]))) for face in faces]
    subject, azimuth, elevation = np.array([face.groups() for face in faces]).astype(np.int16).T
    person = np.unique(subject, return_inverse=True)[1]
    return np.stack(images), person.astype(np.uint8), subject.astype(np.uint8), azimuth, elevation


def _read_pgm(content: bytes) -> NDArray[np.uint8]:
    header = _PGM_HEADER.match(content)
    if header is None:
        raise ValueError("not a binary PGM image of 192 x 168 pixels")
    return np.frombuffer(content, np.uint8, offset=header.end()).reshape(192, 168)


def _halve(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the means of 2 x 2 pixels, rounded half up."""
    height, width = image.shape
    total = image.reshape(height // 2, 2, width // 2, 2).sum(axis=(1, 3), dtype=np.uint16)
    return ((total + 2) // 4).astype(np.uint8)


# Of an archive, the checksum of the file; of an original file, that of the arrays converted from it (files.py), so that
# files from any mirror, compressed in any way, are accepted.
SHA256 = {
    "usps.npz": "5ef472409c949aacd83a55ec0470fc65a5a1f9933360e7035a442e0dec6896c7",
    "zip.train.gz": "f175e99738c3e6e022f1f5b124cfee0c4819251805ba25557da6a6ba215f2357",
    "zip.test.gz": "79021f607637959c39f7c84174ab940f1e1c13c6cc9e286ab03468bf068aec22",
    "mnist.npz": "d2fc8bab397b964798b4c839bd1e705e10a4bb65f4d56a88002229d145796751",
    "train-images-idx3-ubyte.gz": "157fe16da1dbced4a1376f4be5df2d665d51d11177dcaf7aa4848b1ff033343f",
    "train-labels-idx1-ubyte.gz": "e6a049a9876d2010dddfc2322bb8cad03f5934de9a0b5012c7251eca5b5a7201",
    "t10k-images-idx3-ubyte.gz": "fbf9701b11f5659e6366884b0bbf01ea129fb049e3239251eddb226ada72239e",
    "t10k-labels-idx1-ubyte.gz": "6a90c4ebf8538b9b76438e5dddb0f5afc42d636e8e259d894485f9314cdad47d",
    "yaleb.npz": "c72244fc7a3088143402af5b23de20519de6d25d7f876684156e45075d0f932f",
    "CroppedYale.zip": "89040d9012ce1dad6aa332bfd793ccb1b1009744e0321757bf88682f7466f603",
}

# Addresses in wide use; none has been tested, and the faces are reported to be gone from theirs
# (tensorly/Proceedings_IEEE_companion_notebooks, issue 6).
SOURCES = {
    "usps": Source(
        "USPS",
        "usps.npz",
        _read_usps,
        {"zip.train.gz": ("X_train", "y_train"), "zip.test.gz": ("X_test", "y_test")},
        (
            "https://hastie.su.domains/ElemStatLearn/datasets/",
            "https://web.stanford.edu/~hastie/ElemStatLearn/datasets/",
        ),
    ),
    "mnist": Source(
        "MNIST",
        "mnist.npz",
        _read_idx,
        {
            "train-images-idx3-ubyte.gz": ("X_train",),
            "train-labels-idx1-ubyte.gz": ("y_train",),
            "t10k-images-idx3-ubyte.gz": ("X_test",),
            "t10k-labels-idx1-ubyte.gz": ("y_test",),
        },
        ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/"),
    ),
    "yaleb": Source(
        "Extended Yale B",
        "yaleb.npz",
        _read_yaleb,
        {"CroppedYale.zip": ("X", "y", "subject", "azimuth", "elevation")},
        ("http://vision.ucsd.edu/extyaleb/CroppedYaleBZip/",),
    ),
}
