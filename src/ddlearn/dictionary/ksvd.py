r"""K-SVD, approximate as the paper prints it (Section 3.2), weighted, or exact: each atom and its codes in turn.

With the residuals :math:`e_i` of an atom's users without it, the atom becomes their (weighted) combination by the codes
or their first singular vector, and its codes become :math:`e_i^T d`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from ..codes import RowCodes
from ..kernels import sweep as kernel
from ..kernels.codes import drop_zeros
from .interface import Array
from .maintenance import MaintainedUpdate
from .sums import scale_to_one, sum_data


def _index_users(codes: RowCodes, n_components: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return ``starts`` and ``users``: the rows that use atom k are ``users[starts[k]:starts[k + 1]]``."""
    starts = np.zeros(n_components + 1, dtype=np.int64)
    users = np.empty(codes.values.size, dtype=np.int64)
    kernel.index_users(*codes, starts, users)
    return starts, users


class KSVDUpdate(MaintainedUpdate):
    r"""Approximate K-SVD as the paper prints it: one sweep, no weights.

    For each atom in turn, with the residuals :math:`e_i` of its users without it:
    :math:`d \leftarrow \sum_i x_{ij} e_i`, normalised, then :math:`x_{ij} \leftarrow e_i^T d`.  The unweighted error
    never rises in the sweep.  The MAP objective may: the step ignores :math:`\sigma_i`, and new codes mean new margins.

    Afterwards atoms without users, and the lesser used of nearly coinciding ones, are replaced by badly represented
    samples.

    Parameters
    ----------
    max_coherence : float, default=0.99
        Two atoms whose inner product exceeds this in size are near-duplicates.
    outlier_fraction : float, default=0.01
        This share of the samples, those with the largest error, never become atoms.

    Examples
    --------
    >>> import numpy as np
    >>> from ddlearn.codes import RowCodes
    >>> codes = RowCodes(np.zeros((2, 1), np.int32), np.ones((2, 1)))
    >>> X = np.array([[3.0, 0.0], [0.0, 4.0]])
    >>> updated = KSVDUpdate().update(X, codes, np.array([[1.0, 0.0]]), np.ones(2), np.random.RandomState(0))
    >>> updated.dictionary
    array([[0.6, 0.8]])
    >>> updated.codes.values.ravel()
    array([1.8, 3.2])
    """

    updates_codes = True

    def _improve(self, X: Array, codes: RowCodes, dictionary: Array, precision: Array, n_jobs: int | None) -> Array:
        n_components, n_features = dictionary.shape
        weights = scale_to_one(precision if self.is_weighted else np.ones(X.shape[0]), X.dtype)
        data_sums = sum_data(X, codes, weights, n_components, n_jobs)
        starts, users = _index_users(codes, n_components)
        most_products = max(n_components, np.diff(starts).max(initial=0))
        kernel.sweep_ksvd(
            X,
            weights,
            data_sums,
            starts,
            users,
            *codes,
            dictionary,
            direction=np.empty(n_features, dtype=X.dtype),
            products=np.empty(most_products, dtype=X.dtype),
            coupling=np.empty(n_components, dtype=X.dtype),
            seen=np.full(n_components, -1, dtype=np.int64),
            partners=np.empty(n_components, dtype=np.int64),
        )
        drop_zeros(*codes)
        return np.ones(n_components, dtype=X.dtype)


class WeightedKSVDUpdate(KSVDUpdate):
    r"""Approximate K-SVD with the weights of the MAP objective: :math:`d \leftarrow \sum_i \sigma_i^{-2} x_{ij} e_i`.

    The weighted error never rises in the sweep.  The MAP objective may: new codes mean new margins.

    Parameters
    ----------
    max_coherence : float, default=0.99
        Two atoms whose inner product exceeds this in size are near-duplicates; the lesser used one is replaced.
    outlier_fraction : float, default=0.01
        This share of the samples, those with the largest error, never become atoms.

    Examples
    --------
    >>> import numpy as np
    >>> from ddlearn.codes import RowCodes
    >>> codes = RowCodes(np.zeros((2, 1), np.int32), np.ones((2, 1)))
    >>> X, precision = np.array([[3.0, 0.0], [0.0, 4.0]]), np.array([4.0, 1.0])
    >>> updated = WeightedKSVDUpdate().update(X, codes, np.array([[1.0, 0.0]]), precision, np.random.RandomState(0))
    >>> updated.dictionary.round(3)
    array([[0.949, 0.316]])
    """

    is_weighted = True


class ExactKSVDUpdate(MaintainedUpdate):
    r"""K-SVD with the best rank-one approximation of each atom's residuals, no weights.

    For each atom in turn, the residuals :math:`e_i` of its users without it are the rows of a matrix; :math:`d` becomes
    its first right singular vector, and :math:`x_{ij} = e_i^T d`.  The sign is the one that turns the codes
    less: a flipped atom would flip its part in every margin.

    Parameters
    ----------
    max_coherence : float, default=0.99
        Two atoms whose inner product exceeds this in size are near-duplicates; the lesser used one is replaced.
    outlier_fraction : float, default=0.01
        This share of the samples, those with the largest error, never become atoms.

    Examples
    --------
    >>> import numpy as np
    >>> from ddlearn.codes import RowCodes
    >>> codes = RowCodes(np.zeros((2, 1), np.int32), np.ones((2, 1)))
    >>> X = np.array([[3.0, 0.0], [0.0, 4.0]])
    >>> updated = ExactKSVDUpdate().update(X, codes, np.array([[0.6, 0.8]]), np.ones(2), np.random.RandomState(0))
    >>> updated.dictionary.round(3)
    array([[0., 1.]])
    """

    updates_codes = True

    def _improve(self, X: Array, codes: RowCodes, dictionary: Array, precision: Array, n_jobs: int | None) -> Array:
        n_components = len(dictionary)
        starts, users = _index_users(codes, n_components)
        for atom in np.flatnonzero(np.diff(starts)):
            self._improve_atom(atom, users[starts[atom] : starts[atom + 1]], X, codes, dictionary)
        drop_zeros(*codes)
        return np.ones(n_components, dtype=X.dtype)

    @staticmethod
    def _improve_atom(atom: np.intp, rows: NDArray[np.int64], X: Array, codes: RowCodes, dictionary: Array) -> None:
        # At most n_features residuals at a time: a popular atom's would be as large as X.
        chunks = [rows[start : start + X.shape[1]] for start in range(0, len(rows), X.shape[1])]
        direction = _leading_direction(_residuals_without(atom, chunk, X, codes, dictionary) for chunk in chunks)
        norm = np.linalg.norm(direction)
        if norm > 0:
            dictionary[atom] = direction / norm
        own = (codes.indices[rows] == atom) & (codes.values[rows] != 0)
        old = codes.values[rows][own]
        new = np.concatenate(
            [_residuals_without(atom, chunk, X, codes, dictionary) @ dictionary[atom] for chunk in chunks]
        )
        if old @ new < 0:
            dictionary[atom] *= -1
            new *= -1
        codes.values[rows[:, None], np.arange(own.shape[1])] = np.where(own, new[:, None], codes.values[rows])


def _residuals_without(atom: np.intp, rows: NDArray[np.int64], X: Array, codes: RowCodes, dictionary: Array) -> Array:
    indices, values = codes.rows(rows)
    residuals = X[rows]
    for place in range(indices.shape[1]):
        others = np.where(indices[:, place] == atom, 0, values[:, place])
        residuals -= others[:, None] * dictionary[indices[:, place]]
    return residuals


def _leading_direction(residual_chunks: Iterator[Array]) -> Array:
    """Return a multiple of the first right singular vector of the stacked chunks, from the smaller Gram matrix."""
    first = next(residual_chunks)
    second = next(residual_chunks, None)
    if second is None:
        return _leading_eigenvector(first @ first.T) @ first
    gram = first.T @ first + second.T @ second
    for chunk in residual_chunks:
        gram += chunk.T @ chunk
    return _leading_eigenvector(gram)


def _leading_eigenvector(gram: Array) -> Array:
    last = len(gram) - 1
    return eigh(gram, subset_by_index=[last, last])[1][:, 0]
