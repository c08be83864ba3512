"""What the loaders of images share: the official parts, pixels from 0 to 1, and the bunch that they return."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch


def bundle(
    images: NDArray[np.float32],
    target: NDArray[Any],
    target_names: NDArray[Any],
    description: str,
    return_X_y: bool,
    **more: NDArray[Any],
) -> Bunch | tuple[NDArray[Any], NDArray[Any]]:
    """Return images, their pixels as rows, and their labels as a bunch, or rows and labels alone."""
    data = images.reshape(len(images), -1)
    target = target.astype(np.int64)  # files hold uint8, in which differences of labels overflow
    if return_X_y:
        return data, target
    return Bunch(
        data=data,
        target=target,
        target_names=target_names,
        images=images,
        image_shape=images.shape[1:],
        DESCR=description,
        **more,
    )


def scale(values: NDArray[Any], white: float) -> NDArray[np.float32]:
    """Return pixels from 0 to 1, of which white is 1."""
    return np.divide(values, white, dtype=np.float32)


def subset_parts(subset: str) -> tuple[str, ...]:
    """List the parts of an official split that a subset consists of."""
    check_subset(subset)
    return ("train", "test") if subset == "all" else (subset,)


def check_subset(subset: str) -> None:
    """Raise ValueError if there is no such subset."""
    if subset not in ("train", "test", "all"):
        raise ValueError(f"subset must be 'train', 'test' or 'all', got {subset!r}.")


def join(arrays: Mapping[str, NDArray[Any]], name: str, parts: tuple[str, ...]) -> NDArray[Any]:
    """Return the arrays of a name, of all parts, as one."""
    return np.concatenate([arrays[f"{name}_{part}"] for part in parts])
