"""Data sets by their names and parts, such as "usps:train"."""

from __future__ import annotations

from .errors import DataError, suggest
from .samples import Samples

_SUBSETS: dict[str, dict[str, str]] = {"": {}, "train": {"subset": "train"}, "test": {"subset": "test"}}
# Data sets by name: their function in ``datasets``, and what it is asked for each part, as in "usps:train".  Faces have
# no official split: a random half of each person's images is for training, unless the part says "lighting".
NAMED_SETS: dict[str, tuple[str, dict[str, dict[str, str]]]] = {
    "digits": ("load_digits_images", {"": {}}),
    "usps": ("load_usps", _SUBSETS),
    "mnist": ("load_mnist", _SUBSETS),
    "yaleb": (
        "load_yaleb",
        {part: options and options | {"split": "half"} for part, options in _SUBSETS.items()}
        | {f"lighting:{part}": {"split": "lighting", "subset": part} for part in ("train", "test")},
    ),
}


def load_named(text: str) -> Samples:
    """Load a data set by its name and part, such as "usps:train" or "yaleb:lighting:test"."""
    from ... import datasets

    name, _, part = text.partition(":")
    if name not in NAMED_SETS:
        raise DataError(
            f"{text}: there is no such file or folder, and no data set of that name (they are {', '.join(NAMED_SETS)})"
            f"{suggest(name, NAMED_SETS)}"
        )
    function, parts = NAMED_SETS[name]
    if part not in parts:
        known = ", ".join(f"{name}:{part}" if part else name for part in parts)
        raise DataError(f"{text}: there is no such part of this data set, only {known}{suggest(part, parts)}")
    bunch = getattr(datasets, function)(**parts[part])
    return Samples(bunch.data, bunch.target, image_shape=tuple(bunch.image_shape))
