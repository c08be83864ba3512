"""Adam (Kingma and Ba, 2015) for a model whose atoms keep unit norm, with steps that decrease along a cosine."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..kernels.backward import normalise_rows, step_rows
from ..model.codes import Floats
from ..parallel import map_blocks, split_rows
from .backward import RefinedModel

# The usual decay rates of Adam's averages, and what keeps its quotient finite.
_KEEP_MEAN = 0.9
_KEEP_SQUARE = 0.999
_TINY = 1e-8
_BLOCK_ATOMS = 256


@dataclass
class Adam:
    """A model, the running averages of its gradient and squared gradient, and the number of steps so far."""

    model: RefinedModel
    mean: RefinedModel
    square: RefinedModel
    n_steps: int = 0

    @classmethod
    def of(cls, model: RefinedModel) -> Adam:
        """Return the state before the first step."""
        mean, square = (RefinedModel(*map(np.zeros_like, model)) for _ in range(2))
        return cls(model, mean, square)

    def copy(self) -> Adam:
        """Return the state in other memory, which steps change in place."""
        return replace(self, model=self.model.copy(), mean=self.mean.copy(), square=self.square.copy())

    def step(self, gradient: RefinedModel, sizes: tuple[float, ...], n_jobs: int | None = None) -> None:
        """Take one step, of the given sizes for D, U, V and b; atoms have unit norm after it."""
        self.n_steps += 1
        as_number = self.model.dictionary.dtype.type  # a float64 among float32 would make the kernel compute in float64
        keep = as_number(_KEEP_MEAN), as_number(_KEEP_SQUARE)
        # Averages that began with zero are too small by what they still hold of it.
        scales = as_number(1 / (1 - _KEEP_MEAN**self.n_steps)), as_number(1 / (1 - _KEEP_SQUARE**self.n_steps))
        of_atoms, of_own_coef, of_linear_coef, of_intercept = (
            (tuple(map(np.atleast_2d, arrays)), as_number(size))
            for *arrays, size in zip(gradient, self.mean, self.square, self.model, sizes, strict=True)
        )

        def step(arrays: tuple[Floats, ...], size: np.floating, rows: slice) -> None:
            slopes, means, squares, values = (array[rows] for array in arrays)
            step_rows(slopes, means, squares, *keep, *scales, size, as_number(_TINY), values)

        def step_atoms(atoms: slice, _: None) -> None:
            step(*of_atoms, atoms)
            normalise_rows(self.model.dictionary[atoms])
            step(*of_own_coef, atoms)

        blocks = split_rows(len(self.model.dictionary), _BLOCK_ATOMS, unit=_BLOCK_ATOMS)
        map_blocks(step_atoms, blocks, lambda: None, n_jobs=n_jobs)
        step(*of_linear_coef, slice(None))
        step(*of_intercept, slice(None))


def anneal(share_done: float) -> float:
    """Return the step size as a share of the first."""
    return 0.5 * (1 + np.cos(np.pi * share_done))
