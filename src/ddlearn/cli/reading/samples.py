"""What was read: samples, their labels, and what is known of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class BrokenImage(NamedTuple):
    """An image file that could not be read, and why.

    Parameters
    ----------
    name : str
        The file.
    reason : str
        What is wrong with it.

    Examples
    --------
    >>> from ddlearn.cli.reading import BrokenImage
    >>> BrokenImage("cats/7.png", "cut short").name
    'cats/7.png'
    """

    name: str
    reason: str


class Samples(NamedTuple):
    """What was read.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        The samples, float32 or float64.  Of data in parts, a Dask array, of which nothing has been read yet.
    labels : ndarray of shape (n_samples,) or None
        Their classes: integers if all of them are, otherwise text; None if the source has none.  Of data in parts, a
        Dask array in the same chunks as the samples.
    feature_names : list of str or None
        Names of the columns, where the source has them.
    image_shape : tuple of int or None
        Height and width, or height, width and 3 for colour, where the samples are known to be images.
    sample_names : list of str or None
        Names of the samples, where they have some: the files of a folder of images.
    broken : list of BrokenImage
        Images that were left out.

    Examples
    --------
    >>> from ddlearn.cli.reading import read_data
    >>> read_data("digits").image_shape
    (8, 8)
    """

    X: NDArray[np.floating] | Any
    labels: NDArray[Any] | Any | None = None
    feature_names: list[str] | None = None
    image_shape: tuple[int, ...] | None = None
    sample_names: list[str] | None = None
    broken: Sequence[BrokenImage] = ()
