"""Swaps of atoms that improve the codes of a block of rows, in Numba.

Local search from the support S that a pursuit has found, for the problem of ``pursuit.py``.  A swap takes atom k into
the support and atom i out of it.  All swaps of a row are compared, each by the exact minimum on its support.  That
needs, with the atoms as columns,

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
from .codes import add_combination, store_row
from .pursuit import allocate_rows, choose_classes, position_of_largest

# Each swap after a kick must make up for this share of what is still lost.  A third of all kicks go on after the first
# one then, and these have 95 % of what all would gain.
FAIR_SHARE = 0.2


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
    classes = 12 + 3 * budget
    return ReplacementWorkspace(
        rows[classes : classes + n_classes], rows[classes + n_classes :], squared_norms, smallest_norms, column, rise,
        room, gain, gain.view(np.int64 if gain.itemsize == 8 else np.int32), rows[6:9], rows[9:12], rows[12:classes],
        np.empty((3, budget, budget), dtype), np.empty((3, budget), dtype), np.empty((3, budget), np.int32),
        np.empty(budget, np.bool_), np.empty(n_factors, dtype), np.empty(n_factors, np.int32),
    )  # fmt: skip


# Helpers get arrays one by one: to take them out of a tuple costs two reference counts each, more than a short loop.
# They are inlined, since a call counts references too, and products and sums are contracted: a fifth of the time.
@njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
def _load_column(atom, gram, coef, weight, i, column, factors, chosen):
    # A column of Q.
    n_chosen = choose_classes(weight, i, factors, chosen)
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
        n_pulling = choose_classes(pull, i, factors, chosen)
        add_combination(factors, chosen, n_pulling, aligned_coef, correlation[0, :n_atoms])
        n_weighted = choose_classes(weight, i, factors, chosen)
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
