"""Pursuit and replacement of atoms for a block of rows, the TSC step inside Algorithm 1, in Numba.

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

**Replacement** is local search from the support S that a pursuit has found.  A swap takes atom k into the support and
atom i out of it.  All swaps of a row are compared, each by the exact minimum on its support.  That needs,
with the atoms as columns,

    solution     V = inv(Q[S, S]) Q[S],                    the coefficients of each atom in those of the support,
    norms        q = diag(Q) - sum_t Q[S_t] V[t],          what of each atom lies off the support,
    correlation  a = c - Q[S]' x,                          with the residual,

and P = inv(Q[S, S]).  Atom k lowers the minimum by a_k^2 / q_k and moves the code by -V[:, k] a_k / q_k; to take i out
then raises it by x_i^2 / (P_ii + V_ik^2 / q_k), with the moved x_i.  An atom enters or leaves in a pass over V, as in
the elimination of Gauss and Jordan, so that a swap costs O(T K).

**Kicks** leave a support that no swap improves (iterated local search).  An atom of it is taken out and may not come
back, the best other one enters, and swaps go on while each makes up for a fair share of what is lost.  The atoms that
are the least to lose are kicked in turn; the first support with a lower minimum is taken.
"""

from typing import NamedTuple

import numpy as np

from . import njit
from .codes import add_combination, order_rows, store_row

# Each swap after a kick must make up for this share of what is still lost.  A third of all kicks go on after the first
# one then, and these have 95 % of what all would gain.
FAIR_SHARE = 0.2


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
        squared_norms=squared_norms,
        inverse_squared_norms=inverse_squared_norms,
        squared_coef=np.empty((n_classes, n_atoms), dtype),
        correlation=correlation,
        norms=norms,
        score=score,
        ordered=score.view(np.int64 if score.itemsize == 8 else np.int32),
        column=column,
        projections=rows[6:],
        cholesky=np.empty((budget, budget), dtype),
        steps=np.empty(budget, dtype),
        weighted=np.empty(n_classes, np.int32),
        factors=np.empty(n_factors, dtype),
        chosen=np.empty(n_factors, np.int32),
    )


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
def _choose_classes(terms, i, factors, chosen):
    # The classes whose term in row i is not zero, and their terms; return how many.
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
            n_pulling = _choose_classes(pull, i, factors, chosen)
            add_combination(factors, chosen, n_pulling, coef, correlation)
            n_weighted = _choose_classes(weight, i, factors, weighted)
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


class ReplacementWorkspace(NamedTuple):
    """What one thread overwrites row after row; a kick needs three supports, of which one is where it started."""

    coef: np.ndarray  # (n_classes, n_atoms or a few more) the classifiers, in rows that start on cache lines
    squared_coef: np.ndarray  # (the same)
    squared_norms: np.ndarray  # (n_atoms,) the diagonal of the Gram matrix
    smallest_norms: np.ndarray  # (n_atoms,) up to which an atom depends on the support
    column: np.ndarray  # (n_atoms,) what of the atom that enters lies off the support, as a column of Q
    rise: np.ndarray  # (n_atoms,) rise / room is q times the least rise of taking an atom of the support out
    room: np.ndarray  # (n_atoms,)
    gain: np.ndarray  # (n_atoms,) by which the best swap with this atom lowers the minimum
    ordered: np.ndarray  # (n_atoms,) the bits of `gain` as integers
    correlation: np.ndarray  # (3, n_atoms or a few more) a
    norms: np.ndarray  # (3, n_atoms or a few more) q
    solution: np.ndarray  # (3 * budget, n_atoms or a few more) V
    inverse: np.ndarray  # (3, budget, budget) P
    code: np.ndarray  # (3, budget) x
    support: np.ndarray  # (3, budget) S
    is_kicked: np.ndarray  # (budget,) which places of the support have been kicked
    factors: np.ndarray  # (as many as there can be) of a combination of rows that is being added
    chosen: np.ndarray  # (the same) those rows


def make_replacement_workspace(budget, n_atoms, n_classes, dtype):
    """Allocate the workspace of one thread."""
    n_factors = max(budget, n_classes)
    rows = allocate_rows(12 + 3 * budget + 2 * n_classes, n_atoms, dtype)
    squared_norms, smallest_norms, column, rise, room, gain = rows[:6, :n_atoms]
    return ReplacementWorkspace(
        coef=rows[12 + 3 * budget : 12 + 3 * budget + n_classes],
        squared_coef=rows[12 + 3 * budget + n_classes :],
        squared_norms=squared_norms,
        smallest_norms=smallest_norms,
        column=column,
        rise=rise,
        room=room,
        gain=gain,
        ordered=gain.view(np.int64 if gain.itemsize == 8 else np.int32),
        correlation=rows[6:9],
        norms=rows[9:12],
        solution=rows[12 : 12 + 3 * budget],
        inverse=np.empty((3, budget, budget), dtype),
        code=np.empty((3, budget), dtype),
        support=np.empty((3, budget), np.int32),
        is_kicked=np.empty(budget, np.bool_),
        factors=np.empty(n_factors, dtype),
        chosen=np.empty(n_factors, np.int32),
    )


# Helpers get arrays one by one: to take them out of a tuple costs two reference counts each, more than a short loop.
# They are inlined, since a call counts references too, and products and sums are contracted: a fifth of the time.
@njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
def _load_column(atom, gram, coef, weight, i, column, factors, chosen):
    # A column of Q.
    n_chosen = _choose_classes(weight, i, factors, chosen)
    for a in range(n_chosen):
        factors[a] *= coef[chosen[a], atom]
    for k in range(column.shape[0]):
        column[k] = gram[atom, k]
    add_combination(factors, chosen, n_chosen, coef, column)


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, fastmath={"contract"})
def _enter(
    atom, now, n_used, gram, coef, weight, i, correlation, norms, column, solution, inverse, code, support,
    factors, chosen,
):  # fmt: skip
    # Put an atom that does not depend on support `now` behind the n_used that there are. What of it lies off the
    # support is Q[k] - Q[k, S] V, a column of the symmetric Q.
    one = norms.dtype.type(1)  # an integer over a float of single precision would be of double precision
    n_atoms, first = column.shape[0], now * support.shape[1]
    _load_column(atom, gram, coef, weight, i, column, factors, chosen)
    for t in range(n_used):
        chosen[t] = first + t
        factors[t] = -column[support[now, t]]
    add_combination(factors, chosen, n_used, solution, column)
    scale = one / norms[now, atom]
    step = correlation[now, atom] * scale
    for k in range(n_atoms):
        part = column[k] * scale
        solution[first + n_used, k] = part
        norms[now, k] -= column[k] * part
        correlation[now, k] -= column[k] * step
    for t in range(n_used):
        factors[t] = -solution[first + t, atom]
    for t in range(n_used):
        factor = factors[t]
        for k in range(n_atoms):
            solution[first + t, k] += factor * solution[first + n_used, k]
        code[now, t] += factor * step
        for s in range(n_used):
            inverse[now, t, s] += factor * factors[s] * scale
        inverse[now, t, n_used] = factor * scale
        inverse[now, n_used, t] = factor * scale
    inverse[now, n_used, n_used] = scale
    code[now, n_used] = step
    support[now, n_used] = atom


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, fastmath={"contract"})
def _exchange(
    atom, place, now, new, n_used, gram, coef, weight, i, correlation, norms, column, solution, inverse, code, support,
    factors, chosen,
):  # fmt: skip
    # Make support `new` of support `now` with an atom in this place: the one there leaves, then this one enters, in one
    # pass over V. Without the atom that leaves, row t of V is V[t] + f_t V[place] with f_t = -P[t, place] / P[p, p].
    zero, one = norms.dtype.type(0), norms.dtype.type(1)
    n_atoms, first, last = column.shape[0], now * support.shape[1], new * support.shape[1]
    leaving = first + place
    freed = one / inverse[now, place, place]
    back = code[now, place] * freed
    _load_column(atom, gram, coef, weight, i, column, factors, chosen)
    n_chosen = 0
    total = zero
    for t in range(n_used):
        if t != place:
            chosen[n_chosen] = first + t
            factors[n_chosen] = -column[support[now, t]]
            total -= factors[n_chosen] * inverse[now, t, place]
            n_chosen += 1
    chosen[n_chosen] = leaving
    factors[n_chosen] = total * freed
    add_combination(factors, chosen, n_chosen + 1, solution, column)
    part = solution[leaving, atom]
    scale = one / (norms[now, atom] + part * part * freed)
    step = (correlation[now, atom] + part * back) * scale
    for k in range(n_atoms):
        gone = solution[leaving, k]
        come = column[k] * scale
        solution[last + place, k] = come
        norms[new, k] = norms[now, k] + gone * gone * freed - column[k] * come
        correlation[new, k] = correlation[now, k] + gone * back - column[k] * step
    for t in range(n_used):
        factors[t] = inverse[now, t, place] * freed * part - solution[first + t, atom]
        support[new, t] = support[now, t]
    for t in range(n_used):
        if t != place:
            out, come = -inverse[now, t, place] * freed, factors[t]
            for k in range(n_atoms):
                solution[last + t, k] = (
                    solution[first + t, k] + out * solution[leaving, k] + come * solution[last + place, k]
                )
            code[new, t] = code[now, t] + out * code[now, place] + come * step
            for s in range(n_used):
                if s != place:
                    moved = inverse[now, t, s] + out * inverse[now, place, s]
                    inverse[new, t, s] = moved + come * factors[s] * scale
            inverse[new, t, place] = come * scale
            inverse[new, place, t] = come * scale
    inverse[new, place, place] = scale
    code[new, place] = step
    support[new, place] = atom


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, fastmath={"contract"})
def _rate_swaps(
    now, n_used, has_room, smallest_norms, correlation, norms, rise, room, gain, solution, inverse, code, support
):
    # The gain of every atom with the support's atom whose loss costs least, or with none where there is room. The least
    # rise is kept as a fraction, rise / room, and fractions are compared crosswise: a division is slow.
    zero = norms.dtype.type(0)
    n_atoms, first = gain.shape[0], now * support.shape[1]
    n_leaving = 0 if has_room else n_used
    for k in range(0 if n_leaving > 0 else n_atoms):
        rise[k] = zero
        room[k] = 1
    for t in range(n_leaving):
        value, own = code[now, t], inverse[now, t, t]
        for k in range(n_atoms):
            part, norm = solution[first + t, k], norms[now, k]
            moved = value * norm - part * correlation[now, k]
            over, under = moved * moved, own * norm + part * part
            is_less = t == 0 or over * room[k] < rise[k] * under
            rise[k] = over if is_less else rise[k]
            room[k] = under if is_less else room[k]
    for k in range(n_atoms):
        net = correlation[now, k] * correlation[now, k] * room[k] - rise[k]
        gain[k] = net / (room[k] * norms[now, k]) if net > zero and norms[now, k] > smallest_norms[k] else zero
    for t in range(n_used):
        gain[support[now, t]] = zero


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, fastmath={"contract"})
def _rate_entries(place, now, n_used, smallest_norms, correlation, norms, gain, solution, inverse, code, support):
    # The gain of every atom after the one in this place is taken out.
    zero, one = norms.dtype.type(0), norms.dtype.type(1)
    leaving = now * support.shape[1] + place
    freed = one / inverse[now, place, place]
    back = code[now, place] * freed
    for k in range(gain.shape[0]):
        part, norm = solution[leaving, k], norms[now, k]
        product = correlation[now, k] + part * back
        gain[k] = product * product / (norm + part * part * freed) if norm > smallest_norms[k] else zero
    for t in range(n_used):
        gain[support[now, t]] = zero


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
def _find_place(atom, now, n_used, correlation, norms, solution, inverse, code, support):
    # The place of the support that the best swap with this atom gives up.
    best, lowest = 0, np.inf
    for t in range(n_used):
        part, norm = solution[now * support.shape[1] + t, atom], norms[now, atom]
        moved = code[now, t] * norm - part * correlation[now, atom]
        rise = moved * moved / (inverse[now, t, t] * norm + part * part)
        if rise < lowest:
            best, lowest = t, rise
    return best


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
def _swap_code(atom, place, now, n_used, correlation, norms, solution, inverse, code, support):
    # The code after a last swap, for which V need not be brought up to date.
    first, norm = now * support.shape[1], norms[now, atom]
    step = correlation[now, atom] / norm
    own = solution[first + place, atom]
    part = own / norm
    left = (code[now, place] - own * step) / (inverse[now, place, place] + part * own)
    for t in range(n_used):
        if t != place:
            other = solution[first + t, atom]
            code[now, t] -= other * step + (inverse[now, t, place] + part * other) * left
    code[now, place] = step + part * left
    support[now, place] = atom


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
def _kick(
    n_kicks, now, n_used, smallest_gain, smallest_norms, rise, room, gain, ordered, is_kicked,
    gram, coef, weight, i, correlation, norms, column, solution, inverse, code, support, factors, chosen,
):  # fmt: skip
    # Return the first support with a lower minimum that a kick of support `now` leads to, or `now` itself.
    zero = norms.dtype.type(0)
    for t in range(n_used):
        is_kicked[t] = False
    for _ in range(min(n_kicks, n_used)):
        kicked, lost = -1, zero
        for t in range(n_used):
            raised = code[now, t] * code[now, t] / inverse[now, t, t]
            if not is_kicked[t] and (kicked < 0 or raised < lost):
                kicked, lost = t, raised
        is_kicked[kicked] = True
        here, place, banned = now, kicked, support[now, kicked]
        for n in range(1 + n_used):
            least = zero
            if n == 0:
                _rate_entries(
                    place, now, n_used, smallest_norms, correlation, norms, gain, solution, inverse, code, support
                )
            else:
                _rate_swaps(
                    here, n_used, False, smallest_norms, correlation, norms, rise, room, gain,
                    solution, inverse, code, support,
                )  # fmt: skip
                gain[banned] = zero
                least = max(smallest_gain, norms.dtype.type(FAIR_SHARE) * lost)
            atom = position_of_largest(ordered)
            if not gain[atom] > least:
                break
            lost -= gain[atom]
            if n > 0:
                place = _find_place(atom, here, n_used, correlation, norms, solution, inverse, code, support)
            new = (now + 1) % 3 if here == now else 3 - now - here
            _exchange(
                atom, place, here, new, n_used, gram, coef, weight, i,
                correlation, norms, column, solution, inverse, code, support, factors, chosen,
            )  # fmt: skip
            here = new
        if -lost > smallest_gain:
            return here
    return now


@njit(cache=True, nogil=True, error_model="numpy")
def replace_rows(
    gram,  # (n_atoms, n_atoms)
    correlations,  # (n_sources, n_atoms)
    coef,  # (n_classes, n_atoms)
    weight,  # (n_rows, n_classes)
    pull,  # (n_rows, n_classes)
    sources,  # (n_rows,) which of the correlations a row has
    smallest_gains,  # (n_rows,) a swap or a kick must lower the minimum by more
    pivot_floor,  # this share or less of a dependent atom lies off the support
    n_swaps,  # at most; a kick counts as one
    n_kicks,  # at most, of the atoms that are the least to lose, where no swap is left
    may_grow,  # whether an atom may enter without another leaving, where the budget allows it
    workspace,
    indices,  # (n_rows, budget) in: the supports; out: the new ones
    values,  # (n_rows, budget) in: not zero where a place is used; out: the minimum on the new support
    n_taken,  # out, (n_rows,) number of swaps and kicks
):
    """Improve the supports of all rows by swaps, each the best of all there are, and kicks, and solve on them."""
    zero = gram.dtype.type(0)
    n_rows, budget = indices.shape
    n_atoms, n_classes = gram.shape[0], coef.shape[0]
    aligned_coef, squared_coef = workspace.coef, workspace.squared_coef
    squared_norms, smallest_norms = workspace.squared_norms, workspace.smallest_norms
    correlation, norms, column = workspace.correlation, workspace.norms, workspace.column
    rise, room, gain, ordered = workspace.rise, workspace.room, workspace.gain, workspace.ordered
    solution, inverse, code = workspace.solution, workspace.inverse, workspace.code
    support, factors, chosen = workspace.support, workspace.factors, workspace.chosen
    is_kicked = workspace.is_kicked
    for j in range(n_classes):
        for k in range(n_atoms):
            aligned_coef[j, k] = coef[j, k]
            squared_coef[j, k] = coef[j, k] * coef[j, k]
    for k in range(n_atoms):
        squared_norms[k] = gram[k, k]

    for i in range(n_rows):
        for k in range(n_atoms):
            correlation[0, k] = correlations[sources[i], k]
            norms[0, k] = squared_norms[k]
        n_pulling = _choose_classes(pull, i, factors, chosen)
        add_combination(factors, chosen, n_pulling, aligned_coef, correlation[0, :n_atoms])
        n_weighted = _choose_classes(weight, i, factors, chosen)
        add_combination(factors, chosen, n_weighted, squared_coef, norms[0, :n_atoms])
        for k in range(n_atoms):  # what is left will be a difference of numbers this large
            smallest_norms[k] = pivot_floor * max(norms[0, k], squared_norms[k])

        n_used = 0
        for t in range(budget):
            if values[i, t] == zero:
                break
            atom = indices[i, t]
            if norms[0, atom] > smallest_norms[atom]:
                _enter(
                    atom, 0, n_used, gram, aligned_coef, weight, i,
                    correlation, norms, column, solution, inverse, code, support, factors, chosen,
                )  # fmt: skip
                n_used += 1
        n_taken[i] = 0
        now = 0
        while n_taken[i] < n_swaps:
            has_room = may_grow and n_used < budget
            if n_used == 0 and not has_room:
                break
            _rate_swaps(
                now, n_used, has_room, smallest_norms, correlation, norms, rise, room, gain,
                solution, inverse, code, support,
            )  # fmt: skip
            atom = position_of_largest(ordered)
            if not gain[atom] > smallest_gains[i]:
                new = _kick(
                    n_kicks, now, n_used, smallest_gains[i], smallest_norms, rise, room, gain, ordered,
                    is_kicked, gram, aligned_coef, weight, i,
                    correlation, norms, column, solution, inverse, code, support, factors, chosen,
                )  # fmt: skip
                if new == now:
                    break
                now = new
                n_taken[i] += 1
                continue
            n_taken[i] += 1
            if has_room:
                _enter(
                    atom, now, n_used, gram, aligned_coef, weight, i,
                    correlation, norms, column, solution, inverse, code, support, factors, chosen,
                )  # fmt: skip
                n_used += 1
                continue
            place = _find_place(atom, now, n_used, correlation, norms, solution, inverse, code, support)
            if n_taken[i] < n_swaps:
                new = (now + 1) % 3
                _exchange(
                    atom, place, now, new, n_used, gram, aligned_coef, weight, i,
                    correlation, norms, column, solution, inverse, code, support, factors, chosen,
                )  # fmt: skip
                now = new
            else:
                _swap_code(atom, place, now, n_used, correlation, norms, solution, inverse, code, support)
        store_row(i, support[now], code[now], n_used, indices, values)
