"""Adam (Kingma and Ba, 2015) for a model whose atoms keep unit norm, with steps that decrease along a cosine."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..kernels.gradient import normalise_rows, step_rows
from ..model.codes import Floats
from ..parallel import map_blocks, split_rows
from .backward import Parameters

# The usual decay rates of Adam's averages, and what keeps its quotient finite.
_KEEP_MEAN = 0.9
_KEEP_SQUARE = 0.999
_TINY = 1e-8
_BLOCK_ATOMS = 256


class Moments(NamedTuple):
    """Adam's running averages of the gradient and its square, and how many gradients they have seen."""

    mean: Parameters
    square: Parameters
    n_steps: int

    @classmethod
    def zero(cls, model: Parameters) -> Moments:
        """Return the averages before the first step."""
        mean, square = (Parameters(*map(np.zeros_like, model)) for _ in range(2))
        return cls(mean, square, 0)

    def copy(self) -> Moments:
        """Return the same in other memory."""
        return Moments(self.mean.copy(), self.square.copy(), self.n_steps)


class StepSizes(NamedTuple):
    """The sizes of a step."""

    dictionary: float
    own_coef: float
    linear_coef: float
    intercept: float


def anneal(share_done: float) -> float:
    """Return the step size as a share of the first."""
    return 0.5 * (1 + np.cos(np.pi * share_done))


def descend(model: Parameters, gradient: Parameters, moments: Moments, sizes: StepSizes, n_jobs: int | None) -> Moments:
    """Change a model in place by one step, with atoms of unit norm after it; return the averages."""
    n_steps = moments.n_steps + 1
    as_number = model.dictionary.dtype.type  # a float64 among float32 would make the kernel compute in float64
    keep = as_number(_KEEP_MEAN), as_number(_KEEP_SQUARE)
    # Averages that began with zero are too small by what they still hold of it.
    scales = as_number(1 / (1 - _KEEP_MEAN**n_steps)), as_number(1 / (1 - _KEEP_SQUARE**n_steps))

    tiny = as_number(_TINY)
    of_atoms, of_own_coef, of_linear_coef, of_intercept = (
        (tuple(map(np.atleast_2d, arrays)), as_number(size))
        for *arrays, size in zip(gradient, moments.mean, moments.square, model, sizes, strict=True)
    )

    def step(arrays: tuple[Floats, ...], size: np.floating, rows: slice) -> None:
        slopes, means, squares, values = (array[rows] for array in arrays)
        step_rows(slopes, means, squares, *keep, *scales, size, tiny, values)

    def step_atoms(atoms: slice, _: None) -> None:
        step(*of_atoms, atoms)
        normalise_rows(model.dictionary[atoms])
        step(*of_own_coef, atoms)

    blocks = split_rows(len(model.dictionary), _BLOCK_ATOMS, unit=_BLOCK_ATOMS)
    map_blocks(step_atoms, blocks, lambda: None, n_jobs=n_jobs)
    step(*of_linear_coef, slice(None))
    step(*of_intercept, slice(None))
    return moments._replace(n_steps=n_steps)
