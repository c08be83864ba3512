"""Sums over sparse codes for the classifier update (Section 3.1 of the paper), in Numba.

One class's base learner solves the weighted least squares problem

    minimise over d:   1/2 d' H d + g' d,      H = sum_i weight_i x~_i x~_i',      g = sum_i slope_i x~_i,

where x~_i is the code of sample i with a 1 appended for the intercept, so that place K of a vector and row K of H
belong to it.  A code has T entries: H costs O(n T^2), never O(n K^2).  ``indices`` and ``values`` are those of
``RowCodes``: ascending in each row, unused places last with index 0 and value 0, where work on a row ends.
"""

from numba import njit


@njit(cache=True, nogil=True, error_model="numpy")
def add_hessian(indices, values, weights, hessian):
    """Add H to the lower triangle of ``hessian``, of shape (K + 1, K + 1); the upper one keeps its values."""
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
    """Add g to ``gradient``, of shape (K + 1,)."""
    n_components = gradient.shape[0] - 1
    for i in range(indices.shape[0]):
        slope = slopes[i]
        for s in range(indices.shape[1]):
            if values[i, s] == 0:
                break
            gradient[indices[i, s]] += slope * values[i, s]
        gradient[n_components] += slope
