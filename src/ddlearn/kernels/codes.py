"""Arithmetic on rows of sparse codes (layout of codes.py), in Numba.

Work ends with the last place in use: a budget may be far larger than what rows need.
"""

from numba import njit


@njit(cache=True, nogil=True, error_model="numpy")
def score_rows(indices, values, coef_by_atom, scores):
    """scores[i] = sum_t values[i, t] coef_by_atom[indices[i, t]]: each class's w'x, without the intercept."""
    zero = scores.dtype.type(0)
    for i in range(indices.shape[0]):
        for j in range(scores.shape[1]):
            scores[i, j] = zero
        for t in range(indices.shape[1]):
            atom = indices[i, t]
            value = values[i, t]
            if value == zero:
                break
            for j in range(scores.shape[1]):
                scores[i, j] += value * coef_by_atom[atom, j]


@njit(cache=True, nogil=True, error_model="numpy")
def expand_square_rows(gram, correlations, indices, values, expanded):
    """expanded[i] = x'(gram)x - 2 correlation'x: the squared residual of row i less its energy."""
    zero = expanded.dtype.type(0)
    for i in range(indices.shape[0]):
        total = zero
        n_used = 0
        while n_used < indices.shape[1] and values[i, n_used] != zero:
            n_used += 1
        for t in range(n_used):
            atom = indices[i, t]
            product = -2 * correlations[i, atom]
            for s in range(n_used):
                product += gram[atom, indices[i, s]] * values[i, s]
            total += product * values[i, t]
        expanded[i] = total


@njit(cache=True, nogil=True, error_model="numpy")
def change_rows(old_indices, old_values, new_indices, new_values, squared_changes, squared_sizes):
    """squared_changes[i] = ||new - old||^2 and squared_sizes[i] = ||old||^2, merging the ascending supports."""
    zero = squared_changes.dtype.type(0)
    for i in range(old_indices.shape[0]):
        size = zero
        change = zero
        t = 0
        s = 0
        while True:
            has_old = t < old_indices.shape[1] and old_values[i, t] != zero
            has_new = s < new_indices.shape[1] and new_values[i, s] != zero
            if not (has_old or has_new):
                break
            is_old_next = has_old and (not has_new or old_indices[i, t] <= new_indices[i, s])
            is_new_next = has_new and (not has_old or new_indices[i, s] <= old_indices[i, t])
            difference = zero
            if is_old_next:
                difference += old_values[i, t]
                size += old_values[i, t] * old_values[i, t]
                t += 1
            if is_new_next:
                difference -= new_values[i, s]
                s += 1
            change += difference * difference
        squared_changes[i] = change
        squared_sizes[i] = size
