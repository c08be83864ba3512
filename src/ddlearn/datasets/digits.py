"""Digits: scikit-learn's of 8 x 8 pixels, USPS of 16 x 16 and MNIST of 28 x 28."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from .downloading import load_arrays
from .images import (
    bundle,
    join,
    scale,
    subset_parts,
)


def load_digits_images(*, return_X_y: bool = False) -> Bunch | tuple[NDArray[Any], NDArray[Any]]:
    """Load scikit-learn's digits: 1797 images of 8 x 8 pixels, which need no file.

    Parameters
    ----------
    return_X_y : bool, default=False
        Whether to return ``(data, target)`` alone.

    Returns
    -------
    Bunch, or tuple of two ndarrays
        With ``data``, float32 of shape (1797, 64), pixels from 0 (background) to 1 (ink); ``images``, the same numbers
        of shape (1797, 8, 8); ``image_shape``; ``target``, the digits; ``target_names``; and ``DESCR``.

    See Also
    --------
    load_usps : Digits of 16 x 16 pixels.
    load_mnist : Digits of 28 x 28 pixels.

    Examples
    --------
    >>> from ddlearn.datasets import load_digits_images
    >>> digits = load_digits_images()
    >>> digits.data.shape, digits.image_shape
    ((1797, 64), (8, 8))
    >>> X, y = load_digits_images(return_X_y=True)
    >>> float(X.min()), float(X.max())
    (0.0, 1.0)
    """
    from sklearn.datasets import load_digits  # late: it would make importing ddlearn slower

    digits = load_digits()
    return bundle(
        scale(digits.images, 16),
        digits.target,
        np.arange(10),
        "scikit-learn's digits: 1797 handwritten digits of 8 x 8 pixels, 0 (background) to 1 (ink), the test part of "
        "Alpaydin and Kaynak, Optical Recognition of Handwritten Digits, UCI, 1998.",
        return_X_y,
    )


def load_usps(
    *, subset: str = "all", data_home: str | os.PathLike[str] | None = None, return_X_y: bool = False
) -> Bunch | tuple[NDArray[Any], NDArray[Any]]:
    """Load the USPS digits: 7291 training and 2007 test images of 16 x 16 pixels, in the official order.

    Parameters
    ----------
    subset : {"train", "test", "all"}, default="all"
        Which part of the official split; "all" is "train" followed by "test".
    data_home : str, path or None, default=None
        The only folder to look in and download to.  By default the folder that the environment variable
        ``DDLEARN_DATA`` names, then ``~/.cache/ddlearn``.
    return_X_y : bool, default=False
        Whether to return ``(data, target)`` alone.

    Returns
    -------
    Bunch, or tuple of two ndarrays
        With ``data``, float32 of shape (n_samples, 256), pixels from 0 (background) to 1 (ink); ``images``, the same
        numbers of shape (n_samples, 16, 16); ``image_shape``; ``target``, the digits; ``target_names``; and ``DESCR``.

    Raises
    ------
    DatasetNotFoundError
        If the set is not in the folders and cannot be downloaded.
    CorruptDatasetError
        If a file is damaged or another version.

    Notes
    -----
    The set is ``usps.npz``, or ``zip.train.gz`` and ``zip.test.gz`` of Hastie, Tibshirani and Friedman, *The Elements
    of Statistical Learning*, whose values :math:`v` from -1 to 1 become :math:`(v + 1) / 2`.

    Examples
    --------
    >>> from ddlearn.datasets import load_usps
    >>> load_usps(subset="train").data.shape  # doctest: +SKIP
    (7291, 256)
    """
    parts = subset_parts(subset)
    arrays = load_arrays("usps", data_home)
    return bundle(
        join(arrays, "X", parts).reshape(-1, 16, 16),
        join(arrays, "y", parts),
        np.arange(10),
        "USPS: digits from envelopes, 7291 for training and 2007 for testing, 16 x 16 pixels, 0 (background) to 1 "
        "(ink), after LeCun et al., 1990, and Hull, IEEE TPAMI 16(5), 1994.",
        return_X_y,
    )


def load_mnist(
    *, subset: str = "all", data_home: str | os.PathLike[str] | None = None, return_X_y: bool = False
) -> Bunch | tuple[NDArray[Any], NDArray[Any]]:
    """Load the MNIST digits: 60000 training and 10000 test images of 28 x 28 pixels, in the official order.

    Parameters
    ----------
    subset : {"train", "test", "all"}, default="all"
        Which part of the official split; "all" is "train" followed by "test".
    data_home : str, path or None, default=None
        The only folder to look in and download to.  By default the folder that the environment variable
        ``DDLEARN_DATA`` names, then ``~/.cache/ddlearn``.
    return_X_y : bool, default=False
        Whether to return ``(data, target)`` alone.

    Returns
    -------
    Bunch, or tuple of two ndarrays
        With ``data``, float32 of shape (n_samples, 784), pixels from 0 (background) to 1 (ink); ``images``, the same
        numbers of shape (n_samples, 28, 28); ``image_shape``; ``target``, the digits; ``target_names``; and ``DESCR``.

    Raises
    ------
    DatasetNotFoundError
        If the set is not in the folders and cannot be downloaded.
    CorruptDatasetError
        If a file is damaged or another version.

    Notes
    -----
    The set is ``mnist.npz``, or the four files ``train-images-idx3-ubyte.gz``, ``train-labels-idx1-ubyte.gz``,
    ``t10k-images-idx3-ubyte.gz`` and ``t10k-labels-idx1-ubyte.gz`` of LeCun, Cortes and Burges.

    Examples
    --------
    >>> from ddlearn.datasets import load_mnist
    >>> load_mnist(subset="test").data.shape  # doctest: +SKIP
    (10000, 784)
    """
    parts = subset_parts(subset)
    arrays = load_arrays("mnist", data_home)
    return bundle(
        scale(join(arrays, "X", parts), 255),
        join(arrays, "y", parts),
        np.arange(10),
        "MNIST: handwritten digits, 60000 for training and 10000 for testing, 28 x 28 pixels, 0 (background) to 1 "
        "(ink), after LeCun, Bottou, Bengio and Haffner, Proc. IEEE 86(11), 1998.",
        return_X_y,
    )
