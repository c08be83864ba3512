"""Replacement of atoms in the supports of a block of rows, in Numba: local search for the problem of ``pursuit.py``.

    minimise  x'Qx - 2c'x  over x with at most T nonzeros, from a given support S,
    Q = gram + coef' diag(weight) coef,        c = correlation + coef' pull.

A swap takes atom k into the support and atom i out of it.  All swaps of a row are compared, each by the exact minimum
on its support.  That needs, with the atoms as columns,

    solution     V = inv(Q[S, S]) Q[S],                    the coefficients of each atom in those of the support,
    norms        q = diag(Q) - sum_t Q[S_t] V[t],          what of each atom lies off the support,
    correlation  a = c - Q[S]' x,                          with the residual,

and P = inv(Q[S, S]).  Atom k lowers the minimum by a_k^2 / q_k and moves the code by -V[:, k] a_k / q_k; to take i out then
raises it by x_i^2 / (P_ii + V_ik^2 / q_k), with the moved x_i.  An atom enters or leaves in a pass over V, as in the
elimination of Gauss and Jordan, so that a swap costs O(T K).
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from .codes import add_combination, store_row
from .pursuit import allocate_rows, position_of_largest


class ReplacementWorkspace(NamedTuple):
    """What one thread overwrites row after row."""

    squared_coef: np.ndarray  # (n_classes, n_atoms)
    squared_norms: np.ndarray  # (n_atoms,) the diagonal of the Gram matrix
    correlation: np.ndarray  # (n_atoms,) a
    norms: np.ndarray  # (n_atoms,) q
    smallest_norms: np.ndarray  # (n_atoms,) up to which an atom depends on the support
    column: np.ndarray  # (n_atoms,) what of the atom that enters lies off the support, as a column of Q
    lowest: np.ndarray  # (n_atoms,) q times the least rise of taking an atom out
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
    rows = allocate_rows(7 + 2 * budget, n_atoms, dtype)
    squared_norms, correlation, norms, smallest_norms, column, lowest, gain = rows[:7, :n_atoms]
    return ReplacementWorkspace(
        squared_coef=np.empty((n_classes, n_atoms), dtype),
        squared_norms=squared_norms,
        correlation=correlation,
        norms=norms,
        smallest_norms=smallest_norms,
        column=column,
        lowest=lowest,
        gain=gain,
        ordered=gain.view(np.int64 if gain.itemsize == 8 else np.int32),
        columns=rows[7 : 7 + budget],
        solution=rows[7 + budget :],
        inverse=np.empty((budget, budget), dtype),
        code=np.empty(budget, dtype),
        support=np.empty(budget, np.int32),
        factors=np.empty(n_factors, dtype),
        chosen=np.empty(n_factors, np.int32),
    )


@njit(cache=True, nogil=True, error_model="numpy")
def _enter(atom, place, n_used, gram, coef, weight, i, workspace):
    # Put an atom that does not depend on the support into a place of it; n_used places are used, this one included.
    correlation, norms, column = workspace.correlation, workspace.norms, workspace.column
    columns, solution, inverse = workspace.columns, workspace.solution, workspace.inverse
    code, factors, chosen = workspace.code, workspace.factors, workspace.chosen
    n_atoms, n_classes = norms.shape[0], coef.shape[0]
    n_chosen = 0
    for j in range(n_classes):
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
    workspace.support[place] = atom


@njit(cache=True, nogil=True, error_model="numpy")
def _leave(place, n_used, workspace):
    # Take the atom in this place out of the support; what remains of it is overwritten by the one that enters.
    norms, correlation, code = workspace.norms, workspace.correlation, workspace.code
    solution, inverse = workspace.solution, workspace.inverse
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
def _rise_without(t, atom, workspace):
    # By how much the minimum rises, times q, when place t of the support is given up after the atom has entered.
    part, norm = workspace.solution[t, atom], workspace.norms[atom]
    moved = workspace.code[t] * norm - part * workspace.correlation[atom]
    return moved * moved / (workspace.inverse[t, t] * norm + part * part)


@njit(cache=True, nogil=True, error_model="numpy")
def _rate_swaps(n_used, has_room, workspace):
    # The gain of every atom, with the support's atom whose loss costs least, or with none where there is room.
    norms, correlation, lowest, gain = workspace.norms, workspace.correlation, workspace.lowest, workspace.gain
    solution, smallest_norms = workspace.solution, workspace.smallest_norms
    zero = norms.dtype.type(0)
    n_atoms = norms.shape[0]
    for k in range(n_atoms):
        lowest[k] = zero if has_room else np.inf
    for t in range(0 if has_room else n_used):
        value, own = workspace.code[t], workspace.inverse[t, t]
        for k in range(n_atoms):
            part, norm = solution[t, k], norms[k]
            moved = value * norm - part * correlation[k]
            rise = moved * moved / (own * norm + part * part)
            lowest[k] = rise if rise < lowest[k] else lowest[k]
    for k in range(n_atoms):
        net = (correlation[k] * correlation[k] - lowest[k]) / norms[k]
        gain[k] = net if net > zero and norms[k] > smallest_norms[k] else zero
    for t in range(n_used):
        gain[workspace.support[t]] = zero


@njit(cache=True, nogil=True, error_model="numpy")
def _find_place(atom, n_used, workspace):
    # The place of the support that the best swap with this atom gives up.
    best, lowest = 0, np.inf
    for t in range(n_used):
        rise = _rise_without(t, atom, workspace)
        if rise < lowest:
            best, lowest = t, rise
    return best


@njit(cache=True, nogil=True, error_model="numpy")
def _swap_last(atom, place, n_used, workspace):
    # The code after a swap, for which V need not be brought up to date.
    solution, inverse, code = workspace.solution, workspace.inverse, workspace.code
    norm = workspace.norms[atom]
    step = workspace.correlation[atom] / norm
    part = solution[place, atom] / norm
    left = (code[place] - solution[place, atom] * step) / (inverse[place, place] + part * solution[place, atom])
    for t in range(n_used):
        if t != place:
            code[t] -= solution[t, atom] * step + (inverse[t, place] + part * solution[t, atom]) * left
    code[place] = step + part * left
    workspace.support[place] = atom


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
    correlation, norms, smallest_norms = workspace.correlation, workspace.norms, workspace.smallest_norms
    squared_coef, squared_norms = workspace.squared_coef, workspace.squared_norms
    factors, chosen = workspace.factors, workspace.chosen
    for j in range(n_classes):
        for k in range(n_atoms):
            squared_coef[j, k] = coef[j, k] * coef[j, k]
    for k in range(n_atoms):
        squared_norms[k] = gram[k, k]
        smallest_norms[k] = pivot_floor * gram[k, k]

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
        add_combination(factors, chosen, n_pulling, coef, correlation)
        n_weighted = 0
        for j in range(n_classes):
            if weight[i, j] != zero:
                chosen[n_weighted] = j
                factors[n_weighted] = weight[i, j]
                n_weighted += 1
        add_combination(factors, chosen, n_weighted, squared_coef, norms)

        n_used = 0
        for t in range(budget):
            if values[i, t] == zero:
                break
            atom = indices[i, t]
            if norms[atom] > smallest_norms[atom]:
                n_used += 1
                _enter(atom, n_used - 1, n_used, gram, coef, weight, i, workspace)
        n_taken[i] = 0
        while n_taken[i] < n_swaps:
            has_room = may_grow and n_used < budget
            if n_used == 0 and not has_room:
                break
            _rate_swaps(n_used, has_room, workspace)
            atom = position_of_largest(workspace.ordered)
            if not workspace.gain[atom] > smallest_gains[i]:
                break
            n_taken[i] += 1
            if has_room:
                n_used += 1
                _enter(atom, n_used - 1, n_used, gram, coef, weight, i, workspace)
                continue
            place = _find_place(atom, n_used, workspace)
            if n_taken[i] == n_swaps:
                _swap_last(atom, place, n_used, workspace)
            else:
                _leave(place, n_used, workspace)
                _enter(atom, place, n_used, gram, coef, weight, i, workspace)
        store_row(i, workspace.support, workspace.code, n_used, indices, values)
