"""The elastic net over a block of rows by active sets, in Numba.

Each row holds one problem of its own:

    minimise  F(x) = x'Qx / 2 - c'x + l1 |x|_1 + l2 x'x / 2  over x with at most T nonzeros (if positive, none below 0),
    Q = gram + coef' diag(weight) coef - directions' directions,        c = correlation + coef' pull.

The budget T is room in memory: as long as a row stays below it, its code is the minimum over all x.

**Rounds.**  At the start of a round the slopes c - Qx of all atoms are known, and from them the duality gap.  Then
atoms enter one after another: the one of steepest slope takes a step, which changes the slopes of the others, until
none exceeds l1 or a few have entered.  For the signs that they got, the minimum on the support is one linear system,
solved by a Cholesky factor of Q + l2.  Atoms whose coefficients would change sign leave, all at once, and the system
is solved again.  Where that does not lower F, the way there is taken carefully, from one atom whose coefficient becomes
zero to the next, and never upwards (feature-sign search; Lee, Battle, Raina and Ng 2007); where atoms depend on each
other, along the dependence.  So each round ends at the minimum for a support and signs, lower than that of the round
before, and there are finitely many.

**More atoms than features.**  Where more atoms are in use than there are features, classes with their weights being
features too, the problem is solved in terms of features (``features.py``).

**The gap** of a round is that of the problem as |b - Ax|^2 / 2 + l1 |x|_1 with A'A = Q + l2 and A'b = c.  With the
residual r = b - Ax scaled down by s <= 1 until it is feasible for the dual, it is

    gap = (1 - s)^2 |r|^2 / 2 + l1 |x|_1 - s x'A'r,        A'r = c - Qx - l2 x.

Helpers that every round calls get arrays, not the workspace: to take an array out of a tuple costs an atomic reference
count, and those of all helpers were a fifth of the time.  What belongs to classes and directions stays in one, and is
taken out only where there are any.
"""

from typing import NamedTuple

import numpy as np

from . import njit
from .cholesky import eliminate_row, solve_backward, solve_forward
from .codes import add_combination, store_row
from .features import Features, solve_in_features
from .pursuit import allocate_rows

# In one round a few atoms enter, and more when there are many already. Atoms are alike, so that of those which look
# useful together most turn out to be of no use.
_FEWEST_ENTERING = 4
_ACTIVE_PER_ENTERING = 8
# An atom enters with this share of the step that is best for it alone: those after it take over some of its work.
_SHARE_OF_STEP = 0.3


class Terms(NamedTuple):
    """What classes and directions add to the problem of a row."""

    coef: np.ndarray  # (n_classes, n_atoms)
    directions: np.ndarray  # (n_rows * n_directions, n_atoms)
    weighted: np.ndarray  # (n_classes,) the classes whose weight in this row is not zero
    weight: np.ndarray  # (n_classes + n_directions,) and their weights; directions have -1
    columns: np.ndarray  # (budget, n_classes + n_directions) of the active atoms: those classes, then directions
    counts: np.ndarray  # (3,) the number of those classes, that of directions, and the first row of the latter


class ElasticNetWorkspace(NamedTuple):
    """What one thread overwrites row after row."""

    correlation: np.ndarray  # (n_atoms,) c
    slope: np.ndarray  # (n_atoms,) c - Qx
    bits: np.ndarray  # (n_atoms,) of the slopes, as integers
    free: np.ndarray  # (n_atoms,) the bits of slopes that are compared; none for active atoms
    number: np.ndarray  # (n_atoms,) k, in the bits that are not
    active: np.ndarray  # (budget,) the atoms
    coefficient: np.ndarray  # (budget,) of x
    applied: np.ndarray  # (budget,) of the x to which the slopes belong
    sign: np.ndarray  # (budget,) that a coefficient has, or is to have
    weighted: np.ndarray  # see Terms
    weight: np.ndarray
    columns: np.ndarray
    counts: np.ndarray
    kept: np.ndarray  # (budget,) positions in the active set of atoms that do not leave
    factored: np.ndarray  # (budget,) the atoms in `factor`
    factored_sign: np.ndarray  # (budget,) their signs
    factor: np.ndarray  # (budget, budget or a few more) Cholesky factor L, lower, with inverses on its diagonal
    forward: np.ndarray  # (budget,) L^-1 of the right-hand sides, which stays when atoms are added
    solution: np.ndarray  # (budget,) the coefficients of the atoms kept
    step: np.ndarray  # (budget,) to them, for all of the active set
    features: Features
    factors: np.ndarray  # (as many as there can be) of a combination of rows that is being added
    chosen: np.ndarray  # (the same) those rows


def make_elastic_net_workspace(budget, n_atoms, n_classes, n_directions, n_features, dtype):
    """Allocate the workspace of one thread; ``n_features`` is 0 where features are not used."""
    n_atoms_by_feature = n_atoms if n_features else 0
    n_factors = max(budget, n_classes + n_directions, 4, n_atoms_by_feature)
    correlation, slope = allocate_rows(2, n_atoms, dtype)[:, :n_atoms]
    factor = allocate_rows(budget, budget, dtype)
    kept, factored, active = np.empty((3, budget), np.int32)
    features = Features(  # type: ignore[call-arg]
        *np.empty((4, n_features), dtype),
        allocate_rows(1, n_atoms_by_feature, dtype)[0, :n_atoms_by_feature],
        np.empty(n_atoms_by_feature, np.bool_),
        allocate_rows(n_features, n_features, dtype),
        allocate_rows(n_features, n_features, dtype),
    )
    bits = slope.view(np.int64 if slope.itemsize == 8 else np.int32)
    return ElasticNetWorkspace(  # type: ignore[call-arg]
        correlation,
        slope,
        bits,
        *np.empty((2, n_atoms), bits.dtype),
        active,
        *np.empty((3, budget), dtype),
        np.empty(n_classes, np.int32),
        np.empty(n_classes + n_directions, dtype),
        np.empty((budget, n_classes + n_directions), dtype),
        np.empty(3, np.int64),
        kept,
        factored,
        np.empty(budget, dtype),
        factor,
        *np.empty((3, budget), dtype),
        features,
        np.empty(n_factors, dtype),
        np.empty(n_factors, np.int32),
    )


@njit(cache=True, nogil=True, error_model="numpy")
def _find_steepest(bits, free, number):
    # The atom outside the active set of largest slope. The bits of floats that are not negative sort like the floats;
    # with the number of the atom in place of the lowest, an integer maximum finds both, by vector instructions.
    as_bits = bits.dtype.type
    largest = as_bits(0)
    for k in range(bits.shape[0]):
        largest = max(largest, as_bits(as_bits(bits[k] & free[k]) | number[k]))
    return largest


@njit(cache=True, nogil=True, error_model="numpy")
def _multiply(gram, columns, weight, active, n_columns, a, b):
    # Q for two atoms of the active set.
    entry = gram[active[a], active[b]]
    for j in range(n_columns):
        entry += weight[j] * columns[a, j] * columns[b, j]
    return entry


@njit(cache=True, nogil=True, error_model="numpy")
def _factorise(
    gram, columns, weight, correlation, kept, factored, factored_sign, factor, forward, active, sign, n_kept,
    n_factored, n_columns, numbers, drops_dependent,
):  # fmt: skip
    # The factor of Q + l2 on the atoms kept, of which the first `n_factored` may be in it. An atom that depends on
    # those before it is dropped, or ends it. Return how many are kept, and how many are in the factor.
    l1, l2, pivot_floor = numbers
    k = 0
    while k < n_factored and k < n_kept and factored[k] == active[kept[k]] and factored_sign[k] == sign[kept[k]]:
        k += 1
    while k < n_kept:
        atom = active[kept[k]]
        factored[k] = atom
        factored_sign[k] = sign[kept[k]]
        for i in range(k + 1):
            factor[k, i] = gram[atom, factored[i]]
        for j in range(n_columns):
            scaled = weight[j] * columns[kept[k], j]
            for i in range(k + 1):
                factor[k, i] += scaled * columns[kept[i], j]
        factor[k, k] += l2
        norm = factor[k, k]
        pivot = eliminate_row(factor, k)
        if pivot > pivot_floor * norm:
            factor[k, k] = 1 / np.sqrt(pivot)
            forward[k] = correlation[atom] - l1 * sign[kept[k]]
            solve_forward(factor, forward, k)
            k += 1
        elif drops_dependent:
            n_kept -= 1
            for i in range(k, n_kept):
                kept[i] = kept[i + 1]
        else:
            break
    return n_kept, k


@njit(cache=True, nogil=True, error_model="numpy")
def _solve_kept(factor, forward, solution, n_kept):
    # The coefficients of the atoms kept that are best for their signs.
    for i in range(n_kept):
        solution[i] = forward[i]
    solve_backward(factor, solution, n_kept)


@njit(cache=True, nogil=True, error_model="numpy")
def _measure_decrease(
    gram, columns, weight, slope, kept, solution, step, active, coefficient, sign, n_active, n_kept, n_columns, l1, l2
):
    # By how much F falls from the coefficients to the solution for the atoms kept, from the step and the derivative,
    # not as a difference of values that are nearly equal. On the atoms kept, (Q + l2) step is the derivative.
    zero = l1 - l1
    for a in range(n_active):
        step[a] = -coefficient[a]
    for i in range(n_kept):
        step[kept[i]] += solution[i]
    decrease = zero
    i = 0
    for a in range(n_active):
        derivative = slope[active[a]] - l2 * coefficient[a] - l1 * sign[a]
        product = derivative
        if i < n_kept and kept[i] == a:
            i += 1
        elif step[a] != zero:
            product = l2 * step[a]
            for b in range(n_active):
                product += _multiply(gram, columns, weight, active, n_columns, a, b) * step[b]
        decrease += step[a] * (derivative - product / 2)
    return decrease


@njit(cache=True, nogil=True, error_model="numpy")
def _solve_boldly(
    gram, columns, weight, correlation, slope, kept, factored, factored_sign, factor, forward, solution, step, active,
    coefficient, sign, n_active, n_factored, n_columns, numbers,
):  # fmt: skip
    # The minimum for the signs, without atoms whose coefficients would change theirs. It is taken if it lowers F, as it
    # does if all stay. Return whether it is, and how many atoms are in the factor.
    l1, l2, _ = numbers
    zero = l1 - l1
    n_kept = n_active
    for a in range(n_active):
        kept[a] = a
    n_right = -1
    while n_right < n_kept:
        if n_right >= 0:
            n_kept = n_right
        n_kept, n_factored = _factorise(
            gram, columns, weight, correlation, kept, factored, factored_sign, factor, forward, active, sign, n_kept,
            n_factored, n_columns, numbers, True,
        )  # fmt: skip
        _solve_kept(factor, forward, solution, n_kept)
        n_right = 0
        for i in range(n_kept):
            if solution[i] * sign[kept[i]] > zero:
                kept[n_right] = kept[i]
                n_right += 1
    is_lower = n_kept == n_active
    if not is_lower:
        is_lower = zero < _measure_decrease(
            gram, columns, weight, slope, kept, solution, step, active, coefficient, sign, n_active, n_kept, n_columns,
            l1, l2,
        )  # fmt: skip
    if is_lower:
        for a in range(n_active):
            coefficient[a] = zero
        for i in range(n_kept):
            coefficient[kept[i]] = solution[i]
    return is_lower, n_factored


@njit(cache=True, nogil=True, error_model="numpy")
def _find_null_direction(kept, factor, solution, sign, k):
    # In `solution`, a direction along which Ax does not change: the k-th atom kept against those before it, of which it
    # is a combination. |x|_1 does not grow along it.
    rate = -sign[kept[k]]
    for i in range(k):
        solution[i] = factor[k, i]
    for i in range(k - 1, -1, -1):
        solution[i] *= factor[i, i]
        for j in range(i):
            solution[j] -= solution[i] * factor[i, j]
        rate += solution[i] * sign[kept[i]]
    solution[k] = 1 if rate > 0 else -1
    for i in range(k):
        solution[i] *= -solution[k]


@njit(cache=True, nogil=True, error_model="numpy")
def _solve_carefully(
    gram, columns, weight, correlation, kept, factored, factored_sign, factor, forward, solution, active, coefficient,
    sign, n_active, n_factored, n_columns, numbers,
):  # fmt: skip
    # Towards the minimum for the signs, each step as far as no coefficient changes its sign. Return how many atoms are
    # in the factor.
    zero = numbers[0] - numbers[0]
    n_kept = n_active
    for a in range(n_active):
        kept[a] = a
    while True:
        _, n_factored = _factorise(
            gram, columns, weight, correlation, kept, factored, factored_sign, factor, forward, active, sign, n_kept,
            n_factored, n_columns, numbers, False,
        )  # fmt: skip
        share = zero + 1
        n_moving = n_kept
        if n_factored == n_kept:
            _solve_kept(factor, forward, solution, n_kept)
            for i in range(n_kept):
                solution[i] -= coefficient[kept[i]]
        else:
            _find_null_direction(kept, factor, solution, sign, n_factored)
            share = zero + np.inf
            n_moving = n_factored + 1
        leaving = -1
        for i in range(n_moving):
            towards_zero = -solution[i] * sign[kept[i]]
            if towards_zero > zero and abs(coefficient[kept[i]]) <= share * towards_zero:
                share = abs(coefficient[kept[i]]) / towards_zero
                leaving = i
        if n_factored < n_kept and leaving < 0:
            return n_factored
        for i in range(n_moving):
            coefficient[kept[i]] += share * solution[i]
        if leaving < 0:
            return n_factored
        coefficient[kept[leaving]] = zero
        n_kept -= 1
        for i in range(leaving, n_kept):
            kept[i] = kept[i + 1]


@njit(cache=True, nogil=True, error_model="numpy")
def _copy_columns(terms, a, atom):
    # What classes and directions have to say of the active atom a.
    n_weighted, n_directions, first_direction = terms.counts
    for j in range(n_weighted):
        terms.columns[a, j] = terms.coef[terms.weighted[j], atom]
    for d in range(n_directions):
        terms.columns[a, n_weighted + d] = terms.directions[first_direction + d, atom]


@njit(cache=True, nogil=True, error_model="numpy")
def _add_columns(terms, factors, chosen, slope):
    # slope += coef' diag(weight) factors for the classes, and for directions, whose weight is -1, likewise.
    n_weighted, n_directions, first_direction = terms.counts
    for j in range(n_weighted + n_directions):
        factors[j] *= terms.weight[j]
    add_combination(factors, terms.weighted, n_weighted, terms.coef, slope)
    for d in range(n_directions):
        factors[d] = factors[n_weighted + d]
        chosen[d] = first_direction + d
    add_combination(factors, chosen, n_directions, terms.directions, slope)


@njit(cache=True, nogil=True, error_model="numpy")
def _add_step(terms, slope, factors, chosen, a, step):
    # What classes and directions say of a step of the active atom a changes the slopes.
    for j in range(terms.counts[0] + terms.counts[1]):
        factors[j] = -step * terms.columns[a, j]
    _add_columns(terms, factors, chosen, slope)


@njit(cache=True, nogil=True, error_model="numpy")
def _apply(gram, slope, factors, active, coefficient, applied, n_active):
    # slope -= gram (coefficient - applied) over all atoms.
    for a in range(n_active):
        factors[a] = applied[a] - coefficient[a]
    add_combination(factors, active, n_active, gram, slope)


@njit(cache=True, nogil=True, error_model="numpy")
def _apply_columns(terms, slope, factors, chosen, coefficient, applied, n_active):
    # The same for what classes and directions add to the Gram matrix.
    columns, n_columns = terms.columns, terms.counts[0] + terms.counts[1]
    for j in range(n_columns):
        factors[j] = slope.dtype.type(0)
    for a in range(n_active):
        for j in range(n_columns):
            factors[j] += (applied[a] - coefficient[a]) * columns[a, j]
    _add_columns(terms, factors, chosen, slope)


@njit(cache=True, nogil=True, error_model="numpy")
def _subtract(step, gram, atom, slope):
    # What a step of an atom changes in the slopes of all.
    for k in range(slope.shape[0]):
        slope[k] -= step * gram[atom, k]


@njit(cache=True, nogil=True, error_model="numpy")
def _drop_zeros(columns, free, high, active, coefficient, applied, sign, n_active, n_columns):
    # Atoms without coefficient leave the active set, and a round begins for the others. Return how many are active.
    zero = coefficient.dtype.type(0)
    one = coefficient.dtype.type(1)
    n_kept = 0
    for a in range(n_active):
        x = coefficient[a]
        atom = active[a]
        free[atom] = high
        if x != zero:
            free[atom] = 0
            active[n_kept] = atom
            coefficient[n_kept] = x
            applied[n_kept] = x
            sign[n_kept] = one if x > zero else -one
            for j in range(n_columns):
                columns[n_kept, j] = columns[a, j]
            n_kept += 1
    return n_kept


@njit(cache=True, nogil=True, error_model="numpy")
def _measure_gap(correlation, slope, active, coefficient, n_active, steepest, energy, l1, l2, is_positive):
    # The duality gap; `steepest` is at least the largest slope outside the active set.
    zero = l1 - l1
    size = zero
    product = zero
    explained = zero
    for a in range(n_active):
        x = coefficient[a]
        residual_slope = slope[active[a]] - l2 * x
        steepest = max(steepest, residual_slope if is_positive else abs(residual_slope))
        size += abs(x)
        product += x * residual_slope
        explained += x * correlation[active[a]]
    scale = l1 / max(steepest, l1)
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
def _begin_row(terms, weight, pull, i, energy, factors, chosen, correlation):
    # The terms of a row, and c in place of its correlations; return the number of classes of nonzero weight, and |b|^2.
    n_pulling = 0
    n_weighted = 0
    for j in range(weight.shape[1]):
        if weight[i, j] != 0:
            terms.weighted[n_weighted] = j
            terms.weight[n_weighted] = weight[i, j]
            n_weighted += 1
        if pull[i, j] != 0:
            chosen[n_pulling] = j
            factors[n_pulling] = pull[i, j]
            n_pulling += 1
            if weight[i, j] > 0:
                energy += pull[i, j] * pull[i, j] / weight[i, j]
    for d in range(terms.counts[1]):
        terms.weight[n_weighted + d] = -1
    terms.counts[0] = n_weighted
    add_combination(factors, chosen, n_pulling, terms.coef, correlation)
    return n_weighted, energy


@njit(cache=True, nogil=True, error_model="numpy")
def _are_features(weight, i):
    # Whether the classes of a row can be taken for features.
    n_negative = 0
    for j in range(weight.shape[1]):
        n_negative += weight[i, j] < 0
    return n_negative == 0


@njit(cache=True, nogil=True, error_model="numpy")
def _place_classes(coef, weight, i, atoms, by_feature):
    # Classes as the last features of the atoms: Q = EE'.
    first = atoms.shape[1] - coef.shape[0]
    for j in range(coef.shape[0]):
        root = np.sqrt(weight[i, j])
        for k in range(coef.shape[1]):
            by_feature[first + j, k] = root * coef[j, k]
            atoms[k, first + j] = root * coef[j, k]


@njit(cache=True, nogil=True, error_model="numpy")
def solve_elastic_net_rows(
    gram,  # (n_atoms, n_atoms)
    correlations,  # (n_rows, n_atoms)
    coef,  # (n_classes, n_atoms)
    weight,  # (n_rows, n_classes)
    pull,  # (n_rows, n_classes)
    directions,  # (n_rows * n_directions, n_atoms) those of the first row first
    atoms,  # (n_atoms, n_features + n_classes) whose products are the Gram matrix; without features, only that is used
    by_feature,  # (n_features + n_classes, n_atoms) the same, one row per feature; what is of classes is overwritten
    energies,  # (n_rows,) |y|^2
    l1,  # positive
    l2,
    is_positive,
    tolerances,  # (n_rows,) a row ends when its duality gap is no larger
    max_rounds,  # ... or after this many rounds
    pivot_floor,  # share of an atom's squared norm below which it depends on others
    rounding,  # share of the largest coefficient below which a change is none
    mask,  # the bits of a slope that make its size; all of them, which is -1, if positive
    low,  # the lowest bits, as many as the number of an atom has, which are not used to compare slopes
    workspace,
    indices,  # in and out, (n_rows, budget): where a row starts, and its code
    values,  # in and out, (n_rows, budget)
    gaps,  # out, (n_rows,)
):
    """Solve the problem of the module's docstring for every row, starting from the codes given."""
    n_rows, n_atoms = correlations.shape
    n_directions, n_features = directions.shape[0] // max(n_rows, 1), atoms.shape[1]
    correlation, slope, bits = workspace.correlation, workspace.slope, workspace.bits
    free, number = workspace.free, workspace.number
    active, coefficient, applied, sign = workspace.active, workspace.coefficient, workspace.applied, workspace.sign
    factors, chosen, kept = workspace.factors, workspace.chosen, workspace.kept
    factored, factored_sign, factor = workspace.factored, workspace.factored_sign, workspace.factor
    forward, solution, step = workspace.forward, workspace.solution, workspace.step
    columns, active_weight = workspace.columns, workspace.weight
    terms = Terms(coef, directions, workspace.weighted, active_weight, columns, workspace.counts)
    numbers, share = (l1, l2, pivot_floor), gram.dtype.type(_SHARE_OF_STEP)
    high = mask & ~low
    coarseness = 1 + rounding * low  # of a slope whose lowest bits were not looked at
    for k in range(n_atoms):
        free[k] = high
        number[k] = k

    for i in range(n_rows):
        for k in range(n_atoms):
            correlation[k] = correlations[i, k]
        terms.counts[1] = n_directions
        terms.counts[2] = i * n_directions
        n_weighted, energy = _begin_row(terms, weight, pull, i, energies[i], factors, chosen, correlation)
        n_columns = n_weighted + n_directions
        for k in range(n_atoms):
            slope[k] = correlation[k]
        n_active = 0
        while n_active < indices.shape[1] and values[i, n_active] != 0:
            x = values[i, n_active]
            active[n_active] = indices[i, n_active]
            coefficient[n_active] = x - x if is_positive and x < 0 else x
            applied[n_active] = x - x
            if n_columns > 0:
                _copy_columns(terms, n_active, active[n_active])
            n_active += 1
        n_factored = 0
        is_settled = False
        uses_features = n_features > 0 and n_directions == 0 and _are_features(weight, i)
        for _ in range(max_rounds):
            if uses_features and n_active > n_features:
                for a in range(n_active):
                    free[active[a]] = high
                _place_classes(coef, weight, i, atoms, by_feature)
                n_active, gaps[i] = solve_in_features(
                    atoms, by_feature, workspace.features, correlation, slope, active, coefficient, n_active, factors,
                    chosen, l1, l2, is_positive, rounding, tolerances[i]
                )  # fmt: skip
                if gaps[i] <= tolerances[i]:
                    break
                uses_features = False
                if n_columns > 0:
                    for a in range(n_active):
                        _copy_columns(terms, a, active[a])
            elif n_active > 0:
                _apply(gram, slope, factors, active, coefficient, applied, n_active)
                if n_columns > 0:
                    _apply_columns(terms, slope, factors, chosen, coefficient, applied, n_active)
            n_active = _drop_zeros(columns, free, high, active, coefficient, applied, sign, n_active, n_columns)
            top = _find_steepest(bits, free, number) & low
            steepest = (slope[top] if is_positive else abs(slope[top])) * coarseness if free[top] else l1
            gaps[i] = _measure_gap(
                correlation, slope, active, coefficient, n_active, steepest, energy, l1, l2, is_positive
            )
            if gaps[i] <= tolerances[i] or is_settled:
                break
            n_most = min(active.shape[0], n_active + _FEWEST_ENTERING + n_active // _ACTIVE_PER_ENTERING)
            while n_active < n_most and free[top] and (slope[top] if is_positive else abs(slope[top])) > l1:
                active[n_active] = top
                if n_columns > 0:
                    _copy_columns(terms, n_active, top)
                norm = _multiply(gram, columns, active_weight, active, n_columns, n_active, n_active) + l2
                if norm <= 0:
                    break
                sign[n_active] = 1 if slope[top] > 0 else -1
                coefficient[n_active] = share * (slope[top] - sign[n_active] * l1) / norm
                applied[n_active] = coefficient[n_active]
                _subtract(coefficient[n_active], gram, top, slope)
                if n_columns > 0:
                    _add_step(terms, slope, factors, chosen, n_active, coefficient[n_active])
                free[top] = 0
                n_active += 1
                top = _find_steepest(bits, free, number) & low
            is_lower, n_factored = _solve_boldly(
                gram, columns, active_weight, correlation, slope, kept, factored, factored_sign, factor, forward,
                solution, step, active, coefficient, sign, n_active, n_factored, n_columns, numbers,
            )  # fmt: skip
            if not is_lower:
                n_factored = _solve_carefully(
                    gram, columns, active_weight, correlation, kept, factored, factored_sign, factor, forward,
                    solution, active, coefficient, sign, n_active, n_factored, n_columns, numbers,
                )  # fmt: skip
            is_settled = not _has_moved(coefficient, applied, n_active, rounding)
        for a in range(n_active):
            free[active[a]] = high
        store_row(i, active, coefficient, n_active, indices, values)
