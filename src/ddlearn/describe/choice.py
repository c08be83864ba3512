"""The descriptions by name, and which of them suits the samples.

"auto" takes unit norm for images, since light and ink change the norm of an image and not its class; for other samples
unit norm or standardised features, whichever leaves fewer of at most 1000 with a nearest neighbour of another class.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..model.codes import Floats
from ..model.strategies import Registry
from ..parallel import LocalParts, Parts, single_threaded_blas
from .base import IDENTITY, Description, Rows, take_some
from .gradients import Gradients
from .standard import Standard
from .transformer import Transformed
from .unit import UnitNorm


class _SomeRows(NamedTuple):
    X: Floats
    labels: NDArray[np.int8]
    first_row: int = 0


def _count_strange_neighbours(description: Description, some: LocalParts[Rows]) -> int:
    """Return how many samples have other labels than the nearest of the other samples."""
    (rows,) = some.gather()
    scaled = rows.X[:0]
    if len(rows.X) > 1:
        scaled = description.learn(some).apply_and_fill(rows.X)[0].astype(np.float64)
    with single_threaded_blas():
        distances = np.vecdot(scaled, scaled) - 2 * scaled @ scaled.T  # less the squared norm of the sample itself
    np.fill_diagonal(distances, np.inf)
    nearest = distances.argmin(axis=1) if len(scaled) else []
    return int(np.count_nonzero((rows.labels[nearest] != rows.labels[: len(scaled)]).any(axis=1)))


def _make_description(description: Any) -> Any:
    """Return the description that None, or a transformer of scikit-learn, stands for."""
    if description is None:
        return IDENTITY
    is_transformer = not isinstance(description, str | type | Description) and hasattr(description, "transform")
    return Transformed(description) if is_transformer else description


DESCRIPTIONS: Registry[Description] = Registry(
    "description",
    Description,
    {"unit": UnitNorm, "standard": Standard, "gradients": Gradients},
    shorthand=_make_description,
)


def choose_description(parts: Parts[Rows], n_samples: int, are_images: bool) -> Description:
    """Return the description that suits the samples."""
    if are_images or n_samples == 1:
        return UnitNorm()
    X, labels = take_some(parts, n_samples)
    some = LocalParts([_SomeRows(X[labels.any(axis=1)], labels[labels.any(axis=1)])])
    rivals = UnitNorm(), Standard()
    n_strange = [_count_strange_neighbours(description, some) for description in rivals]
    return rivals[n_strange.index(min(n_strange))]


def fit_description(scale: Any, parts: Parts[Rows], n_samples: int, image_shape: tuple[int, int] | None) -> Description:
    """Learn a description from training samples, the one that suits them if it is "auto"."""
    is_open = isinstance(scale, str) and scale == "auto"
    are_images = image_shape is not None
    description = (
        choose_description(parts, n_samples, are_images)
        if is_open
        else DESCRIPTIONS.resolve(scale).of_images(image_shape)
    )
    description = description.learn(parts)
    description.warn_of_outliers(parts, n_samples)
    return description
