"""The public sets: their files, how these are read and verified, and where they can be downloaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from .formats import read_idx, read_usps_text, read_yaleb_zip


@dataclass(frozen=True)
class Original:
    """A file of the original distribution, which holds some of the arrays."""

    name: str
    arrays: tuple[str, ...]
    read: Callable[[bytes], tuple[NDArray[Any], ...]]
    digest: str


@dataclass(frozen=True)
class Source:
    """A data set: one archive of ours, or the original files, and where those can be downloaded."""

    title: str
    archive: str
    sha256: str
    originals: tuple[Original, ...]
    mirrors: tuple[str, ...]


# What is verified.  `sha256` is that of our archive; no address of it is public, so archives are only found in folders.
# `digest` is that of the arrays which an original file is converted to (see files.py), computed from our archive: we
# know no checksum of the original files themselves, and this way a file from any mirror, packed in any way, will do.
# The addresses are those in wide use (for MNIST one of torchvision's, for USPS the book's page, for the faces their
# authors' page).  None could be tried where this was written, and the faces are reported to be gone from theirs
# (tensorly/Proceedings_IEEE_companion_notebooks, issue 6).
SOURCES = {
    "usps": Source(
        title="USPS",
        archive="usps.npz",
        sha256="5ef472409c949aacd83a55ec0470fc65a5a1f9933360e7035a442e0dec6896c7",
        originals=(
            Original(
                "zip.train.gz",
                ("X_train", "y_train"),
                read_usps_text,
                "f175e99738c3e6e022f1f5b124cfee0c4819251805ba25557da6a6ba215f2357",
            ),
            Original(
                "zip.test.gz",
                ("X_test", "y_test"),
                read_usps_text,
                "79021f607637959c39f7c84174ab940f1e1c13c6cc9e286ab03468bf068aec22",
            ),
        ),
        mirrors=(
            "https://hastie.su.domains/ElemStatLearn/datasets/",
            "https://web.stanford.edu/~hastie/ElemStatLearn/datasets/",
        ),
    ),
    "mnist": Source(
        title="MNIST",
        archive="mnist.npz",
        sha256="d2fc8bab397b964798b4c839bd1e705e10a4bb65f4d56a88002229d145796751",
        originals=(
            Original(
                "train-images-idx3-ubyte.gz",
                ("X_train",),
                read_idx,
                "157fe16da1dbced4a1376f4be5df2d665d51d11177dcaf7aa4848b1ff033343f",
            ),
            Original(
                "train-labels-idx1-ubyte.gz",
                ("y_train",),
                read_idx,
                "e6a049a9876d2010dddfc2322bb8cad03f5934de9a0b5012c7251eca5b5a7201",
            ),
            Original(
                "t10k-images-idx3-ubyte.gz",
                ("X_test",),
                read_idx,
                "fbf9701b11f5659e6366884b0bbf01ea129fb049e3239251eddb226ada72239e",
            ),
            Original(
                "t10k-labels-idx1-ubyte.gz",
                ("y_test",),
                read_idx,
                "6a90c4ebf8538b9b76438e5dddb0f5afc42d636e8e259d894485f9314cdad47d",
            ),
        ),
        mirrors=(
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
        ),
    ),
    "yaleb": Source(
        title="Extended Yale B",
        archive="yaleb.npz",
        sha256="c72244fc7a3088143402af5b23de20519de6d25d7f876684156e45075d0f932f",
        originals=(
            Original(
                "CroppedYale.zip",
                ("X", "y", "subject", "azimuth", "elevation"),
                read_yaleb_zip,
                "89040d9012ce1dad6aa332bfd793ccb1b1009744e0321757bf88682f7466f603",
            ),
        ),
        mirrors=("http://vision.ucsd.edu/extyaleb/CroppedYaleBZip/",),
    ),
}
