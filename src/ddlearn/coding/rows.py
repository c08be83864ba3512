r"""The problems of Algorithm 1 for a block of rows, their parabolas, and how a step on them is accepted.

:math:`F` is that of ``discriminative.py``.  A strategy (``descent.py``, ``printed.py``) places the rows at their first
codes, proposes other codes, and accepts those that lower :math:`F`: **no step raises the objective of any row**, for
any loss and any coder.  The loss is called for many rows at once, and needs no compilation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..kernels import newton as kernel
from ..kernels.newton import Rows, Shared
from ..kernels.swaps import ReplacementWorkspace, make_replacement_workspace, replace_rows
from ..model.codes import Flags, Floats, Model, RowCodes
from ..model.losses import Loss
from ..model.strategies import Strategy
from .coders import PIVOT_FLOOR
from .encoder import Encoder

Positions = NDArray[np.intp]
Curvature = Callable[[Floats], Floats]  # of margins

STEP_KINDS = ("refit", "reselect", "replace")
REFIT, RESELECT, REPLACE = range(3)


class Moves(NamedTuple):
    """What moved the rows of a block, by the kinds of :data:`STEP_KINDS`."""

    n_steps: NDArray[np.int32]  # (n_rows, 3) steps taken; all steps of one refit count once
    decrease: Floats  # (n_rows, 3) of F
    n_rejected: NDArray[np.int32]  # (n_rows,) reselections and swaps that would have raised F

    def add(self, positions: Positions, kind: int, decrease: Floats) -> None:
        """Count one step of these rows."""
        self.n_steps[positions, kind] += 1
        self.decrease[positions, kind] += decrease


@dataclass(frozen=True)
class RowProblems:
    """The problems of a block of rows; several rows may be problems of one sample."""

    encoder: Encoder
    model: Model  # with the weight of the labels in its class costs
    loss: Loss
    correlations: Floats  # (n_samples, n_components)
    energies: Floats  # (n_samples,)
    labels: Floats  # (n_rows, n_classes)
    noise_variance: Floats  # (n_rows,)
    sources: Positions  # (n_rows,) the sample of each row
    are_rivals: bool = False  # whether rows of one sample, one after the other, are hypotheses: only the best counts

    @cached_property
    def shared(self) -> Shared:
        """What kernels need of all rows."""
        model = self.model
        arrays = self.encoder.gram, self.correlations, self.energies, model.coef_by_atom, model.intercept
        return Shared(*arrays, 1 / model.class_cost)

    def take(self, positions: Positions) -> RowProblems:
        """Return the problems of some rows."""
        labels, noise_variance = self.labels[positions], self.noise_variance[positions]
        return replace(self, labels=labels, noise_variance=noise_variance, sources=self.sources[positions])

    def place(self, codes: RowCodes) -> Rows:
        """Return the rows with these codes, which later steps overwrite, and with what they cost."""
        n_rows, dtype = len(codes.values), codes.values.dtype
        scores, (misfit, objective) = np.empty((n_rows, len(self.model.coef)), dtype), np.empty((2, n_rows), dtype)
        n_used = np.empty(n_rows, np.int32)
        rows = Rows(self.sources, self.labels, self.noise_variance, *codes, n_used, scores, misfit, objective)
        kernel.measure_rows(self.shared, rows)
        if self.encoder.sparse_coder.has_penalty:
            misfit[:] = self.encoder.sparse_coder.measure_misfit(misfit, codes)
        margins = np.empty_like(scores)
        kernel.margins_of_rows(np.arange(n_rows), self.shared, rows, margins)
        kernel.total_rows(self.shared, rows, self.loss.value(margins))
        return rows

    def expand(self, rows: Rows, active: Positions, curvature: Curvature | None = None) -> tuple[Floats, Floats]:
        """Return the derivatives of the loss at the margins of active rows."""
        margins = np.empty((len(active), len(self.model.coef)), rows.values.dtype)
        kernel.margins_of_rows(active, self.shared, rows, margins)
        return self.loss.gradient(margins), (curvature or self.loss.curvature)(margins)

    def make_parabolas(
        self, rows: Rows, active: Positions, curvature: Curvature | None = None
    ) -> tuple[Floats, Floats]:
        """Return the class weights and pulls of the parabolas at the current codes, as coders take them."""
        slopes, curvatures = self.expand(rows, active, curvature)
        weight, pull = np.empty_like(slopes), np.empty_like(slopes)
        kernel.expand_rows(active, self.shared, rows, slopes, curvatures, weight, pull)
        return weight, pull

    def solve_parabolas(self, rows: Rows, active: Positions, curvature: Curvature | None = None) -> RowCodes:
        """Return the coder's codes for the parabolas of active rows."""
        weight, pull = self.make_parabolas(rows, active, curvature)
        start = RowCodes(rows.indices[active], rows.values[active])
        correlations = self.correlations[self.sources[active]]
        return self.encoder.solve(correlations, classes=(self.model.coef, weight, pull), start=start)

    def search_swaps(
        self, rows: Rows, active: Positions, n_swaps: int, tol: float, *, n_kicks: int
    ) -> tuple[RowCodes, Flags]:
        """Return the codes of active rows after swaps and kicks on their parabolas, and which rows have one."""
        gram, correlations, coef, sample_unit, coef_unit = self._searched
        dtype, unit = gram.dtype, sample_unit[self.sources[active]]
        weight, pull = self.make_parabolas(rows, active)
        smallest = tol * rows.objective[active] * rows.noise_variance[active] / unit**2
        terms = weight * coef_unit**2, pull * (coef_unit / unit)[:, None], smallest
        weight, pull, smallest = (array.astype(dtype, copy=False) for array in terms)
        codes = RowCodes(rows.indices[active], (rows.values[active] / unit[:, None]).astype(dtype))
        n_taken = np.empty(len(active), np.int32)
        # Where a code has fewer than T atoms, one may enter without another leaving.
        limits = smallest, dtype.type(PIVOT_FLOOR[dtype]), n_swaps, n_kicks, True
        problem = gram, correlations, coef, weight, pull, self.sources[active]
        replace_rows(*problem, *limits, self._workspace, *codes, n_taken)
        return RowCodes(codes.indices, codes.values.astype(unit.dtype, copy=False) * unit[:, None]), n_taken > 0

    @cached_property
    def _searched(self) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """Gram matrix, correlations and classifiers for the search of swaps, and the units of samples and classifiers.

        Hypotheses are searched in single precision: a swap is only proposed, then refitted and judged in their own.
        Units are powers of two, which change no digit, so that no unit of the user's is beyond its range.
        """
        dtype = np.float32 if self.are_rivals else self.correlations.dtype
        sample_unit, coef_unit = (
            np.ldexp(np.ones_like(largest), np.frexp(largest)[1])
            for largest in (np.sqrt(self.energies), np.abs(self.model.coef).max(initial=0))
        )
        arrays = self.encoder.gram, self.correlations / sample_unit[:, None], self.model.coef / coef_unit
        gram, correlations, coef = (array.astype(dtype, copy=False) for array in arrays)
        return gram, correlations, coef, sample_unit, coef_unit

    @cached_property
    def _workspace(self) -> ReplacementWorkspace:
        gram, _, coef, _, _ = self._searched
        return make_replacement_workspace(self.encoder.n_nonzero_coefs, len(gram), len(coef), gram.dtype)


class DiscriminativeCoding(Strategy, ABC):
    """How discriminative codes are found (Algorithm 1): base class of :class:`Descent` and :class:`PrintedCoding`.

    Examples
    --------
    >>> from ddlearn import Descent, DiscriminativeCoding
    >>> isinstance(Descent(), DiscriminativeCoding)
    True
    """

    @abstractmethod
    def descend(self, problems: RowProblems, start: RowCodes, *, is_start_traditional: bool) -> tuple[Rows, Moves]:
        """Lower the objectives of all rows from the codes given, which must not be changed.

        Rows without labels get their traditional code, unless ``is_start_traditional`` says that they have it.
        """


def place_rows(problems: RowProblems, start: RowCodes, is_start_traditional: bool) -> tuple[Rows, Moves, Positions]:
    """Return the rows at their first codes, no moves, and which rows are labelled; the others are coded here."""
    rows = problems.place(RowCodes(start.indices.copy(), start.values.copy()))
    n_rows, dtype = len(rows.objective), rows.objective.dtype
    moves = Moves(np.zeros((n_rows, 3), np.int32), np.zeros((n_rows, 3), dtype), np.zeros(n_rows, np.int32))
    is_labelled = problems.labels.any(axis=1)
    unlabelled = np.flatnonzero(~is_labelled)
    if unlabelled.size and not is_start_traditional:
        some, sources = problems.take(unlabelled), problems.sources[unlabelled]
        codes = problems.encoder.solve(problems.correlations[sources], energies=problems.energies[sources])
        accept(rows, unlabelled, some.place(codes), moves, RESELECT)
    return rows, moves, np.flatnonzero(is_labelled)


def accept(
    rows: Rows, positions: Positions, trial: Rows, moves: Moves, kind: int, smallest_share: float = 0.0
) -> Flags:
    """Overwrite rows at these positions by those of a trial whose objective is lower; return which are."""
    before = rows.objective[positions]
    is_lower = trial.objective < before * (1 - smallest_share)
    lower = np.flatnonzero(is_lower)
    chosen = positions[lower]
    for name in ("indices", "values", "n_used", "scores", "misfit", "objective"):
        getattr(rows, name)[chosen] = getattr(trial, name).take(lower, axis=0)
    moves.add(chosen, kind, before[is_lower] - trial.objective[is_lower])
    moves.n_rejected[positions[~is_lower]] += 1
    return is_lower


def settle(problems: RowProblems, rows: Rows, start: RowCodes, before: Floats) -> Rows:
    """Measure all rows afresh, since steps only bring costs up to date; go back where rounding has raised F."""
    codes = RowCodes(rows.indices, rows.values).sort()
    settled = problems.place(codes)
    is_higher = settled.objective > before
    if is_higher.any():
        codes.indices[is_higher], codes.values[is_higher] = start.indices[is_higher], start.values[is_higher]
        settled = problems.place(codes)
    return settled
