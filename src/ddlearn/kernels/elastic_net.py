"""The elastic net over a block of rows by active sets, in Numba.

Each row holds one problem of its own:

    minimise  x'Qx / 2 - c'x + l1 |x|_1 + l2 x'x / 2  over x with at most T nonzeros (and, if positive, none below 0),
    Q = gram + coef' diag(weight) coef - directions' directions,        c = correlation + coef' pull.

The budget T is room in memory: as long as a row stays below it, its code is the minimum over all x.

Only a small active set of atoms, whose part of Q is copied, is worked on.  A pass of coordinate descent lets atoms in
and finds signs; for given signs the rest is one linear system (feature-sign search, Lee, Battle, Raina and Ng 2007),
solved by the Cholesky factor of Q + l2 on the atoms in use.  A step that would change a sign ends where the first
coefficient becomes zero, and the next goes on without that atom; if the system is singular, so does a step along the
dependence of its atoms.  Then the slopes c - Qx of all atoms are brought up to date, the duality gap is measured, and a
few of the atoms whose slopes exceed l1 most are taken in.  No round raises the objective.

The gap, for the problem as |b - Ax|^2 / 2 + l1 |x|_1 with A'A = Q + l2 and A'b = c, and with the residual r = b - Ax
scaled down by s <= 1 until it is feasible for the dual, is

    gap = (1 - s)^2 |r|^2 / 2 + l1 |x|_1 - s x'A'r,        A'r = c - Qx - l2 x.

The smallest helpers get arrays, not the workspace: to take an array out of it may cost an atomic reference count.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from .codes import add_combination, store_row
from .pursuit import SEARCH_BLOCK, allocate_rows

# In one round atoms enter whose excess over l1 is at least this share of the largest: a few, and more when there are
# many already. Atoms are alike, so that of those which look useful together most turn out to be of no use.
_ENTERING_SHARE = 0.7
_FEWEST_ENTERING = 4
_ACTIVE_PER_ENTERING = 8


class ElasticNetWorkspace(NamedTuple):
    """What one thread overwrites row after row."""

    correlation: np.ndarray  # (n_atoms,) c
    slope: np.ndarray  # (n_atoms,) c - Qx
    size: np.ndarray  # (n_atoms,) of the slopes of atoms that may enter, 0 for the others
    ordered: np.ndarray  # (n_atoms,) the bits of `size` as integers
    largest: np.ndarray  # (n_blocks,) of `ordered` in each block
    active: np.ndarray  # (budget,) the atoms
    coefficient: np.ndarray  # (budget,) of x
    applied: np.ndarray  # (budget,) of x when the slopes were last brought up to date
    inverse: np.ndarray  # (budget,) 1 / (Q + l2) on the diagonal
    active_slope: np.ndarray  # (budget,)
    active_gram: np.ndarray  # (budget, budget or a few more) Q on the active set
    active_coef: np.ndarray  # (budget, n_classes + n_directions) of classes of nonzero weight, then of directions
    used: np.ndarray  # (budget,) positions in the active set of nonzero coefficients
    factored: np.ndarray  # (budget,) the atoms in `factor`
    factor: np.ndarray  # (budget, budget or a few more) Cholesky factor, upper
    column: np.ndarray  # (budget,) of it, while it is built
    step: np.ndarray  # (budget,)
    weighted: np.ndarray  # (n_classes,) the classes whose weight in this row is not zero
    class_weight: np.ndarray  # (n_classes + n_directions,) and their weights; directions have -1
    factors: np.ndarray  # (as many as there can be) of a combination of rows that is being added
    chosen: np.ndarray  # (the same) those rows


def make_elastic_net_workspace(budget, n_atoms, n_classes, n_directions, dtype):
    """Allocate the workspace of one thread."""
    n_factors = max(budget, n_classes, n_directions, 1)
    correlation, slope, size = allocate_rows(3, n_atoms, dtype)[:, :n_atoms]
    ordered = size.view(np.int64 if size.itemsize == 8 else np.int32)
    coefficient, applied, inverse, active_slope, column, step = allocate_rows(6, budget, dtype)[:, :budget]
    return ElasticNetWorkspace(
        correlation=correlation,
        slope=slope,
        size=size,
        ordered=ordered,
        largest=np.empty(-(-n_atoms // SEARCH_BLOCK), ordered.dtype),
        active=np.empty(budget, np.int32),
        coefficient=coefficient,
        applied=applied,
        inverse=inverse,
        active_slope=active_slope,
        active_gram=allocate_rows(budget, budget, dtype),
        active_coef=np.empty((budget, n_classes + n_directions), dtype),
        used=np.empty(budget, np.int32),
        factored=np.empty(budget, np.int32),
        factor=allocate_rows(budget, budget, dtype),
        column=column,
        step=step,
        weighted=np.empty(n_classes, np.int32),
        class_weight=np.empty(n_classes + n_directions, dtype),
        factors=np.empty(n_factors, dtype),
        chosen=np.empty(n_factors, np.int32),
    )


@njit(cache=True, nogil=True, error_model="numpy")
def _visit_active(active_gram, active_slope, coefficient, inverse, n_active, l1, is_positive):
    # One pass of coordinate descent over the active set; active_slope stays (c - Qx)[active].
    zero = l1 - l1
    for a in range(n_active):
        before = coefficient[a]
        slope = active_slope[a] + active_gram[a, a] * before
        after = zero
        if slope > l1:
            after = (slope - l1) * inverse[a]
        elif slope < -l1 and not is_positive:
            after = (slope + l1) * inverse[a]
        if after != before:
            step = after - before
            coefficient[a] = after
            for b in range(n_active):
                active_slope[b] -= step * active_gram[a, b]


@njit(cache=True, nogil=True, error_model="numpy")
def _extend_factor(active_gram, used, factor, column, k, l2, pivot_floor):
    # Append the column of the k-th atom in use to U, where U'U = Q + l2; return False if it depends on those before it.
    atom = used[k]
    for j in range(k):
        column[j] = active_gram[atom, used[j]]
    norm = active_gram[atom, atom] + l2
    pivot = norm
    for i in range(k):
        entry = column[i] / factor[i, i]
        column[i] = entry
        pivot -= entry * entry
        for j in range(i + 1, k):
            column[j] -= entry * factor[i, j]
    for i in range(k):
        factor[i, k] = column[i]
    factor[k, k] = np.sqrt(max(pivot, pivot - pivot))
    return pivot > pivot_floor * norm


@njit(cache=True, nogil=True, error_model="numpy")
def _solve_factored(factor, step, n):
    # Solve U'U step = step in place.
    for i in range(n):
        entry = step[i] / factor[i, i]
        step[i] = entry
        for j in range(i + 1, n):
            step[j] -= entry * factor[i, j]
    _solve_upper(factor, step, n)


@njit(cache=True, nogil=True, error_model="numpy")
def _solve_upper(factor, step, n):
    # Solve U step = step in place.
    for i in range(n - 1, -1, -1):
        total = step[i]
        for j in range(i + 1, n):
            total -= factor[i, j] * step[j]
        step[i] = total / factor[i, i]


@njit(cache=True, nogil=True, error_model="numpy")
def _find_null_direction(coefficient, used, factor, column, step, k, n_used):
    # In place of the slopes in `step`, a direction along which Ax does not change: the k-th atom against those before
    # it, of which it is a combination. It leads down, or is level, and some coefficient becomes zero on the way.
    zero = step.dtype.type(0)
    _solve_upper(factor, column, k)
    rate = step[k]
    for i in range(k):
        rate -= column[i] * step[i]
        step[i] = -column[i]
    step[k] = 1
    for i in range(k + 1, n_used):
        step[i] = zero
    ends = False
    if rate >= zero:
        for i in range(k + 1):
            ends = ends or coefficient[used[i]] * step[i] < zero
    if not ends:
        for i in range(k + 1):
            step[i] = -step[i]


@njit(cache=True, nogil=True, error_model="numpy")
def _take_step(active_gram, active_slope, coefficient, used, step, longest, n_used, n_active):
    # Go along the step until it ends, or a coefficient becomes zero; return whether it was taken whole.
    zero = step.dtype.type(0)
    share = longest
    for i in range(n_used):
        x = coefficient[used[i]]
        if step[i] != zero and (x > zero) == (step[i] < zero):
            share = min(share, -x / step[i])
    is_whole = True
    for i in range(n_used):
        a = used[i]
        x = coefficient[a]
        after = x + share * step[i]
        if (
            step[i] != zero
            and (x > zero) == (step[i] < zero)
            and (-x / step[i] <= share or (x > zero) != (after > zero))
        ):
            after = zero
            is_whole = False
        coefficient[a] = after
        for b in range(n_active):
            active_slope[b] -= (after - x) * active_gram[a, b]
    return is_whole


@njit(cache=True, nogil=True, error_model="numpy")
def _solve_signed(workspace, n_active, n_factored, l1, l2, pivot_floor):
    # Move the coefficients in use to the minimum for their signs, dropping those that become zero on the way. The
    # factor is kept as far as the atoms in it are still the same; return how many there are.
    active, active_gram, active_slope = workspace.active, workspace.active_gram, workspace.active_slope
    coefficient, used, factored = workspace.coefficient, workspace.used, workspace.factored
    factor, column, step = workspace.factor, workspace.column, workspace.step
    zero = l1 - l1
    one = zero + 1
    while True:
        n_used = 0
        n_same = 0
        for a in range(n_active):
            x = coefficient[a]
            if x == zero:
                continue
            if n_same == n_used and n_used < n_factored and factored[n_used] == active[a]:
                n_same += 1
            used[n_used] = a
            factored[n_used] = active[a]
            step[n_used] = active_slope[a] - l2 * x - (l1 if x > zero else -l1)
            n_used += 1
        n_factored = n_same
        while n_factored < n_used and _extend_factor(active_gram, used, factor, column, n_factored, l2, pivot_floor):
            n_factored += 1
        longest = one
        if n_factored == n_used:
            _solve_factored(factor, step, n_used)
        else:
            _find_null_direction(coefficient, used, factor, column, step, n_factored, n_used)
            longest = step.dtype.type(np.inf)
        if _take_step(active_gram, active_slope, coefficient, used, step, longest, n_used, n_active):
            return n_factored


@njit(cache=True, nogil=True, error_model="numpy")
def _apply(gram, coef, directions, first_direction, n_directions, workspace, n_active, n_weighted):
    # slope -= Q (coefficient - applied), over all atoms.
    slope, factors, chosen = workspace.slope, workspace.factors, workspace.chosen
    active, coefficient, applied = workspace.active, workspace.coefficient, workspace.applied
    active_coef, weighted, class_weight = workspace.active_coef, workspace.weighted, workspace.class_weight
    zero = slope.dtype.type(0)
    n_changed = 0
    for a in range(n_active):
        if coefficient[a] != applied[a]:
            factors[n_changed] = applied[a] - coefficient[a]
            chosen[n_changed] = active[a]
            n_changed += 1
    add_combination(factors, chosen, n_changed, gram, slope)
    if n_weighted > 0:
        for j in range(n_weighted):
            factors[j] = zero
        for a in range(n_active):
            for j in range(n_weighted):
                factors[j] += (applied[a] - coefficient[a]) * active_coef[a, j]
        for j in range(n_weighted):
            factors[j] *= class_weight[j]
        add_combination(factors, weighted, n_weighted, coef, slope)
    if n_directions > 0:
        for d in range(n_directions):
            factors[d] = zero
            chosen[d] = first_direction + d
        for a in range(n_active):
            for d in range(n_directions):
                factors[d] += (coefficient[a] - applied[a]) * active_coef[a, n_weighted + d]
        add_combination(factors, chosen, n_directions, directions, slope)
    for a in range(n_active):
        applied[a] = coefficient[a]


@njit(cache=True, nogil=True, error_model="numpy")
def _drop_zeros(workspace, n_active, n_columns):
    # Atoms without coefficient leave the active set; the others move up, which overwrites no place still to be read.
    active, coefficient, applied = workspace.active, workspace.coefficient, workspace.applied
    inverse, active_gram, active_coef = workspace.inverse, workspace.active_gram, workspace.active_coef
    kept = workspace.used
    n_kept = 0
    for a in range(n_active):
        if coefficient[a] != 0:
            kept[n_kept] = a
            n_kept += 1
    if n_kept == n_active:
        return n_active
    for a in range(n_kept):
        old = kept[a]
        active[a] = active[old]
        coefficient[a] = coefficient[old]
        applied[a] = applied[old]
        inverse[a] = inverse[old]
        for b in range(n_kept):
            active_gram[a, b] = active_gram[old, kept[b]]
        for j in range(n_columns):
            active_coef[a, j] = active_coef[old, j]
    return n_kept


@njit(cache=True, nogil=True, error_model="numpy")
def _enter(gram, coef, directions, first_direction, n_directions, workspace, n_active, n_weighted, l2, atom, start):
    # The atom joins the active set with coefficient `start`, which the slopes know nothing of yet.
    active, coefficient, applied = workspace.active, workspace.coefficient, workspace.applied
    inverse, active_gram, active_coef = workspace.inverse, workspace.active_gram, workspace.active_coef
    weighted, class_weight = workspace.weighted, workspace.class_weight
    zero = gram.dtype.type(0)
    one = gram.dtype.type(1)
    active[n_active] = atom
    coefficient[n_active] = start
    applied[n_active] = zero
    for j in range(n_weighted):
        active_coef[n_active, j] = coef[weighted[j], atom]
    for d in range(n_directions):
        active_coef[n_active, n_weighted + d] = directions[first_direction + d, atom]
    for a in range(n_active + 1):
        entry = gram[atom, active[a]]
        for j in range(n_weighted + n_directions):
            entry += class_weight[j] * active_coef[n_active, j] * active_coef[a, j]
        active_gram[n_active, a] = entry
        active_gram[a, n_active] = entry
    norm = active_gram[n_active, n_active] + l2
    inverse[n_active] = one / norm if norm > zero else zero  # an atom of norm zero never gets a coefficient


@njit(cache=True, nogil=True, error_model="numpy")
def _find_largest(ordered, largest):
    # The first position of the largest number, from the largest of each block.
    best = 0
    for block in range(largest.shape[0]):
        if largest[block] > largest[best]:
            best = block
    for k in range(best * SEARCH_BLOCK, ordered.shape[0]):
        if ordered[k] == largest[best]:
            return k
    return 0


@njit(cache=True, nogil=True, error_model="numpy")
def _size_block(ordered, largest, block):
    low = block * SEARCH_BLOCK
    in_block = ordered[low]
    for k in range(low, min(low + SEARCH_BLOCK, ordered.shape[0])):
        in_block = max(in_block, ordered[k])
    largest[block] = in_block


@njit(cache=True, nogil=True, error_model="numpy")
def _size_slopes(slope, active, n_active, is_positive, size, ordered, largest):
    # What the slopes of atoms outside the active set amount to; return the atom of the largest.
    if is_positive:
        for k in range(slope.shape[0]):
            size[k] = (abs(slope[k]) + slope[k]) / 2
    else:
        for k in range(slope.shape[0]):
            size[k] = abs(slope[k])
    for a in range(n_active):
        size[active[a]] = 0
    for block in range(largest.shape[0]):
        _size_block(ordered, largest, block)
    return _find_largest(ordered, largest)


@njit(cache=True, nogil=True, error_model="numpy")
def _measure_gap(slope, correlation, active, coefficient, n_active, largest, energy, l1, l2, is_positive):
    # The duality gap; `largest` is that of the slopes outside the active set.
    zero = l1 - l1
    size = zero
    product = zero
    explained = zero
    for a in range(n_active):
        residual_slope = slope[active[a]] - l2 * coefficient[a]
        largest = max(largest, residual_slope if is_positive else abs(residual_slope))
        size += abs(coefficient[a])
        product += coefficient[a] * residual_slope
        explained += coefficient[a] * correlation[active[a]]
    scale = l1 / max(largest, l1)
    squared_residual = max(energy - explained - product, zero)
    return (1 - scale) * (1 - scale) * squared_residual / 2 + l1 * size - scale * product


@njit(cache=True, nogil=True, error_model="numpy")
def _has_moved(coefficient, applied, n_active, rounding):
    largest = rounding - rounding
    change = largest
    for a in range(n_active):
        largest = max(largest, abs(coefficient[a]))
        change = max(change, abs(coefficient[a] - applied[a]))
    return change > rounding * largest


@njit(cache=True, nogil=True, error_model="numpy")
def solve_elastic_net_rows(
    gram,  # (n_atoms, n_atoms)
    correlations,  # (n_rows, n_atoms)
    coef,  # (n_classes, n_atoms)
    weight,  # (n_rows, n_classes)
    pull,  # (n_rows, n_classes)
    directions,  # (n_rows * n_directions, n_atoms) those of the first row first
    energies,  # (n_rows,) |y|^2
    l1,  # positive
    l2,
    is_positive,
    tolerances,  # (n_rows,) a row ends when its duality gap is no larger
    max_rounds,  # ... or after this many rounds
    pivot_floor,  # share of an atom's squared norm below which it depends on others
    rounding,  # share of the largest coefficient below which a change is none
    workspace,
    indices,  # in and out, (n_rows, budget): where a row starts, and its code
    values,  # in and out, (n_rows, budget)
    gaps,  # out, (n_rows,)
):
    """Solve the problem of the module's docstring for every row, starting from the codes given."""
    zero = gram.dtype.type(0)
    n_rows, n_atoms = correlations.shape
    n_classes = coef.shape[0]
    n_directions = directions.shape[0] // max(n_rows, 1)
    budget = indices.shape[1]
    correlation, slope = workspace.correlation, workspace.slope
    size, ordered, largest = workspace.size, workspace.ordered, workspace.largest
    active, coefficient, applied = workspace.active, workspace.coefficient, workspace.applied
    inverse, active_slope, active_gram = workspace.inverse, workspace.active_slope, workspace.active_gram
    weighted, class_weight = workspace.weighted, workspace.class_weight
    factors, chosen = workspace.factors, workspace.chosen

    for i in range(n_rows):
        first_direction = i * n_directions
        energy = energies[i]
        n_pulling = 0
        n_weighted = 0
        for j in range(n_classes):
            if weight[i, j] != zero:
                weighted[n_weighted] = j
                class_weight[n_weighted] = weight[i, j]
                n_weighted += 1
            if pull[i, j] != zero:
                chosen[n_pulling] = j
                factors[n_pulling] = pull[i, j]
                n_pulling += 1
                if weight[i, j] > zero:
                    energy += pull[i, j] * pull[i, j] / weight[i, j]
        for d in range(n_directions):
            class_weight[n_weighted + d] = -1
        for k in range(n_atoms):
            correlation[k] = correlations[i, k]
        add_combination(factors, chosen, n_pulling, coef, correlation)
        for k in range(n_atoms):
            slope[k] = correlation[k]

        n_active = 0
        for t in range(budget):
            if values[i, t] == zero:
                break
            if is_positive and values[i, t] < zero:
                continue
            _enter(
                gram,
                coef,
                directions,
                first_direction,
                n_directions,
                workspace,
                n_active,
                n_weighted,
                l2,
                indices[i, t],
                values[i, t],
            )
            n_active += 1
        n_factored = 0
        is_settled = False
        for _ in range(max_rounds):
            _apply(gram, coef, directions, first_direction, n_directions, workspace, n_active, n_weighted)
            top = _size_slopes(slope, active, n_active, is_positive, size, ordered, largest)
            gaps[i] = _measure_gap(
                slope, correlation, active, coefficient, n_active, size[top], energy, l1, l2, is_positive
            )
            if gaps[i] <= tolerances[i]:
                break
            n_active = _drop_zeros(workspace, n_active, n_weighted + n_directions)
            n_before = n_active
            n_most = min(budget, n_active + _FEWEST_ENTERING + n_active // _ACTIVE_PER_ENTERING)
            entry = l1 + _ENTERING_SHARE * (size[top] - l1)
            while n_active < n_most and size[top] > l1 and size[top] >= entry:
                _enter(
                    gram,
                    coef,
                    directions,
                    first_direction,
                    n_directions,
                    workspace,
                    n_active,
                    n_weighted,
                    l2,
                    top,
                    zero,
                )
                n_active += 1
                size[top] = zero
                _size_block(ordered, largest, top // SEARCH_BLOCK)
                top = _find_largest(ordered, largest)
            if is_settled and n_active == n_before:
                break
            for a in range(n_active):
                active_slope[a] = slope[active[a]]
            _visit_active(active_gram, active_slope, coefficient, inverse, n_active, l1, is_positive)
            n_factored = _solve_signed(workspace, n_active, n_factored, l1, l2, pivot_floor)
            is_settled = not _has_moved(coefficient, applied, n_active, rounding)
        store_row(i, active, coefficient, n_active, indices, values)
