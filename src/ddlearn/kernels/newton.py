"""Newton's steps on the supports of a block of rows, in Numba: the arithmetic of Algorithm 1.

The objective of a row with correlations c, energy e, labels l, noise variance v, code x and scores u = Wx:

    F(x) = (x'Gx - 2c'x + e) / v + 2 sum_j |l_j| Omega(z_j) / gamma_j,        z_j = l_j (u_j + b_j).

The loss is evaluated outside, for all rows at once, so kernels get it and its derivatives at the margins z.  The
parabola of v F at x has

    the matrix  Q = G + sum_j h_j w_j w_j',                 h_j = v |l_j| Omega_2(z_j) / gamma_j,
    the slope   -2 (c - Gx - sum_j s_j w_j),                s_j = v l_j Omega_1(z_j) / gamma_j.

Several rows may be problems of one sample, as the hypotheses about its class are.  Where a kernel gets ``active``, row
a of the other arrays belongs to row active[a] of the block.
"""

from typing import NamedTuple

import numpy as np

from . import njit
from .codes import count_used


class Shared(NamedTuple):
    """What all rows share."""

    gram: np.ndarray  # (n_atoms, n_atoms)
    correlations: np.ndarray  # (n_sources, n_atoms)
    energies: np.ndarray  # (n_sources,)
    coef_by_atom: np.ndarray  # (n_atoms, n_classes)
    intercept: np.ndarray  # (n_classes,)
    inverse_cost: np.ndarray  # (n_classes,) 1 / gamma


class Rows(NamedTuple):
    """The problems of a block of rows, their codes, and what these cost."""

    sources: np.ndarray  # (n_rows,) the row of the correlations
    labels: np.ndarray  # (n_rows, n_classes)
    noise_variance: np.ndarray  # (n_rows,)
    indices: np.ndarray  # (n_rows, budget)
    values: np.ndarray  # (n_rows, budget)
    n_used: np.ndarray  # (n_rows,) places of the support, some of whose values may have become zero
    scores: np.ndarray  # (n_rows, n_classes) without intercept
    misfit: np.ndarray  # (n_rows,)
    objective: np.ndarray  # (n_rows,) F


class Steps(NamedTuple):
    """Newton's steps of the active rows."""

    direction: np.ndarray  # (n_active, budget)
    score_change: np.ndarray  # (n_active, n_classes)
    linear: np.ndarray  # (n_active,) a step of length t changes the misfit by 2 t linear + t^2 quadratic
    quadratic: np.ndarray  # (n_active,)
    decrement: np.ndarray  # (n_active,) by which the whole step lowers the parabola of v F


@njit(cache=True, nogil=True, error_model="numpy")
def measure_rows(shared, rows):
    """Count the places used, and measure scores and misfits, of codes in the layout of ``RowCodes``."""
    zero = rows.values.dtype.type(0)
    n_classes = rows.scores.shape[1]
    for i in range(rows.values.shape[0]):
        source = rows.sources[i]
        n_used = count_used(rows.values, i)
        rows.n_used[i] = n_used
        misfit = shared.energies[source]
        for j in range(n_classes):
            rows.scores[i, j] = zero
        for t in range(n_used):
            atom = rows.indices[i, t]
            value = rows.values[i, t]
            product = -2 * shared.correlations[source, atom]
            for s in range(n_used):
                product += shared.gram[atom, rows.indices[i, s]] * rows.values[i, s]
            misfit += product * value
            for j in range(n_classes):
                rows.scores[i, j] += value * shared.coef_by_atom[atom, j]
        rows.misfit[i] = max(misfit, zero)  # below zero only by rounding


@njit(cache=True, nogil=True, error_model="numpy")
def margins_of_rows(active, shared, rows, margins):
    """Margins z at the current codes."""
    for a in range(active.shape[0]):
        i = active[a]
        for j in range(margins.shape[1]):
            margins[a, j] = rows.labels[i, j] * (rows.scores[i, j] + shared.intercept[j])


@njit(cache=True, nogil=True, error_model="numpy")
def margins_after_steps(active, shared, rows, steps, length, margins):
    """Margins z after steps of this length."""
    for a in range(active.shape[0]):
        i = active[a]
        for j in range(margins.shape[1]):
            score = rows.scores[i, j] + length * steps.score_change[a, j]
            margins[a, j] = rows.labels[i, j] * (score + shared.intercept[j])


@njit(cache=True, nogil=True, error_model="numpy")
def total_rows(shared, rows, costs):
    """Objective F from misfits and the costs Omega of the margins."""
    for i in range(rows.labels.shape[0]):
        total = rows.objective.dtype.type(0)
        for j in range(rows.labels.shape[1]):
            total += abs(rows.labels[i, j]) * costs[i, j] * shared.inverse_cost[j]
        rows.objective[i] = rows.misfit[i] / rows.noise_variance[i] + 2 * total


@njit(cache=True, nogil=True, error_model="numpy")
def expand_rows(active, shared, rows, slopes, curvatures, weight, pull):
    """Weights h and pulls h u - s of the parabolas at the current codes, as coders take them."""
    for a in range(active.shape[0]):
        i = active[a]
        for j in range(weight.shape[1]):
            scale = rows.noise_variance[i] * shared.inverse_cost[j]
            weight[a, j] = scale * abs(rows.labels[i, j]) * curvatures[a, j]
            pull[a, j] = weight[a, j] * rows.scores[i, j] - scale * rows.labels[i, j] * slopes[a, j]


# Additions may be reordered, as in `square_vector`: sums over classes do not vectorise otherwise.
@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def find_newton_steps(active, shared, rows, slopes, curvatures, pivot_floor, matrix, vectors, steps):
    """Newton's step on the support of each active row, inv(Q[S, S]) (c - Gx - sum_j s_j w_j)[S].

    An atom that depends on those before it stays as it is.  ``matrix`` has one row more than the budget.
    """
    zero = rows.values.dtype.type(0)
    n_classes = rows.labels.shape[1]
    residual, right, inverse_pivot, weight, push = vectors[0], vectors[1], vectors[2], vectors[3], vectors[4]
    for a in range(active.shape[0]):
        i = active[a]
        source, n_used = rows.sources[i], rows.n_used[i]
        for j in range(n_classes):
            scale = rows.noise_variance[i] * shared.inverse_cost[j]
            weight[j] = scale * abs(rows.labels[i, j]) * curvatures[a, j]
            push[j] = scale * rows.labels[i, j] * slopes[a, j]
            steps.score_change[a, j] = zero
        # The upper triangle, with the diagonal, holds the Gram matrix, the lower one, one row further down, Q and later
        # its Cholesky factor.
        for t in range(n_used):
            atom = rows.indices[i, t]
            left = shared.correlations[source, atom]
            for s in range(n_used):
                product = shared.gram[atom, rows.indices[i, s]]
                left -= product * rows.values[i, s]
                if s <= t:
                    matrix[s, t] = product
            residual[t] = left
            for j in range(n_classes):
                left -= shared.coef_by_atom[atom, j] * push[j]
            right[t] = left
            for s in range(t + 1):
                other = rows.indices[i, s]
                total = matrix[s, t]
                for j in range(n_classes):
                    total += weight[j] * shared.coef_by_atom[atom, j] * shared.coef_by_atom[other, j]
                matrix[t + 1, s] = total
        decrement = zero
        for t in range(n_used):
            norm = matrix[t + 1, t]
            pivot = norm
            total = right[t]
            for s in range(t):
                factor = matrix[t + 1, s]
                for r in range(s):
                    factor -= matrix[t + 1, r] * matrix[s + 1, r]
                factor *= inverse_pivot[s]
                matrix[t + 1, s] = factor
                pivot -= factor * factor
                total -= factor * steps.direction[a, s]
            inverse_pivot[t] = 1 / np.sqrt(pivot) if pivot > pivot_floor * norm else zero
            total *= inverse_pivot[t]
            steps.direction[a, t] = total
            decrement += total * total
        linear = zero
        quadratic = zero
        for t in range(n_used - 1, -1, -1):
            step = steps.direction[a, t]
            product = zero
            for s in range(t + 1, n_used):
                step -= matrix[s + 1, t] * steps.direction[a, s]
                product += matrix[t, s] * steps.direction[a, s]
            step *= inverse_pivot[t]
            steps.direction[a, t] = step
            linear -= step * residual[t]
            quadratic += step * (2 * product + matrix[t, t] * step)
            atom = rows.indices[i, t]
            for j in range(n_classes):
                steps.score_change[a, j] += step * shared.coef_by_atom[atom, j]
        steps.linear[a] = linear
        steps.quadratic[a] = quadratic
        steps.decrement[a] = decrement


@njit(cache=True, nogil=True, error_model="numpy")
def take_steps(active, shared, rows, steps, length, share, costs, is_taken):
    """Take steps of this length where they bring ``share`` of what the slope promises, given the costs after them."""
    zero = rows.objective.dtype.type(0)
    n_classes = rows.labels.shape[1]
    for a in range(active.shape[0]):
        i = active[a]
        total = zero
        for j in range(n_classes):
            total += abs(rows.labels[i, j]) * costs[a, j] * shared.inverse_cost[j]
        variance = rows.noise_variance[i]
        misfit = max(rows.misfit[i] + length * (2 * steps.linear[a] + length * steps.quadratic[a]), zero)
        objective = misfit / variance + 2 * total
        is_taken[a] = objective <= rows.objective[i] - 2 * share * length * steps.decrement[a] / variance
        if is_taken[a]:
            rows.objective[i] = objective
            rows.misfit[i] = misfit
            for j in range(n_classes):
                rows.scores[i, j] += length * steps.score_change[a, j]
            for t in range(rows.n_used[i]):
                rows.values[i, t] += length * steps.direction[a, t]


@njit(cache=True, nogil=True, error_model="numpy")
def blend_rows(old_indices, old_values, new_indices, new_values, share, indices, values):
    """Codes (1 - share) old + share new; a code that would need more places than there are stays the old one."""
    zero = values.dtype.type(0)
    n_rows, budget = values.shape
    for i in range(n_rows):
        t = s = n_used = 0
        while n_used <= budget:
            has_old = t < budget and old_values[i, t] != zero
            has_new = s < budget and new_values[i, s] != zero
            if not (has_old or has_new):
                break
            is_old_next = has_old and (not has_new or old_indices[i, t] <= new_indices[i, s])
            is_new_next = has_new and (not has_old or new_indices[i, s] <= old_indices[i, t])
            value = zero
            atom = old_indices[i, t] if is_old_next else new_indices[i, s]
            if is_old_next:
                value += (1 - share) * old_values[i, t]
                t += 1
            if is_new_next:
                value += share * new_values[i, s]
                s += 1
            if value != zero:
                if n_used < budget:
                    indices[i, n_used] = atom
                    values[i, n_used] = value
                n_used += 1
        for place in range(n_used if n_used <= budget else 0, budget):
            indices[i, place] = 0
            values[i, place] = zero
        if n_used > budget:
            for place in range(budget):
                indices[i, place] = old_indices[i, place]
                values[i, place] = old_values[i, place]
