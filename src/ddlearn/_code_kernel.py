"""Arithmetic on rows of sparse codes (layout of codes.py), in Numba."""

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
            for j in range(scores.shape[1]):
                scores[i, j] += value * coef_by_atom[atom, j]


@njit(cache=True, nogil=True, error_model="numpy")
def expand_square_rows(gram, correlations, indices, values, expanded):
    """expanded[i] = x'(gram)x - 2 correlation'x: the squared residual of row i less its energy."""
    zero = expanded.dtype.type(0)
    for i in range(indices.shape[0]):
        total = zero
        for t in range(indices.shape[1]):
            atom = indices[i, t]
            product = -2 * correlations[i, atom]
            for s in range(indices.shape[1]):
                product += gram[atom, indices[i, s]] * values[i, s]
            total += product * values[i, t]
        expanded[i] = total


@njit(cache=True, nogil=True, error_model="numpy")
def change_rows(old_indices, old_values, new_indices, new_values, squared_changes, squared_sizes):
    """squared_changes[i] = ||new - old||^2 and squared_sizes[i] = ||old||^2, merging the ascending supports."""
    zero = squared_changes.dtype.type(0)
    n_places = old_indices.shape[1]
    for i in range(old_indices.shape[0]):
        size = zero
        change = zero
        for t in range(n_places):
            size += old_values[i, t] * old_values[i, t]
            difference = old_values[i, t]
            for s in range(n_places):
                if new_indices[i, s] == old_indices[i, t] and old_values[i, t] != zero:
                    difference -= new_values[i, s]
            change += difference * difference
        for s in range(n_places):
            is_new = new_values[i, s] != zero
            for t in range(n_places):
                if new_indices[i, s] == old_indices[i, t] and old_values[i, t] != zero:
                    is_new = False
            if is_new:
                change += new_values[i, s] * new_values[i, s]
        squared_changes[i] = change
        squared_sizes[i] = size
