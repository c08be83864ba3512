"""The descriptions by name, and which of them suits the samples.

"auto" takes unit norm for images, since light and ink change the norm of an image and not its class; for other samples
unit norm or standardised features, whichever leaves fewer of at most 1000 with a nearest neighbour of another class.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from ..model.codes import Floats
from ..model.strategies import Registry
from ..parallel import Parts, single_threaded_blas
from .base import IDENTITY, Description, Rows, take_some
from .gradients import Gradients
from .missing import describe_and_fill
from .standard import Standard, warn_of_outliers
from .transformer import Transformed
from .unit import UnitNorm

_FEW_ROWS = 100  # that are described by two descriptions, to compare them
_SAME_ROWS = 1e-5  # other samples differ by one over the root of their number


class _SomeRows(NamedTuple):
    X: Floats
    labels: NDArray[np.int8]
    first_row: int = 0


def _count_strange_neighbours(some: Parts[Rows], description: Description) -> int:
    """Return how many samples have other labels than the nearest of the other samples."""
    (rows,) = some.gather()
    if len(rows.X) <= 1:
        return 0
    X = describe_and_fill(description.learn(some), rows.X)[0].astype(np.float64)
    with single_threaded_blas():
        distances = np.vecdot(X, X) - 2 * X @ X.T  # less the squared norm of the sample itself
    np.fill_diagonal(distances, np.inf)
    return int(np.count_nonzero((rows.labels[distances.argmin(axis=1)] != rows.labels).any(axis=1)))


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


def make_description(description: Any, image_shape: tuple[int, int] | None) -> Description:
    """Return the description, its parameter ``image_shape``, if there is one and it is open, set to that of images."""
    resolved: Description = DESCRIPTIONS.resolve(description)
    if image_shape is not None and getattr(resolved, "image_shape", ()) is None:
        return clone(resolved).set_params(image_shape=image_shape)
    return resolved


def list_rivals(are_images: bool) -> list[Description]:
    """Return the descriptions from which "auto" chooses."""
    return [UnitNorm()] if are_images else [UnitNorm(), Standard()]


def choose_description(parts: Parts[Rows], n_samples: int, are_images: bool) -> Description:
    """Return the description that suits the samples."""
    rivals = list_rivals(are_images)
    if len(rivals) == 1 or n_samples == 1:
        return rivals[0]
    X, labels = take_some(parts, n_samples)
    some = Parts([_SomeRows(X[labels.any(axis=1)], labels[labels.any(axis=1)])])
    return min(rivals, key=partial(_count_strange_neighbours, some))


def is_learned_from(description: Description, X: Floats) -> bool:
    """Return whether a description has learned from these samples, in any order; False if it learns nothing."""
    if not description.learned:
        return False
    unlearned = clone(description).set_params(**dict.fromkeys(description.learned))
    again = unlearned.learn(Parts([_SomeRows(X, np.zeros((len(X), 1), np.int8))]))
    some = X[:_FEW_ROWS].copy()
    some[np.indices(some.shape).sum(axis=0) % 2 == 0] = np.nan  # since estimated norms depend on what was learned
    rows, rows_again = (one.apply(some) for one in (description, again))
    return bool(np.allclose(rows, rows_again, rtol=0, atol=_SAME_ROWS, equal_nan=True))


def fit_description(
    description: Any, parts: Parts[Rows], n_samples: int, image_shape: tuple[int, int] | None
) -> Description:
    """Learn a description from training samples, the one that suits them if it is "auto"."""
    if isinstance(description, str) and description == "auto":
        description = choose_description(parts, n_samples, are_images=image_shape is not None)
    learned = make_description(description, image_shape).learn(parts)
    if "deviation" in learned.learned:
        numbers: Any = learned.export()
        warn_of_outliers(parts, n_samples, numbers["mean"], numbers["deviation"])
    return learned
