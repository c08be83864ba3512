"""Rows of sparse codes (layout of ``RowCodes``) in Numba: their scores, residuals and changes, and how to store them.

Loops over a row end with its last entry: a budget may be far larger than what rows need.
"""

from . import njit


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
def count_used(values, i):
    """Return how many places row i uses."""
    n_used = 0
    while n_used < values.shape[1] and values[i, n_used] != 0:
        n_used += 1
    return n_used


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
def score_class(indices, values, classifier, scores):
    """scores[i] = w'x_i + b for one class; ``classifier`` holds w and, as its last entry, b."""
    n_components = classifier.shape[0] - 1
    for i in range(indices.shape[0]):
        score = classifier[n_components]
        for s in range(indices.shape[1]):
            if values[i, s] == 0:
                break
            score += values[i, s] * classifier[indices[i, s]]
        scores[i] = score


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


# Additions may be reordered here ("reassoc"): a sum in strict order does not vectorise and takes three (float64) to
# seven (float32) times as long. No other fastmath flag, so NaN and infinity are treated as usual.
@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc"})
def square_vector(vector):
    """Return the sum of squares."""
    total = vector.dtype.type(0)
    for m in range(vector.shape[0]):
        total += vector[m] * vector[m]
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def measure_errors(X, indices, values, dictionary, residual, errors):
    """errors[i] = || X[i] - sum_k c_ik dictionary[k] ||^2."""
    zero = X.dtype.type(0)
    for i in range(X.shape[0]):
        for m in range(X.shape[1]):
            residual[m] = X[i, m]
        for t in range(indices.shape[1]):
            value = values[i, t]
            if value == zero:
                break
            k = indices[i, t]
            for m in range(X.shape[1]):
                residual[m] -= value * dictionary[k, m]
        errors[i] = square_vector(residual)


@njit(cache=True, nogil=True, error_model="numpy")
def store_row(i, atoms, coefficients, n_atoms, indices, values):
    """Lay out a code as row i: nonzero entries in order of their atoms, unused places zero."""
    n_used = 0
    for a in range(n_atoms):
        if coefficients[a] == 0:
            continue
        place = n_used
        while place > 0 and indices[i, place - 1] > atoms[a]:
            indices[i, place] = indices[i, place - 1]
            values[i, place] = values[i, place - 1]
            place -= 1
        indices[i, place] = atoms[a]
        values[i, place] = coefficients[a]
        n_used += 1
    for t in range(n_used, indices.shape[1]):
        indices[i, t] = 0
        values[i, t] = 0


@njit(cache=True, nogil=True, error_model="numpy")
def order_rows(indices, values):
    """Put the nonzero entries of every row in order of their atoms; what is not used becomes zero."""
    # (The same as in `store_row`; one inlined helper for both made pursuits 7 % slower.)
    for i in range(indices.shape[0]):
        n_used = 0
        for t in range(indices.shape[1]):
            atom, value = indices[i, t], values[i, t]
            if value == 0:
                continue
            place = n_used
            while place > 0 and indices[i, place - 1] > atom:
                indices[i, place] = indices[i, place - 1]
                values[i, place] = values[i, place - 1]
                place -= 1
            indices[i, place] = atom
            values[i, place] = value
            n_used += 1
        for t in range(n_used, indices.shape[1]):
            indices[i, t] = 0
            values[i, t] = 0


@njit(cache=True, nogil=True, error_model="numpy")
def keep_larger_half(indices, values, n_features, kept_indices, kept_values):
    """Lay out the larger half of each code, rounded up, by size; fewer entries if there are not enough places.

    A code of more atoms than features is kept whole if there are enough places.
    """
    n_places = kept_values.shape[1]
    for i in range(indices.shape[0]):
        n_used = count_used(values, i)
        if n_features < n_used <= n_places:
            for t in range(n_used):
                kept_indices[i, t] = indices[i, t]
                kept_values[i, t] = values[i, t]
            for place in range(n_used, n_places):
                kept_indices[i, place] = 0
                kept_values[i, place] = 0
            continue
        n_most = min((n_used + 1) // 2, n_places)
        n_kept = 0
        for t in range(n_used if n_most > 0 else 0):
            size = abs(values[i, t])
            if n_kept == n_most and size <= abs(kept_values[i, n_kept - 1]):
                continue
            place = min(n_kept, n_most - 1)
            while place > 0 and abs(kept_values[i, place - 1]) < size:
                kept_indices[i, place] = kept_indices[i, place - 1]
                kept_values[i, place] = kept_values[i, place - 1]
                place -= 1
            kept_indices[i, place] = indices[i, t]
            kept_values[i, place] = values[i, t]
            n_kept = min(n_kept + 1, n_most)
        for place in range(n_kept, n_places):
            kept_indices[i, place] = 0
            kept_values[i, place] = 0


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})  # a product and a sum are one instruction
def add_combination(factors, chosen, n_chosen, rows, out):
    """Add factors[:n_chosen] @ rows[chosen[:n_chosen]] to ``out``.

    Four rows at a time, so that ``out`` is read and written once for four.  Where fewer are left, the last row
    fills the gap with a factor of zero.
    """
    # (Rows are indexed, not sliced: a slice costs an atomic reference count, as much as the whole loop.)
    zero = out.dtype.type(0)
    last = n_chosen - 1
    for a in range(0, n_chosen, 4):
        row_a = chosen[a]
        row_b = chosen[min(a + 1, last)]
        row_c = chosen[min(a + 2, last)]
        row_d = chosen[min(a + 3, last)]
        factor_a = factors[a]
        factor_b = factors[a + 1] if a + 1 <= last else zero
        factor_c = factors[a + 2] if a + 2 <= last else zero
        factor_d = factors[a + 3] if a + 3 <= last else zero
        for k in range(out.shape[0]):
            out[k] += (factor_a * rows[row_a, k] + factor_b * rows[row_b, k]) + (
                factor_c * rows[row_c, k] + factor_d * rows[row_d, k]
            )


@njit(cache=True, nogil=True, error_model="numpy")
def combine_rows(vector, rows, factors, chosen, out):
    """Out = vector @ rows, without the rows whose factor is zero; ``factors`` and ``chosen`` are as long as it."""
    n_chosen = 0
    for m in range(vector.shape[0]):
        if vector[m] != 0:
            factors[n_chosen] = vector[m]
            chosen[n_chosen] = m
            n_chosen += 1
    for k in range(out.shape[0]):
        out[k] = 0
    add_combination(factors, chosen, n_chosen, rows, out)


@njit(cache=True, nogil=True, error_model="numpy")
def add_hessian(indices, values, weights, hessian):
    """Add H = sum_i weight_i x~_i x~_i' to the lower triangle of ``hessian``, of shape (K + 1, K + 1).

    x~_i is the code of sample i with a 1 appended for the intercept, so that row K belongs to it.  A code has T
    entries: H costs O(n T^2), never O(n K^2).
    """
    n_components = hessian.shape[0] - 1
    for i in range(indices.shape[0]):
        weight = weights[i]
        if weight == 0:  # most samples, for a hinge
            continue
        for s in range(indices.shape[1]):
            if values[i, s] == 0:
                break
            weighted_value = weight * values[i, s]
            row = indices[i, s]
            for t in range(s + 1):
                hessian[row, indices[i, t]] += weighted_value * values[i, t]
            hessian[n_components, row] += weighted_value
        hessian[n_components, n_components] += weight


@njit(cache=True, nogil=True, error_model="numpy")
def add_gradient(indices, values, slopes, gradient):
    """Add g = sum_i slope_i x~_i to ``gradient``, of shape (K + 1,), with x~_i as for :func:`add_hessian`."""
    n_components = gradient.shape[0] - 1
    for i in range(indices.shape[0]):
        slope = slopes[i]
        for s in range(indices.shape[1]):
            if values[i, s] == 0:
                break
            gradient[indices[i, s]] += slope * values[i, s]
        gradient[n_components] += slope
