"""Sparse rows of numbered features, as SVMlight and LIBSVM write them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .errors import check_size
from .labels import to_labels
from .samples import Samples

SPARSE_SUFFIXES = (".svm", ".libsvm", ".svmlight")


def read_svmlight(path: Path, n_features: int | None) -> Samples:
    """Read a sparse file into an array with its zeros."""
    from sklearn.datasets import load_svmlight_file

    # As in LIBSVM, features are counted from 1, unless one has the number 0.
    X, y = load_svmlight_file(str(path), n_features=n_features, dtype=np.float32)
    check_size(path, X.shape, X.dtype.itemsize, "most of it zeros: choose fewer features")
    return Samples(X.toarray(), to_labels(np.asarray(y), str(path)))
