"""Numbers of a coder that the data decide: how they are found once, and kept."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

from .coders import SparseCoder

# So many samples tell what all of them would.
_MOST_SAMPLES = 1000


def count_stride(n_samples: int) -> int:
    """Return s such that every s-th sample is enough for a coder to adapt to."""
    return -(-n_samples // _MOST_SAMPLES)


def get_numbers(sparse_coder: SparseCoder) -> dict[str, float]:
    """Return the numbers among a coder's parameters, such as a file keeps for :func:`recall_numbers`."""
    parameters: dict[str, Any] = getattr(sparse_coder, "get_params", dict)()
    return {name: value for name, value in parameters.items() if type(value) is float}


def recall_numbers(sparse_coder: SparseCoder, numbers: dict[str, Any]) -> SparseCoder:
    """Return a coder that has adapted before with the numbers it had then; one that has nothing to adapt as it is."""
    if getattr(sparse_coder, "is_adapted", True):
        return sparse_coder
    parameters = sparse_coder.get_params()
    return clone(sparse_coder).set_params(**{name: value for name, value in numbers.items() if name in parameters})
