"""Cholesky factors of small matrices, row by row, in Numba: as fast as LAPACK for tens of rows, without its calls.

A factor L is lower, with the *inverses* of its diagonal in place of the diagonal, 0 for a row that depends on others.
Additions may be reordered ("reassoc"), or sums would not be vectorised.
"""

from . import njit


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
def solve_forward(factor, solution, k):
    """Replace entry k of a right-hand side by that of L^-1 times it; those before it are replaced already."""
    total = solution[k]
    for j in range(k):
        total -= factor[k, j] * solution[j]
    solution[k] = total * factor[k, k]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def solve_backward(factor, solution, n):
    """Solve L' solution = solution in place, for the first n unknowns."""
    i = n - 1
    while i >= 3:
        a = solution[i] * factor[i, i]
        b = (solution[i - 1] - a * factor[i, i - 1]) * factor[i - 1, i - 1]
        c = (solution[i - 2] - a * factor[i, i - 2] - b * factor[i - 1, i - 2]) * factor[i - 2, i - 2]
        d = solution[i - 3] - a * factor[i, i - 3] - b * factor[i - 1, i - 3] - c * factor[i - 2, i - 3]
        d *= factor[i - 3, i - 3]
        for j in range(i - 3):
            solution[j] -= (a * factor[i, j] + b * factor[i - 1, j]) + (c * factor[i - 2, j] + d * factor[i - 3, j])
        solution[i] = a
        solution[i - 1] = b
        solution[i - 2] = c
        solution[i - 3] = d
        i -= 4
    while i >= 0:
        entry = solution[i] * factor[i, i]
        solution[i] = entry
        for j in range(i):
            solution[j] -= entry * factor[i, j]
        i -= 1


@njit(cache=True, nogil=True, error_model="numpy")
def solve_factored(factor, solution, n):
    """Solve LL' solution = solution in place, for the first n unknowns."""
    for i in range(n):
        solve_forward(factor, solution, i)
    solve_backward(factor, solution, n)
