"""Sparse codes in memory: the paper's X, at most T entries a row.

Inside the library the codes of a block of samples are two arrays of shape (n_samples, T), not a CSR matrix: every row
has the same place for its entries, so blocks can be written side by side by several threads and kernels need no
row pointers.  A row's entries stand in the order of their atoms; places that are not used come last and hold index 0
and value 0, which is harmless in every product.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_array


class RowCodes(NamedTuple):
    """Codes of some samples, at most T entries each.

    Parameters
    ----------
    indices : ndarray of shape (n_samples, n_nonzero_coefs), int32
        The atoms used, ascending; 0 where not used.
    values : ndarray of shape (n_samples, n_nonzero_coefs)
        Their coefficients; 0 where not used.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> from ddlearn import RowCodes
    >>> codes = RowCodes.from_csr(csr_array([[0.0, 2.0, 3.0], [0.0, 0.0, 1.0]]), 2, float)
    >>> codes.indices
    array([[1, 2],
           [2, 0]], dtype=int32)
    >>> codes.to_csr(3).toarray()
    array([[0., 2., 3.],
           [0., 0., 1.]])
    """

    indices: NDArray[np.int32]
    values: NDArray[np.floating]

    @classmethod
    def empty(cls, n_samples: int, n_nonzero_coefs: int, dtype: DTypeLike) -> RowCodes:
        """Return codes without any entry."""
        shape = (n_samples, n_nonzero_coefs)
        return cls(np.zeros(shape, np.int32), np.zeros(shape, dtype))

    @classmethod
    def join(cls, parts: Sequence[RowCodes]) -> RowCodes:
        """Return the rows of all parts as one."""
        return cls(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))

    @classmethod
    def from_csr(cls, codes: csr_array, n_nonzero_coefs: int, dtype: DTypeLike) -> RowCodes:
        """Lay out a CSR matrix that has at most ``n_nonzero_coefs`` entries in each row."""
        codes = csr_array(codes, copy=True)
        codes.sum_duplicates()
        codes.eliminate_zeros()
        counts = np.diff(codes.indptr)
        if counts.size and counts.max() > n_nonzero_coefs:
            row = int(np.argmax(counts))
            raise ValueError(
                f"Row {row} of the codes has {counts[row]} nonzeros, more than n_nonzero_coefs={n_nonzero_coefs}."
            )
        laid_out = cls.empty(codes.shape[0], n_nonzero_coefs, dtype)
        used = np.arange(n_nonzero_coefs) < counts[:, None]
        laid_out.indices[used] = codes.indices
        laid_out.values[used] = codes.data
        return laid_out

    def to_csr(self, n_components: int) -> csr_array:
        """Return the codes as a CSR matrix of shape (n_samples, n_components) with sorted indices."""
        n_samples, n_places = self.indices.shape
        used = self.values != 0
        if used.all():
            indptr = np.arange(0, n_samples * n_places + 1, max(n_places, 1), dtype=np.int64)
            data, indices = self.values.reshape(-1), self.indices.reshape(-1)
        else:
            indptr = np.concatenate([[0], np.cumsum(used.sum(axis=1))])
            data, indices = self.values[used], self.indices[used]
        codes = csr_array((data, indices, indptr), shape=(n_samples, n_components))
        codes.has_sorted_indices = True
        return codes

    def rows(self, rows: slice | NDArray[np.intp]) -> RowCodes:
        """Return the codes of some rows: a view for a slice, a copy for an array of positions."""
        return RowCodes(self.indices[rows], self.values[rows])

    def sort(self) -> RowCodes:
        """Return the same codes with the atoms of each row in order, unused places last."""
        order = np.argsort(np.where(self.values != 0, self.indices, np.iinfo(np.int32).max), axis=1, kind="stable")
        values = np.take_along_axis(self.values, order, axis=1)
        return RowCodes(np.where(values != 0, np.take_along_axis(self.indices, order, axis=1), np.int32(0)), values)
