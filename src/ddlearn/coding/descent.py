r"""Algorithm 1 of the paper as a descent: the steps that lower the objectives F of a block of rows together.

F is that of ``discriminative.py``.  On a given support it is convex, and Newton's method finds its minimum; what is
hard is the support.  So a step is one of three:

*refit*
    Newton's method on the support that a row has, each step halved until F falls (Armijo's rule).
*reselect*
    The paper's step: a sparse coder solves the parabola of F at the current code, from scratch.
*replace*
    The swap of one atom that lowers the parabola most, of all swaps that there are (``kernels/pursuit.py``); where
    a code has fewer than T atoms, one more atom.  Where there is no such swap, and the code is one of an earlier
    iteration, a *kick*: an atom is taken out for good, and others are swapped to make up for it.

After a reselection or a swap the row is refitted, and keeps its old code unless F is lower than before: **no step
raises the objective of any row**, for any loss and any coder.  A coder with a penalty on codes makes F convex; there
the steps are reselections, shortened until F falls.

The loss is called for many rows at once, and needs no compilation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral, Real
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..kernels import support as kernel
from ..kernels.pursuit import ReplacementWorkspace, make_replacement_workspace, replace_rows
from ..kernels.support import Rows, Shared, Steps
from ..model.codes import Flags, Floats, Model, RowCodes
from ..model.losses import Loss
from ..model.strategies import Strategy, check_number
from .coders import MOST_ROUNDS, PIVOT_FLOOR
from .encoder import Encoder

Positions = NDArray[np.intp]
Curvature = Callable[[Floats], Floats]  # of margins

STEP_KINDS = ("refit", "reselect", "replace")
REFIT, RESELECT, REPLACE = range(3)
# A step must bring this share of the decrease that its slope predicts (Armijo's rule with its usual constant).
_SUFFICIENT_DECREASE = 1e-4
_MAX_HALVINGS = 30
_MAX_NEWTON_STEPS = 30
# While supports still change, a refit is exact enough when the next step would bring less than this share of F, or
# after so many steps.
_ROUGH = 1e-4
_ROUGH_STEPS = 6
# Newton's steps converge quadratically: after one that brings less than so many times what is exact enough, the next
# would bring less than that.  For the hypotheses of USPS this holds in 98 % of such steps and more, for every loss; it
# need not be looked at.
_NEARLY = 100
# A hypothesis is given up when so many more steps like its last would not make it the best of its sample, and it is
# behind by more than this share of F; then it is not refitted exactly in the end either.  At most one of 2007 images of
# USPS has another label than with endless patience, for every loss.
_PATIENCE = 4
_CLOSE = 0.25
# A trial is given up when even three times the predicted decrease would not make it better than what there is.
_HOPE = 3
# So many kicks reach 0.93 or more of the reachable decrease on USPS with T = 5, for every loss; three, which save a
# tenth of the time, 0.84 (benchmarks/descent.py).
_N_KICKS = 4


class Moves(NamedTuple):
    """What moved the rows of a block, by the kinds of :data:`STEP_KINDS`."""

    n_steps: NDArray[np.int32]  # (n_rows, 3) steps taken; all steps of one refit count once
    decrease: Floats  # (n_rows, 3) of F
    n_rejected: NDArray[np.int32]  # (n_rows,) reselections and swaps that would have raised F

    @classmethod
    def none(cls, n_rows: int, dtype: np.dtype) -> Moves:
        """Return the record of no steps."""
        return cls(np.zeros((n_rows, 3), np.int32), np.zeros((n_rows, 3), dtype), np.zeros(n_rows, np.int32))

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
        labels, noise_variance, sources = (
            self.labels[positions],
            self.noise_variance[positions],
            self.sources[positions],
        )
        return replace(self, labels=labels, noise_variance=noise_variance, sources=sources)

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

    def solve_parabolas(self, rows: Rows, active: Positions, weight: Floats, pull: Floats) -> RowCodes:
        """Return the coder's codes for the parabolas of active rows."""
        start = RowCodes(rows.indices[active], rows.values[active])
        correlations = self.correlations[self.sources[active]]
        return self.encoder.solve(correlations, coef=self.model.coef, weight=weight, pull=pull, start=start)

    def search_swaps(
        self, rows: Rows, active: Positions, n_swaps: int, tol: float, *, n_kicks: int
    ) -> tuple[RowCodes, Flags]:
        """Return the codes of active rows after swaps and kicks on their parabolas, and which rows have one."""
        gram, correlations, coef, sample_unit, coef_unit = self._searched
        dtype, unit = gram.dtype, sample_unit[self.sources[active]]
        weight, pull = self.make_parabolas(rows, active)
        smallest = tol * rows.objective[active] * rows.noise_variance[active] / unit**2
        codes = RowCodes(rows.indices[active], (rows.values[active] / unit[:, None]).astype(dtype))
        n_taken = np.empty(len(active), np.int32)
        replace_rows(
            gram,
            correlations,
            coef,
            (weight * coef_unit**2).astype(dtype, copy=False),
            (pull * (coef_unit / unit)[:, None]).astype(dtype, copy=False),
            self.sources[active],
            smallest.astype(dtype, copy=False),
            dtype.type(PIVOT_FLOOR[dtype]),
            n_swaps,
            n_kicks,
            True,  # where a code has fewer than T atoms, one may enter without another leaving
            self._workspace,
            *codes,
            n_taken,
        )
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


def begin(problems: RowProblems, start: RowCodes, is_start_traditional: bool) -> tuple[Rows, Moves, Positions]:
    """Return the rows at their first codes, no moves, and which rows are labelled; the others are coded here."""
    rows = problems.place(RowCodes(start.indices.copy(), start.values.copy()))
    moves = Moves.none(len(rows.objective), rows.objective.dtype)
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


def refit(
    problems: RowProblems,
    rows: Rows,
    active: Positions,
    tol: float,
    max_steps: int,
    limits: Floats | None = None,
) -> None:
    """Minimise F on the supports of active rows, until a step would bring about the share ``tol`` of F, or less.

    Rows that will not come below their limit are given up.
    """
    loss, shared, dtype = problems.loss, problems.shared, rows.values.dtype
    budget, n_classes = rows.values.shape[1], rows.labels.shape[1]
    workspace = np.empty((budget + 1, budget), dtype), np.empty((5, max(budget, n_classes)), dtype)
    for _ in range(1 if loss.is_quadratic else max_steps):
        n_active = len(active)
        if n_active == 0:
            return
        steps = Steps(
            np.empty((n_active, budget), dtype), np.empty((n_active, n_classes), dtype), *np.empty((3, n_active), dtype)
        )
        slopes, curvatures = problems.expand(rows, active)
        floor = dtype.type(PIVOT_FLOOR[dtype])
        kernel.find_newton_steps(active, shared, rows, slopes, curvatures, floor, *workspace, steps)
        objective, decrease = rows.objective[active], steps.decrement / rows.noise_variance[active]
        goes_on = decrease > tol * objective
        if limits is not None:
            goes_on &= objective - _HOPE * decrease < limits[active]
        is_last = np.zeros(len(rows.objective), np.bool_)
        is_last[active] = decrease <= _NEARLY * tol * objective
        if not goes_on.all():
            active, steps = _take(np.flatnonzero(goes_on), active, steps)
        active = _search_line(problems, rows, active, steps)
        active = active[~is_last[active]]


def _take(kept: Positions, active: Positions, steps: Steps) -> tuple[Positions, Steps]:
    return active[kept], Steps(*(array.take(kept, axis=0) for array in steps))  # twice as fast as a mask


def _search_line(problems: RowProblems, rows: Rows, active: Positions, steps: Steps) -> Positions:
    """Take each step with the first length of 1, 1/2, 1/4, ... that brings enough; return the rows that moved."""
    moved, length = [], rows.values.dtype.type(1)
    share = rows.values.dtype.type(_SUFFICIENT_DECREASE)
    for _ in range(_MAX_HALVINGS):
        if active.size == 0:
            break
        margins, is_taken = np.empty_like(steps.score_change), np.empty(len(active), np.bool_)
        kernel.margins_after_steps(active, problems.shared, rows, steps, length, margins)
        costs = problems.loss.value(margins)
        kernel.take_steps(active, problems.shared, rows, steps, length, share, costs, is_taken)
        moved.append(active[is_taken])
        if is_taken.all():
            break
        active, steps = _take(np.flatnonzero(~is_taken), active, steps)
        length /= 2
    return moved[0] if len(moved) == 1 else np.concatenate([*moved, np.empty(0, np.intp)])


class Descent(DiscriminativeCoding):
    """Algorithm 1 as a descent: refit, reselect, then replace atoms while that lowers the objective.

    Parameters
    ----------
    n_swaps : int, default=30
        Largest number of times that atoms are replaced in the code of a sample.
    tol : float, default=1e-6
        A step must lower the objective F of its sample by more than this share.

    See Also
    --------
    PrintedCoding : Reselections alone, as the paper prints it.

    Examples
    --------
    >>> from ddlearn import DDLClassifier, Descent
    >>> DDLClassifier(label_coding=Descent(n_swaps=10)).get_params()["label_coding__n_swaps"]
    10
    """

    def __init__(self, n_swaps: int = 30, tol: float = 1e-6):
        self.n_swaps = n_swaps
        self.tol = tol

    def check_parameters(self) -> None:
        check_number("n_swaps of the coding", self.n_swaps, Integral, most=MOST_ROUNDS)
        check_number("tol of the coding", self.tol, Real)

    def descend(self, problems: RowProblems, start: RowCodes, *, is_start_traditional: bool) -> tuple[Rows, Moves]:
        rows, moves, labelled = begin(problems, start, is_start_traditional)
        before = rows.objective.copy()
        if problems.encoder.sparse_coder.has_penalty:
            self._descend_with_penalty(problems, rows, labelled, moves)
            return rows, moves
        self._refit(problems, rows, labelled, max(self.tol, _ROUGH), _ROUGH_STEPS, moves)
        if not is_start_traditional:
            self._reselect(problems, rows, labelled, moves)
        # The atom that is the most to lose is not kicked.
        n_kicks = 0 if is_start_traditional else min(_N_KICKS, problems.encoder.n_nonzero_coefs - 1)
        self._replace(problems, rows, labelled, moves, n_kicks=n_kicks)
        if problems.are_rivals:
            labelled = labelled[_measure_lead(rows, labelled) <= _CLOSE * rows.objective[labelled]]
        self._refit(problems, rows, labelled, self.tol / 100, _MAX_NEWTON_STEPS, moves)
        # Of hypotheses only the objective counts, to fewer digits than rounding has touched.
        return (rows if problems.are_rivals else settle(problems, rows, start, before)), moves

    def _refit(
        self, problems: RowProblems, rows: Rows, active: Positions, tol: float, max_steps: int, moves: Moves
    ) -> None:
        before = rows.objective[active]
        refit(problems, rows, active, tol, max_steps)
        decrease = before - rows.objective[active]
        moves.add(active[decrease > 0], REFIT, decrease[decrease > 0])

    def _reselect(self, problems: RowProblems, rows: Rows, active: Positions, moves: Moves) -> None:
        codes = problems.solve_parabolas(rows, active, *problems.make_parabolas(rows, active))
        is_other = (codes.indices != rows.indices[active]).any(axis=1)
        self._try(problems, rows, active[is_other], codes.rows(np.flatnonzero(is_other)), moves, RESELECT)

    def _replace(self, problems: RowProblems, rows: Rows, active: Positions, moves: Moves, *, n_kicks: int) -> None:
        # The parabola of a quadratic loss holds for many swaps, that of another one for the next.
        at_once = self.n_swaps if problems.loss.is_quadratic else 1
        for _ in range(0, self.n_swaps, max(at_once, 1)):
            if active.size == 0:
                return
            codes, is_other = problems.search_swaps(rows, active, at_once, self.tol, n_kicks=n_kicks)
            before = rows.objective.copy()
            active = self._try(problems, rows, active[is_other], codes.rows(np.flatnonzero(is_other)), moves, REPLACE)
            if problems.are_rivals:
                within_reach = np.maximum(_PATIENCE * (before - rows.objective), _CLOSE * rows.objective)[active]
                active = active[_measure_lead(rows, active) <= within_reach]

    def _try(
        self, problems: RowProblems, rows: Rows, positions: Positions, codes: RowCodes, moves: Moves, kind: int
    ) -> Positions:
        """Refit trial codes, and accept those that lower F by enough; return their rows."""
        some = problems.take(positions)
        trial = some.place(codes)
        refit(some, trial, np.arange(len(positions)), _ROUGH, _ROUGH_STEPS, rows.objective[positions])
        return positions[accept(rows, positions, trial, moves, kind, self.tol)]

    def _descend_with_penalty(self, problems: RowProblems, rows: Rows, active: Positions, moves: Moves) -> None:
        """Solve parabolas of the convex F; a solution that raises it is approached only half of the way, or less."""
        for _ in range(1 if problems.loss.is_quadratic else _MAX_NEWTON_STEPS):
            if active.size == 0:
                return
            codes = problems.solve_parabolas(rows, active, *problems.make_parabolas(rows, active))
            active = self._approach(problems, rows, active, codes, moves)

    def _approach(
        self, problems: RowProblems, rows: Rows, active: Positions, codes: RowCodes, moves: Moves
    ) -> Positions:
        """Go towards codes as far as F falls; return the rows that have moved."""
        moved, length = [], codes.values.dtype.type(1)
        for _ in range(_MAX_HALVINGS):
            here = RowCodes(rows.indices[active], rows.values[active])
            blend = RowCodes(np.empty_like(here.indices), np.empty_like(here.values))
            kernel.blend_rows(*here, *codes, length, *blend)
            before, trial = rows.objective[active], problems.take(active).place(blend)
            is_lower = accept(rows, active, trial, moves, RESELECT, self.tol)
            moved.append(active[is_lower])
            is_too_far = trial.objective > before * (1 + self.tol)  # otherwise the row has converged
            active, codes = active[is_too_far], codes.rows(np.flatnonzero(is_too_far))
            if active.size == 0:
                break
            length /= 2
        return np.concatenate(moved)


def _measure_lead(rows: Rows, active: Positions) -> Floats:
    """Return by how much the best hypothesis of its sample is ahead of each active one."""
    is_first = np.diff(rows.sources, prepend=-1) != 0
    lowest = np.minimum.reduceat(rows.objective, np.flatnonzero(is_first))
    return rows.objective[active] - lowest[np.cumsum(is_first)[active] - 1]


def settle(problems: RowProblems, rows: Rows, start: RowCodes, before: Floats) -> Rows:
    """Measure all rows afresh, since steps only bring costs up to date; go back where rounding has raised F."""
    codes = RowCodes(rows.indices, rows.values).sort()
    settled = problems.place(codes)
    is_higher = settled.objective > before
    if is_higher.any():
        codes.indices[is_higher], codes.values[is_higher] = start.indices[is_higher], start.values[is_higher]
        settled = problems.place(codes)
    return settled
