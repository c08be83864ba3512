"""Matching pursuit for a block of rows, the TSC step inside Algorithm 1, in Numba.

Each row holds one problem of its own (docs/theory.md):

    minimise  x'Qx - 2c'x  over x with at most T nonzeros,
    Q = gram + coef' diag(weight) coef - directions' directions,        c = correlation + coef' pull.

With no classes (``coef`` of shape (0, K)) and no directions this is traditional sparse coding.  Directions belong to
the row, as the tangents of an image do; classes are shared, and those of weight zero cost no time.

Q is never formed.  With L the Cholesky factor of Q on the support chosen so far, row t of ``projections`` is row t of
inv(L) Q[support], built from the one new column of Q that step t selects:

    projection_t = (Q[k_t] - sum_{s<t} L[t, s] projection_s) / L[t, t],        L[t, s] = projection_s[k_t].

It turns the three things that the next step needs into one pass over the atoms:

    correlation with the residual    c <- c - step_t projection_t,             step_t = c[k_t] / L[t, t],
    squared norm off the support     norm <- norm - projection_t^2             (ORMP only),
    error decrease an atom offers    c^2 / norm                                (OMP: c^2 / Q[k, k]).
"""

from typing import NamedTuple

import numpy as np

from . import njit
from .codes import add_combination, order_rows


class PursuitWorkspace(NamedTuple):
    """What one thread overwrites row after row."""

    squared_norms: np.ndarray  # (n_atoms,) of the atoms: the diagonal of the Gram matrix
    inverse_squared_norms: np.ndarray  # (n_atoms,) 0 for a zero atom
    squared_coef: np.ndarray  # (n_classes, n_atoms)
    correlation: np.ndarray  # (n_atoms,) of the atoms with the residual
    norms: np.ndarray  # (n_atoms,) squared, of the columns of Q; for ORMP of their part off the support
    score: np.ndarray  # (n_atoms,) error decrease that the atom offers
    ordered: np.ndarray  # (n_atoms,) the bits of `score` as integers
    column: np.ndarray  # (n_atoms,) of Q, where it is not one of the Gram matrix; less its part in the support's span
    projections: np.ndarray  # (budget, n_atoms or a few more)
    cholesky: np.ndarray  # (budget, budget)
    steps: np.ndarray  # (budget,)
    weighted: np.ndarray  # (n_classes,) the classes whose weight in this row is not zero
    factors: np.ndarray  # (as many as there can be) of a combination of rows that is being added
    chosen: np.ndarray  # (the same) those rows


_CACHE_LINE = 64  # bytes


def allocate_rows(n_rows, length, dtype):
    """Allocate rows that start on cache lines, an odd number of lines apart, and not about a page apart.

    Loads then do not straddle lines, and the same atom in several rows does not compete for one set of the first-level
    cache: up to twice as fast, depending on the number of atoms.
    """
    line = _CACHE_LINE // np.dtype(dtype).itemsize
    n_lines = -(-length // line) | 1
    # A load waits for a store into another row where they are whole pages of 64 lines apart, and loads run a few lines
    # ahead. Multiples of 23 lines stay clear of pages for ten rows.
    if n_lines >= 59 and (n_lines + 5) % 64 <= 10:
        n_lines += (23 - n_lines) % 64
    stride = n_lines * line
    buffer = np.empty(n_rows * stride + line, dtype)
    address = buffer.__array_interface__["data"][0]
    start = -(address // buffer.itemsize) % line
    return buffer[start : start + n_rows * stride].reshape(n_rows, stride)


def make_pursuit_workspace(budget, n_atoms, n_classes, n_directions, dtype):
    """Allocate the workspace of one thread."""
    n_factors = max(budget, n_classes, n_directions)
    rows = allocate_rows(6 + budget, n_atoms, dtype)
    squared_norms, inverse_squared_norms, correlation, norms, score, column = rows[:6, :n_atoms]
    return PursuitWorkspace(
        squared_norms, inverse_squared_norms, np.empty((n_classes, n_atoms), dtype), correlation, norms, score,
        score.view(np.int64 if score.itemsize == 8 else np.int32), column, rows[6:], np.empty((budget, budget), dtype),
        np.empty(budget, dtype), np.empty(n_classes, np.int32), np.empty(n_factors, dtype),
        np.empty(n_factors, np.int32),
    )  # fmt: skip


@njit(cache=True, nogil=True, error_model="numpy")
def position_of_largest(ordered):
    """Return the first position of the largest score, given the bits of the scores."""
    # The bits of non-negative floats sort like the floats, and an integer maximum vectorises where a float maximum,
    # with its rules for NaN, does not. Of equal scores the first atom wins. Two passes to the end, and short integers:
    # a search that stops at the largest score, or goes by blocks, does not vectorise and takes three times as long.
    n = np.int32(ordered.shape[0])
    largest = ordered[0]
    for k in range(n):
        largest = max(largest, ordered[k])
    first = n
    for k in range(n):
        first = min(first, np.int32(k) if ordered[k] == largest else n)
    return first


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
def choose_classes(terms, i, factors, chosen):
    """Fill in the classes whose term in row i is not zero, and these terms; return how many."""
    n_chosen = 0
    for j in range(terms.shape[1]):
        if terms[i, j] != 0:
            chosen[n_chosen] = j
            factors[n_chosen] = terms[i, j]
            n_chosen += 1
    return n_chosen


# Loops are written out here: each array that a helper gets costs two atomic reference counts, and seven of them took a
# third of the time of a loop. One loop does all that a step does to an atom, and most of the division's time is hidden
# behind its loads and stores; with the maximum in it too it would not vectorise. (Products and sums are contracted to
# one instruction.)
@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def pursue_rows(
    gram,  # (n_atoms, n_atoms)
    correlations,  # (n_rows, n_atoms)
    coef,  # (n_classes, n_atoms)
    weight,  # (n_rows, n_classes)
    pull,  # (n_rows, n_classes)
    directions,  # (n_rows * n_directions, n_atoms) those of the first row first
    energies,  # (n_rows,) squared residual of the zero code
    tolerances,  # (n_rows,) a row ends when its squared residual is no larger
    correlation_floor,  # ... or when the squared correlation is a rounding error: below this share of the first one
    pivot_floor,  # ... or when this share or less of the selected atom lies off the support: it is dependent
    is_off_support_norm,  # True for ORMP, False for OMP
    workspace,
    indices,  # out, (n_rows, budget)
    values,  # out, (n_rows, budget)
):
    """Solve the problem of the module's docstring for every row."""
    zero = gram.dtype.type(0)
    one = gram.dtype.type(1)
    share_lost = one if is_off_support_norm else zero  # of the square of an atom's projection, by its norm
    n_rows, n_atoms = correlations.shape
    n_classes = coef.shape[0]
    n_directions = directions.shape[0] // max(n_rows, 1)
    budget = indices.shape[1]
    correlation, norms = workspace.correlation, workspace.norms
    score, ordered = workspace.score, workspace.ordered
    column, projections = workspace.column, workspace.projections
    cholesky, steps = workspace.cholesky, workspace.steps
    squared_norms, inverse_squared_norms = workspace.squared_norms, workspace.inverse_squared_norms
    squared_coef, weighted = workspace.squared_coef, workspace.weighted
    factors, chosen = workspace.factors, workspace.chosen

    for k in range(n_atoms):
        squared_norms[k] = gram[k, k]
        inverse_squared_norms[k] = one / gram[k, k] if gram[k, k] > zero else zero
    for j in range(n_classes):
        for k in range(n_atoms):
            squared_coef[j, k] = coef[j, k] * coef[j, k]

    for i in range(n_rows):
        for k in range(n_atoms):
            correlation[k] = correlations[i, k]
            norms[k] = squared_norms[k]
            score[k] = correlations[i, k] * correlations[i, k] * inverse_squared_norms[k]
        first_direction = i * n_directions
        n_pulling = 0
        n_weighted = 0
        if n_classes > 0:
            n_pulling = choose_classes(pull, i, factors, chosen)
            add_combination(factors, chosen, n_pulling, coef, correlation)
            n_weighted = choose_classes(weight, i, factors, weighted)
            add_combination(factors, weighted, n_weighted, squared_coef, norms)
        if n_pulling + n_weighted + n_directions > 0:
            for d in range(first_direction, first_direction + n_directions):
                for k in range(n_atoms):
                    norms[k] -= directions[d, k] * directions[d, k]
            # Of an atom that negative weights or directions take away whole, only rounding errors are left.
            for k in range(n_atoms):
                is_left = norms[k] > pivot_floor * squared_norms[k]
                score[k] = correlation[k] * correlation[k] / norms[k] if is_left else zero

        residual = energies[i]
        lowest = zero
        n_selected = 0
        while n_selected < budget and residual > tolerances[i]:
            # Select the atom that lowers the error most.
            atom = position_of_largest(ordered)
            norm = squared_norms[atom]
            for a in range(n_weighted):
                norm += weight[i, weighted[a]] * squared_coef[weighted[a], atom]
            for d in range(first_direction, first_direction + n_directions):
                norm -= directions[d, atom] * directions[d, atom]
            squared_correlation = correlation[atom] * correlation[atom]
            if squared_correlation <= lowest * norm:
                break
            if n_selected == 0:
                lowest = correlation_floor * squared_correlation / norm

            # Extend the Cholesky factor by it.
            pivot = norm
            for s in range(n_selected):
                factor = projections[s, atom]
                cholesky[n_selected, s] = factor
                pivot -= factor * factor
            if pivot <= pivot_floor * max(norm, squared_norms[atom]):  # a difference of numbers this large
                break
            pivot = np.sqrt(pivot)
            cholesky[n_selected, n_selected] = pivot
            step = correlation[atom] / pivot
            steps[n_selected] = step
            indices[i, n_selected] = atom
            residual -= step * step
            norms[atom] = zero
            n_selected += 1
            if n_selected == budget:
                break

            # Build its projection, and bring correlations, norms and scores up to date.
            new = n_selected - 1
            scale = one / pivot
            if n_weighted + n_directions == 0 and 0 < new <= 4:
                # Where there are fewer than four projections, the last one fills the gap with a factor of zero.
                row_b, row_c, row_d = min(1, new - 1), min(2, new - 1), new - 1
                factor_a = -scale * cholesky[new, 0]
                factor_b = -scale * cholesky[new, 1] if new > 1 else zero
                factor_c = -scale * cholesky[new, 2] if new > 2 else zero
                factor_d = -scale * cholesky[new, 3] if new > 3 else zero
                for k in range(n_atoms):
                    p = (scale * gram[atom, k] + factor_a * projections[0, k]) + (
                        (factor_b * projections[row_b, k] + factor_c * projections[row_c, k])
                        + factor_d * projections[row_d, k]
                    )
                    c = correlation[k] - step * p
                    norm_left = norms[k] - share_lost * p * p
                    projections[new, k] = p
                    correlation[k] = c
                    norms[k] = norm_left
                    score[k] = c * c / norm_left if norm_left > pivot_floor * squared_norms[k] else zero
                continue
            for k in range(n_atoms):
                column[k] = gram[atom, k]
            if n_weighted > 0:
                for a in range(n_weighted):
                    factors[a] = weight[i, weighted[a]] * coef[weighted[a], atom]
                add_combination(factors, weighted, n_weighted, coef, column)
            if n_directions > 0:
                for d in range(n_directions):
                    chosen[d] = first_direction + d
                    factors[d] = -directions[first_direction + d, atom]
                add_combination(factors, chosen, n_directions, directions, column)
            if new > 0:
                for s in range(new):
                    chosen[s] = s
                    factors[s] = -cholesky[new, s]
                add_combination(factors, chosen, new, projections, column)
            for k in range(n_atoms):
                p = scale * column[k]
                c = correlation[k] - step * p
                norm_left = norms[k] - share_lost * p * p
                projections[new, k] = p
                correlation[k] = c
                norms[k] = norm_left
                score[k] = c * c / norm_left if norm_left > pivot_floor * squared_norms[k] else zero

        # Back substitution cholesky' x = steps.
        for t in range(n_selected - 1, -1, -1):
            total = steps[t]
            for s in range(t + 1, n_selected):
                total -= cholesky[s, t] * values[i, s]
            values[i, t] = total / cholesky[t, t]
        for t in range(n_selected, budget):
            values[i, t] = zero
    order_rows(indices, values)
