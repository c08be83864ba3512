"""The dictionary step of Algorithm 2 over sparse codes, in Numba: sums over the rows, then sweeps over the atoms.

With rows x_i of X, their codes c_i (at most T entries), weights s_i and the atoms d_k as rows of the dictionary, every
sweep lowers

    sum_i s_i || x_i - sum_k c_ik d_k ||^2      over one atom d_j of unit norm at a time (K-SVD: and over its c_ij).

The residual without atom j, e_i = x_i - sum_{k != j} c_ik d_k, is never stored (Rubinstein, Zibulevsky and Elad 2008).
What the atom needs of it is

    sum_i s_i c_ij e_i = data_sums[j] - sum_{k != j} coupling[k] d_k,
    data_sums[j] = sum_i s_i c_ij x_i,      coupling[k] = sum_i s_i c_ij c_ik.

No c_ij changes before the turn of atom j, so `data_sums` of all atoms is one pass over the rows of X before the sweep.
Only atoms that share a sample with atom j have a coupling; the sums run over these `partners`.

``indices`` and ``values`` are those of ``RowCodes``; an entry is in use when its value is not zero.  Work ends with the
last place that came in in use: from the second on, those have an index above zero, while a value may become zero.
"""

import math

import numpy as np

from . import njit
from .codes import count_used, square_vector


@njit(cache=True, nogil=True, error_model="numpy")
def add_data_sums(X, indices, values, weights, first_feature, last_feature, data_sums):
    """data_sums[k] += sum_i weights[i] c_ik X[i], for a range of the features."""
    zero = X.dtype.type(0)
    for i in range(X.shape[0]):
        for t in range(indices.shape[1]):
            k = indices[i, t]
            if t > 0 and k == 0:
                break
            factor = weights[i] * values[i, t]
            if factor != zero:
                # Unsigned, since a position that might be negative keeps the loop from becoming vector instructions.
                for m in range(np.uint64(first_feature), np.uint64(last_feature)):
                    data_sums[k, m] += factor * X[i, m]


@njit(cache=True, nogil=True, error_model="numpy")
def add_code_gram(indices, values, weights, code_gram):
    """code_gram += sum_i weights[i] c_i c_i'."""
    for i in range(indices.shape[0]):
        n_used = count_used(values, i)
        for s in range(n_used):
            factor = weights[i] * values[i, s]
            for t in range(n_used):
                code_gram[indices[i, s], indices[i, t]] += factor * values[i, t]


@njit(cache=True, nogil=True, error_model="numpy")
def index_users(indices, values, starts, users):
    """users[starts[k]:starts[k + 1]] = the rows that use atom k, ascending; ``starts`` comes in as zeros."""
    n_atoms = starts.shape[0] - 1
    for i in range(indices.shape[0]):
        for t in range(indices.shape[1]):
            if values[i, t] == 0:
                break
            starts[indices[i, t] + 1] += 1
    for k in range(n_atoms):
        starts[k + 1] += starts[k]
    for i in range(indices.shape[0]):
        for t in range(indices.shape[1]):
            if values[i, t] == 0:
                break
            k = indices[i, t]
            users[starts[k]] = i
            starts[k] += 1
    for k in range(n_atoms, 0, -1):  # each start has moved on to the next one
        starts[k] = starts[k - 1]
    starts[0] = 0


@njit(cache=True, nogil=True, error_model="numpy")
def _subtract_combination(factors, which, n_rows, rows, out):
    # out -= sum of factors[k] rows[k] over the first n_rows k of `which`, four at a time: `out` is read and written
    # once for four. Where fewer are left, the last fills the gap with a factor of zero.
    zero = out.dtype.type(0)
    last = n_rows - 1
    for p in range(0, n_rows, 4):
        a = which[p]
        b = which[min(p + 1, last)]
        c = which[min(p + 2, last)]
        d = which[min(p + 3, last)]
        factor_a = factors[a]
        factor_b = factors[b] if p + 1 <= last else zero
        factor_c = factors[c] if p + 2 <= last else zero
        factor_d = factors[d] if p + 3 <= last else zero
        for m in range(out.shape[0]):
            out[m] -= (factor_a * rows[a, m] + factor_b * rows[b, m]) + (factor_c * rows[c, m] + factor_d * rows[d, m])


# As in square_vector, additions may be reordered ("reassoc"): these products are half of the sweep.


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc"})
def _dot_rows(rows, which, start, stop, vector, products):
    # products[p - start] = rows[which[p]] @ vector for p in start, ..., stop - 1. Four rows at a time, so that the
    # processor waits for four rows of memory at once: the rows of X are scattered.
    last = stop - 1
    zero = vector.dtype.type(0)
    for p in range(start, stop, 4):
        a = which[p]
        b = which[min(p + 1, last)]
        c = which[min(p + 2, last)]
        d = which[min(p + 3, last)]
        product_a = product_b = product_c = product_d = zero
        for m in range(vector.shape[0]):
            product_a += rows[a, m] * vector[m]
            product_b += rows[b, m] * vector[m]
            product_c += rows[c, m] * vector[m]
            product_d += rows[d, m] * vector[m]
        products[p - start] = product_a
        products[min(p + 1, last) - start] = product_b
        products[min(p + 2, last) - start] = product_c
        products[min(p + 3, last) - start] = product_d


@njit(cache=True, nogil=True, error_model="numpy")
def _set_atom(dictionary, j, direction):
    # The best unit vector is the normalised direction. Without a direction all are equally good and the atom stays.
    # `direction` leaves as the atom. It has the units of squared samples, so its square would be out of range where
    # those are not: a power of two, which rounds nothing, brings its largest entry to about 1 first.
    largest = 0.0
    for m in range(direction.shape[0]):
        largest = max(largest, abs(direction[m]))
    if 0 < largest < np.inf:
        factor = math.ldexp(1.0, min(-math.frexp(largest)[1], 1000))
        for m in range(direction.shape[0]):
            direction[m] = direction[m] * factor
        inverse_norm = direction.dtype.type(1) / np.sqrt(square_vector(direction))
        for m in range(direction.shape[0]):
            dictionary[j, m] = direction[m] * inverse_norm
    for m in range(direction.shape[0]):
        direction[m] = dictionary[j, m]


@njit(cache=True, nogil=True, error_model="numpy")
def _couple(j, first, last, users, indices, values, coupling, seen, partners):
    # Fill coupling[k] for the partners k of atom j, list them in `partners` and return how many there are.
    # No branch depends on the data but where a row ends: what cannot be predicted would cost more than the arithmetic.
    n_atoms = coupling.shape[0]
    for k in range(n_atoms):
        coupling[k] = 0
    for p in range(first, last):
        i = users[p]
        own_value = values.dtype.type(0)
        n_used = 1
        while n_used < indices.shape[1] and indices[i, n_used] != 0:
            n_used += 1
        for t in range(n_used):
            own_value += values[i, t] * (indices[i, t] == j)
        for t in range(n_used):
            k = indices[i, t]
            seen[k] = j  # unused places count as users of atom 0, which is harmless: its coupling stays zero
            coupling[k] += own_value * values[i, t]
    n_partners = 0
    for k in range(n_atoms):
        partners[n_partners] = k
        n_partners += (seen[k] == j) & (k != j)
    return n_partners


@njit(cache=True, nogil=True, error_model="numpy")
def sweep_ksvd(X, data_sums, starts, users, indices, values, dictionary, direction, products, coupling, seen, partners):
    """Approximate K-SVD over all atoms, all weights 1: d_j = normalised sum_i c_ij e_i, then c_ij = e_i'd_j."""
    zero = X.dtype.type(0)
    for j in range(dictionary.shape[0]):
        first, last = starts[j], starts[j + 1]
        if first == last:
            continue
        n_partners = _couple(j, first, last, users, indices, values, coupling, seen, partners)
        for m in range(direction.shape[0]):
            direction[m] = data_sums[j, m]
        _subtract_combination(coupling, partners, n_partners, dictionary, direction)
        _set_atom(dictionary, j, direction)
        # From here on `coupling` holds the partners' inner products with the new atom.
        _dot_rows(dictionary, partners, 0, n_partners, direction, products)
        for q in range(n_partners):
            coupling[partners[q]] = products[q]
        _dot_rows(X, users, first, last, direction, products)
        for p in range(first, last):
            i = users[p]
            own = 0
            value = products[p - first]
            for t in range(indices.shape[1]):
                if t > 0 and indices[i, t] == 0:
                    break
                if values[i, t] != zero:
                    if indices[i, t] == j:
                        own = t
                    else:
                        value -= values[i, t] * coupling[indices[i, t]]
            values[i, own] = value


@njit(cache=True, nogil=True, error_model="numpy")
def sweep_atoms(code_gram, data_sums, dictionary, direction, coupling, partners):
    """One sweep d_j = normalised sum_i s_i c_ij e_i over all atoms, the codes fixed, from sums over the rows."""
    n_atoms = dictionary.shape[0]
    for j in range(n_atoms):
        if code_gram[j, j] == 0:
            continue
        n_partners = 0
        for k in range(n_atoms):
            if k != j and code_gram[j, k] != 0:
                coupling[k] = code_gram[j, k]
                partners[n_partners] = k
                n_partners += 1
        for m in range(direction.shape[0]):
            direction[m] = data_sums[j, m]
        _subtract_combination(coupling, partners, n_partners, dictionary, direction)
        _set_atom(dictionary, j, direction)
