"""Orthogonal matching pursuit over a dictionary and the identity, [D I], in Numba.

Each row is one problem: choose at most T atoms and at most ``budget`` features, one at a time, each time the one most
correlated with the residual; fit all that are chosen by least squares.

    minimise  ||y - D'x - e||^2,        x with at most T nonzeros, e with at most `budget`.

The identity is never formed.  The correlation of an error atom is the residual of its feature, and a chosen one fits
its feature exactly: it takes the feature out of the problem, which is a downdate of what the atoms need,

    products of the sample with the atoms        c <- c - y_f D_f,
    columns of the Gram matrix, of the chosen    G_k <- G_k - D_kf D_f        (D_f: the atoms' values at feature f).
"""

import numpy as np

from . import njit


@njit(cache=True, nogil=True, error_model="numpy")
def _solve(support, n_selected, columns, products, inverse_norms, cholesky, x, pivot_floor):
    # Least squares of the chosen atoms on the features that are left; False if they are dependent there. The pivot is
    # compared with the whole atom, as rounding errors are: of an atom in wrong features nothing else may be left.
    for t in range(n_selected):
        for s in range(t + 1):
            total = columns[t, support[s]]
            for r in range(s):
                total -= cholesky[t, r] * cholesky[s, r]
            if s < t:
                cholesky[t, s] = total / cholesky[s, s]
            elif total * inverse_norms[support[t]] ** 2 <= pivot_floor:
                return False
            else:
                cholesky[t, t] = np.sqrt(total)
    for t in range(n_selected):
        total = products[support[t]]
        for s in range(t):
            total -= cholesky[t, s] * x[s]
        x[t] = total / cholesky[t, t]
    for t in range(n_selected - 1, -1, -1):
        for s in range(t + 1, n_selected):
            x[t] -= cholesky[s, t] * x[s]
        x[t] /= cholesky[t, t]
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def _most_correlated_atom(products, columns, x, n_selected, inverse_norms, is_open):
    best = -1
    largest = products.dtype.type(0)
    for k in range(products.shape[0]):
        if is_open[k]:
            correlation = products[k]
            for t in range(n_selected):
                correlation -= x[t] * columns[t, k]
            correlation = abs(correlation) * inverse_norms[k]
            if correlation > largest:
                largest = correlation
                best = k
    return best, largest


@njit(cache=True, nogil=True, error_model="numpy")
def _largest_residual(sample, is_kept, support, x, n_selected, atoms_by_feature):
    best = -1
    largest = sample.dtype.type(0)
    for f in range(sample.shape[0]):
        if is_kept[f]:
            residual = sample[f]
            for t in range(n_selected):
                residual -= x[t] * atoms_by_feature[f, support[t]]
            if abs(residual) > largest:
                largest = abs(residual)
                best = f
    return best, largest


@njit(cache=True, nogil=True, error_model="numpy")
def pursue_with_errors(
    atoms_by_feature,  # (n_features, n_atoms)
    inverse_norms,  # (n_atoms,) of whole atoms, as in matching pursuit over [D I]; 0 for a zero atom
    samples,  # (n_rows, n_features)
    budgets,  # (n_rows,) features that may be wrong
    thresholds,  # (n_rows,) a feature with a smaller residual is never wrong
    correlation_floor,  # a correlation is a rounding error below this share of the first one
    pivot_floor,  # this share or less of an atom's squared norm off the others: it is dependent
    is_kept,  # (n_rows, n_features) in: the features that are known, out: those that are also right
    indices,  # out, (n_rows, n_nonzero_coefs) in order of selection
    values,  # out, (n_rows, n_nonzero_coefs)
):
    """Solve the problem of the module's docstring for every row."""
    n_features, n_atoms = atoms_by_feature.shape
    n_places = indices.shape[1]
    dtype = samples.dtype
    products = np.empty(n_atoms, dtype)
    columns = np.empty((n_places, n_atoms), dtype)
    cholesky = np.empty((n_places, n_places), dtype)
    x = np.zeros(n_places, dtype)
    is_open = np.empty(n_atoms, np.bool_)
    for i in range(samples.shape[0]):
        sample = samples[i]
        kept = is_kept[i]
        support = indices[i]
        for k in range(n_atoms):
            products[k] = 0
            is_open[k] = inverse_norms[k] > 0
        for f in range(n_features):
            if kept[f]:
                for k in range(n_atoms):
                    products[k] += sample[f] * atoms_by_feature[f, k]
        n_selected = 0
        n_wrong = 0
        lowest = samples.dtype.type(0)
        while True:
            feature, residual = _largest_residual(sample, kept, support, x, n_selected, atoms_by_feature)
            is_wrong = n_wrong < budgets[i] and residual > thresholds[i]
            atom, correlation = -1, residual
            if n_selected < n_places:
                atom, correlation = _most_correlated_atom(products, columns, x, n_selected, inverse_norms, is_open)
                if n_selected + n_wrong == 0:
                    lowest = correlation_floor * correlation
            if atom >= 0 and correlation > lowest and not (is_wrong and residual > correlation):
                is_open[atom] = False
                support[n_selected] = atom
                for k in range(n_atoms):
                    columns[n_selected, k] = 0
                for f in range(n_features):
                    if kept[f]:
                        for k in range(n_atoms):
                            columns[n_selected, k] += atoms_by_feature[f, atom] * atoms_by_feature[f, k]
                if _solve(support, n_selected + 1, columns, products, inverse_norms, cholesky, x, pivot_floor):
                    n_selected += 1
            elif is_wrong:
                kept[feature] = False
                n_wrong += 1
                for k in range(n_atoms):
                    products[k] -= sample[feature] * atoms_by_feature[feature, k]
                for t in range(n_selected):
                    share = atoms_by_feature[feature, support[t]]
                    for k in range(n_atoms):
                        columns[t, k] -= share * atoms_by_feature[feature, k]
                while not _solve(support, n_selected, columns, products, inverse_norms, cholesky, x, pivot_floor):
                    n_selected -= 1  # without this feature the last atom is dependent on the others
            else:
                break
        for t in range(n_places):
            values[i, t] = x[t] if t < n_selected else 0
            if t >= n_selected:
                indices[i, t] = 0
