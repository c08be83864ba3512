r"""Algorithm 1 of the paper as a descent: the steps that lower the objectives F of a block of rows together.

F is that of ``discriminative.py``.  On a given support it is convex, and Newton's method finds its minimum; what is
hard is the support.  So a step is one of three:

*refit*
    Newton's method on the support that a row has, each step halved until F falls (Armijo's rule).
*reselect*
    The paper's step: a sparse coder solves the parabola of F at the current code, from scratch.
*replace*
    The swap of one atom that lowers the parabola most, of all swaps that there are (``kernels/swaps.py``); where
    a code has fewer than T atoms, one more atom.  Where there is no such swap, and the code is one of an earlier
    iteration, a *kick*: an atom is taken out for good, and others are swapped to make up for it.

After a reselection or a swap the row is refitted, and keeps its old code unless F is lower than before: **no step
raises the objective of any row**, for any loss and any coder.  A coder with a penalty on codes makes F convex; there
the steps are reselections, shortened until F falls.

The loss is called for many rows at once, and needs no compilation.
"""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np

from ..kernels import newton as kernel
from ..kernels.newton import Rows, Steps
from ..model.codes import Floats, RowCodes
from ..model.strategies import check_number
from .coders import MOST_ROUNDS, PIVOT_FLOOR
from .rows import (
    REFIT,
    REPLACE,
    RESELECT,
    DiscriminativeCoding,
    Moves,
    Positions,
    RowProblems,
    accept,
    place_rows,
    settle,
)

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


def refit(
    problems: RowProblems, rows: Rows, active: Positions, tol: float, max_steps: int, limits: Floats | None = None
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
        rows, moves, labelled = place_rows(problems, start, is_start_traditional)
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
        codes = problems.solve_parabolas(rows, active)
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
            codes = problems.solve_parabolas(rows, active)
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
