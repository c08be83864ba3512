"""Replacement of atoms in the supports of a block of rows, in Numba: local search for the problem of ``pursuit.py``.

    minimise  x'Qx - 2c'x  over x with at most T nonzeros, from a given support S,
    Q = gram + coef' diag(weight) coef,        c = correlation + coef' pull.

A swap takes atom k into the support and atom i out of it.  All swaps of a row are compared, each by the exact minimum
on its support.  That needs, with the atoms as columns,

    solution     V = inv(Q[S, S]) Q[S],                    the coefficients of each atom in those of the support,
    norms        q = diag(Q) - sum_t Q[S_t] V[t],          what of each atom lies off the support,
    correlation  a = c - Q[S]' x,                          with the residual,

and P = inv(Q[S, S]).  Atom k lowers the minimum by a_k^2 / q_k and moves the code by -V[:, k] a_k / q_k; to take i out
then raises it by x_i^2 / (P_ii + V_ik^2 / q_k), with the moved x_i.  An atom enters or leaves in a pass over V, as in
the elimination of Gauss and Jordan, so that a swap costs O(T K).
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from .codes import add_combination, store_row
from .pursuit import allocate_rows, position_of_largest


class ReplacementWorkspace(NamedTuple):
    """What one thread overwrites row after row."""

    coef: np.ndarray  # (n_classes, n_atoms or a few more) the classifiers, in rows that start on cache lines
    squared_coef: np.ndarray  # (the same)
    squared_norms: np.ndarray  # (n_atoms,) the diagonal of the Gram matrix
    correlation: np.ndarray  # (n_atoms,) a
    norms: np.ndarray  # (n_atoms,) q
    smallest_norms: np.ndarray  # (n_atoms,) up to which an atom depends on the support
    column: np.ndarray  # (n_atoms,) what of the atom that enters lies off the support, as a column of Q
    rise: np.ndarray  # (n_atoms,) rise / room is q times the least rise of taking an atom of the support out
    room: np.ndarray  # (n_atoms,)
    gain: np.ndarray  # (n_atoms,) by which the best swap with this atom lowers the minimum
    ordered: np.ndarray  # (n_atoms,) the bits of `gain` as integers
    columns: np.ndarray  # (budget, n_atoms or a few more) Q[S]
    solution: np.ndarray  # (budget, n_atoms or a few more) V
    inverse: np.ndarray  # (budget, budget) P
    code: np.ndarray  # (budget,) x
    support: np.ndarray  # (budget,) S
    factors: np.ndarray  # (as many as there can be) of a combination of rows that is being added
    chosen: np.ndarray  # (the same) those rows


def make_replacement_workspace(budget, n_atoms, n_classes, dtype):
    """Allocate the workspace of one thread."""
    n_factors = max(budget, n_classes)
    rows = allocate_rows(8 + 2 * budget + 2 * n_classes, n_atoms, dtype)
    squared_norms, correlation, norms, smallest_norms, column, rise, room, gain = rows[:8, :n_atoms]
    return ReplacementWorkspace(
        coef=rows[8 + 2 * budget : 8 + 2 * budget + n_classes],
        squared_coef=rows[8 + 2 * budget + n_classes :],
        squared_norms=squared_norms,
        correlation=correlation,
        norms=norms,
        smallest_norms=smallest_norms,
        column=column,
        rise=rise,
        room=room,
        gain=gain,
        ordered=gain.view(np.int64 if gain.itemsize == 8 else np.int32),
        columns=rows[8 : 8 + budget],
        solution=rows[8 + budget : 8 + 2 * budget],
        inverse=np.empty((budget, budget), dtype),
        code=np.empty(budget, dtype),
        support=np.empty(budget, np.int32),
        factors=np.empty(n_factors, dtype),
        chosen=np.empty(n_factors, np.int32),
    )


# Helpers get arrays one by one: to take them out of a tuple costs two reference counts each, more than a short loop.
@njit(cache=True, nogil=True, error_model="numpy")
def _enter(
    atom,
    place,
    n_used,
    gram,
    coef,
    weight,
    i,
    correlation,
    norms,
    column,
    columns,
    solution,
    inverse,
    code,
    factors,
    chosen,
):  # fmt: skip
    # Put an atom that does not depend on the support into a place of it; n_used places are used, this one included.
    n_atoms = norms.shape[0]
    n_chosen = 0
    for j in range(coef.shape[0]):
        if weight[i, j] != 0:
            chosen[n_chosen] = j
            factors[n_chosen] = weight[i, j] * coef[j, atom]
            n_chosen += 1
    for k in range(n_atoms):
        column[k] = gram[atom, k]
    add_combination(factors, chosen, n_chosen, coef, column)
    for k in range(n_atoms):
        columns[place, k] = column[k]
    n_others = 0
    for t in range(n_used):
        if t != place:
            chosen[n_others] = t
            factors[n_others] = -solution[t, atom]
            n_others += 1
    add_combination(factors, chosen, n_others, columns, column)
    scale = 1 / norms[atom]
    step = correlation[atom] * scale
    for k in range(n_atoms):
        part = column[k] * scale
        solution[place, k] = part
        norms[k] -= column[k] * part
        correlation[k] -= column[k] * step
    for o in range(n_others):
        t = chosen[o]
        factor = factors[o]
        for k in range(n_atoms):
            solution[t, k] += factor * solution[place, k]
        code[t] += factor * step
        for p in range(n_others):
            inverse[t, chosen[p]] += factor * factors[p] * scale
        inverse[t, place] = factor * scale
        inverse[place, t] = factor * scale
    inverse[place, place] = scale
    code[place] = step


@njit(cache=True, nogil=True, error_model="numpy")
def _leave(place, n_used, correlation, norms, solution, inverse, code):
    # Take the atom in this place out of the support; what remains of it is overwritten by the one that enters.
    n_atoms = norms.shape[0]
    scale = 1 / inverse[place, place]
    step = code[place] * scale
    for k in range(n_atoms):
        part = solution[place, k]
        norms[k] += part * part * scale
        correlation[k] += part * step
    for t in range(n_used):
        if t != place:
            factor = -inverse[t, place] * scale
            for k in range(n_atoms):
                solution[t, k] += factor * solution[place, k]
            code[t] += factor * code[place]
            for s in range(n_used):
                if s != place:
                    inverse[t, s] += factor * inverse[place, s]


@njit(cache=True, nogil=True, error_model="numpy")
def _rate_swaps(
    n_used, has_room, smallest_norms, correlation, norms, rise, room, gain, solution, inverse, code, support
):
    # The gain of every atom with the support's atom whose loss costs least, or with none where there is room. The least
    # rise is kept as a fraction, rise / room, and fractions are compared crosswise: a division is slow.
    zero = norms.dtype.type(0)
    n_atoms = norms.shape[0]
    for k in range(n_atoms):
        rise[k] = zero
        room[k] = 1
    for t in range(0 if has_room else n_used):
        value, own = code[t], inverse[t, t]
        for k in range(n_atoms):
            part, norm = solution[t, k], norms[k]
            moved = value * norm - part * correlation[k]
            over, under = moved * moved, own * norm + part * part
            is_less = t == 0 or over * room[k] < rise[k] * under
            rise[k] = over if is_less else rise[k]
            room[k] = under if is_less else room[k]
    for k in range(n_atoms):
        net = (correlation[k] * correlation[k] * room[k] - rise[k]) / (room[k] * norms[k])
        gain[k] = net if net > zero and norms[k] > smallest_norms[k] else zero
    for t in range(n_used):
        gain[support[t]] = zero


@njit(cache=True, nogil=True, error_model="numpy")
def _find_place(atom, n_used, correlation, norms, solution, inverse, code):
    # The place of the support that the best swap with this atom gives up.
    best, lowest = 0, np.inf
    for t in range(n_used):
        part, norm = solution[t, atom], norms[atom]
        moved = code[t] * norm - part * correlation[atom]
        rise = moved * moved / (inverse[t, t] * norm + part * part)
        if rise < lowest:
            best, lowest = t, rise
    return best


@njit(cache=True, nogil=True, error_model="numpy")
def _swap_code(atom, place, n_used, correlation, norms, solution, inverse, code):
    # The code after a last swap, for which V need not be brought up to date.
    step = correlation[atom] / norms[atom]
    part = solution[place, atom] / norms[atom]
    left = (code[place] - solution[place, atom] * step) / (inverse[place, place] + part * solution[place, atom])
    for t in range(n_used):
        if t != place:
            code[t] -= solution[t, atom] * step + (inverse[t, place] + part * solution[t, atom]) * left
    code[place] = step + part * left


@njit(cache=True, nogil=True, error_model="numpy")
def replace_rows(
    gram,  # (n_atoms, n_atoms)
    correlations,  # (n_sources, n_atoms)
    coef,  # (n_classes, n_atoms)
    weight,  # (n_rows, n_classes)
    pull,  # (n_rows, n_classes)
    sources,  # (n_rows,) which of the correlations a row has
    smallest_gains,  # (n_rows,) a swap must lower the minimum by more
    pivot_floor,  # this share or less of a dependent atom lies off the support
    n_swaps,  # at most
    may_grow,  # whether an atom may enter without another leaving, where the budget allows it
    workspace,
    indices,  # (n_rows, budget) in: the supports; out: the new ones
    values,  # (n_rows, budget) in: not zero where a place is used; out: the minimum on the new support
    n_taken,  # out, (n_rows,) number of swaps
):
    """Improve the supports of all rows by swaps, each the best of all there are, and solve on them."""
    zero = gram.dtype.type(0)
    n_rows, budget = indices.shape
    n_atoms, n_classes = gram.shape[0], coef.shape[0]
    aligned_coef, squared_coef = workspace.coef, workspace.squared_coef
    squared_norms, smallest_norms = workspace.squared_norms, workspace.smallest_norms
    correlation, norms, column = workspace.correlation, workspace.norms, workspace.column
    rise, room, gain, ordered = workspace.rise, workspace.room, workspace.gain, workspace.ordered
    columns, solution, inverse = workspace.columns, workspace.solution, workspace.inverse
    code, support, factors, chosen = workspace.code, workspace.support, workspace.factors, workspace.chosen
    for j in range(n_classes):
        for k in range(n_atoms):
            aligned_coef[j, k] = coef[j, k]
            squared_coef[j, k] = coef[j, k] * coef[j, k]
    for k in range(n_atoms):
        squared_norms[k] = gram[k, k]

    for i in range(n_rows):
        for k in range(n_atoms):
            correlation[k] = correlations[sources[i], k]
            norms[k] = squared_norms[k]
        n_pulling = 0
        for j in range(n_classes):
            if pull[i, j] != zero:
                chosen[n_pulling] = j
                factors[n_pulling] = pull[i, j]
                n_pulling += 1
        add_combination(factors, chosen, n_pulling, aligned_coef, correlation)
        n_weighted = 0
        for j in range(n_classes):
            if weight[i, j] != zero:
                chosen[n_weighted] = j
                factors[n_weighted] = weight[i, j]
                n_weighted += 1
        add_combination(factors, chosen, n_weighted, squared_coef, norms)
        for k in range(n_atoms):  # what is left will be a difference of numbers this large
            smallest_norms[k] = pivot_floor * max(norms[k], squared_norms[k])

        n_used = 0
        for t in range(budget):
            if values[i, t] == zero:
                break
            atom = indices[i, t]
            if norms[atom] > smallest_norms[atom]:
                support[n_used] = atom
                n_used += 1
                _enter(
                    atom, n_used - 1, n_used, gram, aligned_coef, weight, i,
                    correlation, norms, column, columns, solution, inverse, code, factors, chosen,
                )  # fmt: skip
        n_taken[i] = 0
        while n_taken[i] < n_swaps:
            has_room = may_grow and n_used < budget
            if n_used == 0 and not has_room:
                break
            _rate_swaps(
                n_used, has_room, smallest_norms, correlation, norms, rise, room, gain, solution, inverse, code, support
            )
            atom = position_of_largest(ordered)
            if not gain[atom] > smallest_gains[i]:
                break
            n_taken[i] += 1
            if has_room:
                place = n_used
                n_used += 1
            else:
                place = _find_place(atom, n_used, correlation, norms, solution, inverse, code)
                if n_taken[i] < n_swaps:
                    _leave(place, n_used, correlation, norms, solution, inverse, code)
            support[place] = atom
            if has_room or n_taken[i] < n_swaps:
                _enter(
                    atom, place, n_used, gram, aligned_coef, weight, i,
                    correlation, norms, column, columns, solution, inverse, code, factors, chosen,
                )  # fmt: skip
            else:
                _swap_code(atom, place, n_used, correlation, norms, solution, inverse, code)
        store_row(i, support, code, n_used, indices, values)
