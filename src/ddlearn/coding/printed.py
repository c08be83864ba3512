r"""Algorithm 1 as the paper prints it: Newton's steps, each a sparse coding problem solved from scratch.

A step replaces the cost by its parabola at the current code and calls the sparse coder.  The greedy coder may miss the
parabola's minimum, and the parabola differs from F, so that a step can raise F.  Here such a step is undone, and the
sample keeps its code: without this guard, which the paper does not have, the iteration diverges for some losses.  The
weight of the parabola is the derived one (``discriminative.py``), not the printed half of it.
"""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np

from ..kernels.codes import change_rows
from ..kernels.newton import Rows
from ..model.codes import RowCodes
from ..model.strategies import check_number
from .coders import MOST_ROUNDS
from .rows import RESELECT, DiscriminativeCoding, Moves, Positions, RowProblems, accept, place_rows


class PrintedCoding(DiscriminativeCoding):
    """Algorithm 1 as printed: Newton's steps by the sparse coder, until the code no longer changes or a step fails.

    Parameters
    ----------
    max_iter : int, default=100
        Largest number of steps, the paper's p_max.  A quadratic loss needs one.
    tol : float, default=1e-4
        A code has converged when it changes by at most this much, relative to its norm.

    See Also
    --------
    Descent : Goes on where a step fails, and comes closer to the minimum.

    Examples
    --------
    >>> from ddlearn import DDLClassifier, PrintedCoding
    >>> DDLClassifier(label_coding=PrintedCoding(max_iter=10)).get_params()["label_coding__max_iter"]
    10
    """

    def __init__(self, max_iter: int = 100, tol: float = 1e-4):
        self.max_iter = max_iter
        self.tol = tol

    def check_parameters(self) -> None:
        check_number("max_iter of the coding", self.max_iter, Integral, most=MOST_ROUNDS)
        check_number("tol of the coding", self.tol, Real)

    def descend(self, problems: RowProblems, start: RowCodes, *, is_start_traditional: bool) -> tuple[Rows, Moves]:
        rows, moves, active = place_rows(problems, start, is_start_traditional)
        for _ in range(min(self.max_iter, 1) if problems.loss.is_quadratic else self.max_iter):
            if active.size == 0:
                break
            active = self._step(problems, rows, active, moves)
        return rows, moves

    def _step(self, problems: RowProblems, rows: Rows, active: Positions, moves: Moves) -> Positions:
        """Solve the parabolas; return the rows that have moved and not converged."""
        codes = problems.solve_parabolas(rows, active, problems.loss.surrogate_curvature)
        squared_change, squared_size = np.empty((2, len(active)), codes.values.dtype)
        change_rows(rows.indices[active], rows.values[active], *codes, squared_change, squared_size)
        is_lower = accept(rows, active, problems.take(active).place(codes), moves, RESELECT)
        return active[is_lower & (squared_change > self.tol**2 * squared_size)]
