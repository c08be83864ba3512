"""Implicit differentiation of sparse codes, and steps of gradient descent, in Numba."""

import numpy as np

from . import njit
from .cholesky import eliminate_row, solve_factored
from .codes import add_combination, count_used
from .features import add_outer_products


@njit(cache=True, nogil=True, error_model="numpy")
def _solve_in_features(atoms, ridge, support, n_used, factors, factor, right, solution):
    # (E E' + ridge) solution = factors, E the atoms of the support, is solved by (factors - Ez) / ridge with
    # (E'E + ridge) z = E' factors.
    n_features = atoms.shape[1]
    for m in range(n_features):
        for n in range(m + 1):
            factor[m, n] = 0
    for a in range(n_used):
        right[a] = 1
    add_outer_products(right, support, n_used, atoms, factor)
    z = right[:n_features]
    z[:] = 0
    add_combination(factors, support, n_used, atoms, z)
    for m in range(n_features):
        factor[m, m] += ridge
        factor[m, m] = 1 / np.sqrt(eliminate_row(factor, m))
    solve_factored(factor, z, n_features)
    for a in range(n_used):
        product = factors[a]
        for m in range(n_features):
            product -= atoms[support[a], m] * z[m]
        solution[a] = product / ridge


@njit(cache=True, nogil=True, error_model="numpy")
def solve_support_rows(gram, atoms, ridge, smallest_pivot, indices, values, code_gradient, factor, right, solution):
    """Solve (gram[S, S] + ridge) solution[i] = code_gradient[i] on the support S of each row; 0 where not used.

    ``factor`` of shape (budget, budget) and ``right`` of shape (budget,) are overwritten.  An atom that the others of
    its support span has no derivative; it gets 0.  Where there are more atoms than features, and a ridge that keeps the
    matrix regular, the system is solved in terms of features.
    """
    for i in range(indices.shape[0]):
        n_used = count_used(values, i)
        for a in range(n_used, indices.shape[1]):
            solution[i, a] = 0
        if n_used > atoms.shape[1] and ridge > n_used * smallest_pivot:
            _solve_in_features(atoms, ridge, indices[i], n_used, code_gradient[i], factor, right, solution[i])
            continue
        for a in range(n_used):
            for b in range(a + 1):
                factor[a, b] = gram[indices[i, a], indices[i, b]]
            factor[a, a] += ridge
            pivot = eliminate_row(factor, a)
            factor[a, a] = 1 / np.sqrt(pivot) if pivot > smallest_pivot else pivot - pivot
            right[a] = code_gradient[i, a]
        solve_factored(factor, right, n_used)  # (of a slice of the solution, references would have to be counted)
        for a in range(n_used):
            solution[i, a] = right[a]


@njit(cache=True, nogil=True, error_model="numpy")
def differentiate_scores_rows(indices, values, coef_by_atom, score_gradient, code_gradient):
    """code_gradient[i, t] = coef_by_atom[indices[i, t]] . score_gradient[i]; 0 where not used."""
    for i in range(indices.shape[0]):
        n_used = count_used(values, i)
        for t in range(n_used):
            total = code_gradient.dtype.type(0)
            for j in range(score_gradient.shape[1]):
                total += coef_by_atom[indices[i, t], j] * score_gradient[i, j]
            code_gradient[i, t] = total
        for t in range(n_used, indices.shape[1]):
            code_gradient[i, t] = 0


@njit(cache=True, nogil=True, error_model="numpy")
def combine_atoms(indices, values, factors, atoms, out):
    """out[i] += sum_t factors[i, t] atoms[indices[i, t]] over the places that values uses.

    Four atoms at a time, so that a row is read and written once for four; the last fills gaps with a factor of zero.
    """
    zero = out.dtype.type(0)
    for i in range(indices.shape[0]):
        last = count_used(values, i) - 1
        for t in range(0, last + 1, 4):
            a = indices[i, t]
            b = indices[i, min(t + 1, last)]
            c = indices[i, min(t + 2, last)]
            d = indices[i, min(t + 3, last)]
            factor_a = factors[i, t]
            factor_b = factors[i, t + 1] if t + 1 <= last else zero
            factor_c = factors[i, t + 2] if t + 2 <= last else zero
            factor_d = factors[i, t + 3] if t + 3 <= last else zero
            for m in range(out.shape[1]):
                out[i, m] += (factor_a * atoms[a, m] + factor_b * atoms[b, m]) + (
                    factor_c * atoms[c, m] + factor_d * atoms[d, m]
                )


@njit(cache=True, nogil=True, error_model="numpy")
def add_outer_rows(indices, values, rows, out):
    """out[indices[i, t]] += values[i, t] rows[i] over the places used."""
    for i in range(indices.shape[0]):
        for t in range(indices.shape[1]):
            if values[i, t] == 0:
                break
            atom = indices[i, t]
            for m in range(out.shape[1]):
                out[atom, m] += values[i, t] * rows[i, m]


@njit(cache=True, nogil=True, error_model="numpy")
def add_gradient_rows(indices, values, solution, residuals, images, out):
    """out[indices[i, t]] += solution[i, t] residuals[i] - values[i, t] images[i] over the places used."""
    for i in range(indices.shape[0]):
        for t in range(indices.shape[1]):
            if values[i, t] == 0:
                break
            atom = indices[i, t]
            gain = solution[i, t]
            loss = values[i, t]
            # (From 0: with a start that might be negative the loop is not vectorised, and takes ten times as long.)
            for m in range(out.shape[1]):
                out[atom, m] += gain * residuals[i, m] - loss * images[i, m]


@njit(cache=True, nogil=True, error_model="numpy")
def step_rows(gradient, mean, square, keep_mean, keep_square, mean_scale, square_scale, step_size, tiny, rows):
    """One step of Adam (Kingma and Ba, 2015) on each row, in place; all arrays have one shape."""
    one = keep_mean / keep_mean
    for k in range(rows.shape[0]):
        for m in range(rows.shape[1]):
            slope = gradient[k, m]
            first = keep_mean * mean[k, m] + (one - keep_mean) * slope
            second = keep_square * square[k, m] + (one - keep_square) * slope * slope
            mean[k, m] = first
            square[k, m] = second
            rows[k, m] -= step_size * (first * mean_scale) / (np.sqrt(second * square_scale) + tiny)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def normalise_rows(rows):
    """Scale each row to unit norm."""
    for k in range(rows.shape[0]):
        total = rows[k, 0] - rows[k, 0]
        for m in range(rows.shape[1]):
            total += rows[k, m] * rows[k, m]
        scale = 1 / np.sqrt(total)
        for m in range(rows.shape[1]):
            rows[k, m] *= scale
