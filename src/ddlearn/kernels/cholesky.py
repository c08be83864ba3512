"""Cholesky factors of small matrices, row by row, in Numba: as fast as LAPACK for tens of rows, without its calls.

A factor L is lower, with the *inverses* of its diagonal in place of the diagonal, 0 for a row that depends on others.
Additions may be reordered ("reassoc"), or sums would not be vectorised.
"""

from numba import njit


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def eliminate_row(factor, k):
    """Replace row k of a matrix, up to the diagonal, by that of the factor; return the pivot."""
    pivot = factor[k, k]
    zero = pivot - pivot
    i = 0
    while i + 3 < k:
        first = zero
        second = zero
        third = zero
        fourth = zero
        for j in range(i):
            entry = factor[k, j]
            first += entry * factor[i, j]
            second += entry * factor[i + 1, j]
            third += entry * factor[i + 2, j]
            fourth += entry * factor[i + 3, j]
        a = (factor[k, i] - first) * factor[i, i]
        b = (factor[k, i + 1] - second - a * factor[i + 1, i]) * factor[i + 1, i + 1]
        c = (factor[k, i + 2] - third - a * factor[i + 2, i] - b * factor[i + 2, i + 1]) * factor[i + 2, i + 2]
        d = factor[k, i + 3] - fourth - a * factor[i + 3, i] - b * factor[i + 3, i + 1] - c * factor[i + 3, i + 2]
        d *= factor[i + 3, i + 3]
        factor[k, i] = a
        factor[k, i + 1] = b
        factor[k, i + 2] = c
        factor[k, i + 3] = d
        pivot -= a * a + b * b + c * c + d * d
        i += 4
    while i < k:
        total = zero
        for j in range(i):
            total += factor[k, j] * factor[i, j]
        entry = (factor[k, i] - total) * factor[i, i]
        factor[k, i] = entry
        pivot -= entry * entry
        i += 1
    return pivot


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def solve_factored(factor, solution, n):
    """Solve LL' solution = solution in place, for the first n unknowns."""
    for i in range(n):
        total = solution[i]
        for j in range(i):
            total -= factor[i, j] * solution[j]
        solution[i] = total * factor[i, i]
    for i in range(n - 1, -1, -1):
        entry = solution[i] * factor[i, i]
        solution[i] = entry
        for j in range(i):
            solution[j] -= entry * factor[i, j]
