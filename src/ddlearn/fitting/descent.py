"""One step down a gradient: Adam (Kingma and Ba, 2015) with steps that fall along a cosine."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..kernels.gradient import normalise_rows, step_rows
from ..parallel import map_blocks
from .gradient import RefinedModel

Floats = NDArray[np.floating]

# The usual decay rates of Adam's averages, and what keeps its quotient finite.
_KEEP_MEAN = 0.9
_KEEP_SQUARE = 0.999
_TINY = 1e-8
_BLOCK_ATOMS = 64


class Moments(NamedTuple):
    """Adam's running averages of the gradient and its square, and how many gradients they have seen."""

    mean: RefinedModel
    square: RefinedModel
    n_steps: int

    @classmethod
    def zero(cls, model: RefinedModel) -> Moments:
        """Return averages of nothing."""
        mean, square = (RefinedModel(*map(np.zeros_like, model)) for _ in range(2))
        return cls(mean, square, 0)

    def copy(self) -> Moments:
        """Return the same in other memory."""
        return Moments(self.mean.copy(), self.square.copy(), self.n_steps)


class StepSizes(NamedTuple):
    """How far a step goes."""

    dictionary: float
    coef: float
    intercept: float


def anneal(share_done: float) -> float:
    """Return the share of the first step size that is left."""
    return 0.5 * (1 + np.cos(np.pi * share_done))


def descend(
    model: RefinedModel, gradient: RefinedModel, moments: Moments, sizes: StepSizes, n_jobs: int | None
) -> Moments:
    """Change a model in place by one step, with atoms of unit norm after it; return the averages."""
    n_steps = moments.n_steps + 1
    as_number = model.dictionary.dtype.type  # a float64 among float32 would make the kernel compute in float64
    keep = as_number(_KEEP_MEAN), as_number(_KEEP_SQUARE)
    # Averages that began with zero are too small by what they would have kept of it.
    scales = as_number(1 / (1 - _KEEP_MEAN**n_steps)), as_number(1 / (1 - _KEEP_SQUARE**n_steps))

    def step(rows: slice, name: str, size: float) -> None:
        everything = gradient, moments.mean, moments.square, model
        slopes, means, squares, values = (np.atleast_2d(getattr(each, name))[rows] for each in everything)
        step_rows(slopes, means, squares, *keep, *scales, as_number(size), as_number(_TINY), values)

    def step_atoms(atoms: slice, _: None) -> None:
        step(atoms, "dictionary", sizes.dictionary)
        normalise_rows(model.dictionary[atoms])
        step(atoms, "coef_by_atom", sizes.coef)

    starts = range(0, len(model.dictionary), _BLOCK_ATOMS)
    blocks = [slice(start, min(start + _BLOCK_ATOMS, len(model.dictionary))) for start in starts]
    map_blocks(step_atoms, blocks, lambda: None, n_jobs=n_jobs)
    step(slice(0, 1), "intercept", sizes.intercept)
    return moments._replace(n_steps=n_steps)
