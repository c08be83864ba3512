"""What the claims are tried on: one data set, one K and T, some seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .trials import Trial


class Setup(NamedTuple):
    """A data set and the size of the models."""

    dataset: str = "usps"
    n_components: int = 300
    n_nonzero_coefs: int = 3
    seeds: Sequence[int] = (0, 1, 2)
    max_train: int | None = None
    max_test: int | None = None

    def make_trial(self, method: str, settings: dict[str, Any], seed: int, **details: Any) -> Trial:
        """Return a trial of this size."""
        size = {"n_components": self.n_components, "n_nonzero_coefs": self.n_nonzero_coefs}
        limits: dict[str, Any] = {"max_train": self.max_train, "max_test": self.max_test}
        return Trial(self.dataset, method, size | settings, seed=seed, **limits, **details)
