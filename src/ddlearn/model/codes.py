"""Sparse codes in memory (the paper's X), and the model that gives them a meaning (the paper's D, W, b and gamma).

Inside the library the codes of a block of samples are two arrays of shape (n_samples, T), not a CSR matrix: every row
has the same number of places, so several threads can write blocks side by side and kernels need no row pointers.  The
entries of a row are in the order of their atoms; unused places come last and hold index 0 and value 0, which is
harmless in every product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_array

from ..kernels.codes import measure_errors, score_rows
from ..parallel import map_blocks, split_rows

Floats = NDArray[np.floating]
Flags = NDArray[np.bool_]


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

    def fill(self, codes: RowCodes) -> None:
        """Overwrite these codes with as many places of others as there are."""
        n_places = min(self.values.shape[1], codes.values.shape[1])
        for to, source in zip(self, codes, strict=True):
            to[:, :n_places] = source[:, :n_places]
            to[:, n_places:] = 0

    def trim(self) -> RowCodes:
        """Return the same codes without the places that no row uses."""
        n_places = max(int(np.count_nonzero(self.values, axis=1).max(initial=0)), 1)
        return RowCodes(*(np.ascontiguousarray(array[:, :n_places]) for array in self))

    def sort(self) -> RowCodes:
        """Return the same codes with the atoms of each row in order and unused places last."""
        order = np.argsort(np.where(self.values != 0, self.indices, np.iinfo(np.int32).max), axis=1, kind="stable")
        values = np.take_along_axis(self.values, order, axis=1)
        return RowCodes(np.where(values != 0, np.take_along_axis(self.indices, order, axis=1), np.int32(0)), values)


@dataclass(frozen=True)
class Model:
    """What all samples share: dictionary, classifiers and class costs, the paper's D, W, b and gamma."""

    dictionary: Floats  # (n_components, n_features), rows of unit norm
    coef: Floats  # (n_classes, n_components)
    intercept: Floats  # (n_classes,)
    class_cost: Floats  # (n_classes,)

    sent_by_fields: ClassVar = True  # to a cluster, where arrays that have not changed need not be sent again

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # without what is cached

    @cached_property
    def coef_by_atom(self) -> Floats:
        """The coefficients with one row per atom, as kernels read them."""
        return np.ascontiguousarray(self.coef.T)

    def astype(self, dtype: DTypeLike) -> Model:
        """Return the model in another precision."""
        arrays = (self.dictionary, self.coef, self.intercept, self.class_cost)
        return Model(*(array.astype(dtype, copy=False) for array in arrays))

    def weigh_labels(self, weight: float) -> Model:
        """Return the model with the weight of the labels folded into the class costs.

        The terms of the classifiers in the objective are multiplied by the weight, so costs are divided by it.
        """
        return replace(self, class_cost=self.class_cost / weight)

    def scores(self, codes: RowCodes) -> Floats:
        """Return the score w'x + b of every sample for every class."""
        scores = np.empty((len(codes.indices), len(self.coef)), self.coef.dtype)
        score_rows(codes.indices, codes.values, self.coef_by_atom, scores)
        return scores + self.intercept

    def measure(self, X: Floats, codes: RowCodes, n_jobs: int | None = None) -> tuple[Floats, Floats]:
        """Return the squared residual of every sample, and its scores; the residuals themselves are never stored."""
        scores = self.scores(codes)
        return measure_residuals(X, codes, self.dictionary, n_jobs), scores


def measure_residuals(X: Floats, codes: RowCodes, dictionary: Floats, n_jobs: int | None = None) -> Floats:
    """Return the squared residual of every sample; the residuals themselves are never stored."""
    squared = np.empty(X.shape[0], dtype=X.dtype)

    def measure(rows: slice, residual: Floats) -> None:
        measure_errors(np.asarray(X[rows]), *codes.rows(rows), dictionary, residual, squared[rows])

    map_blocks(measure, split_rows(X.shape[0]), lambda: np.empty(X.shape[1], dtype=X.dtype), n_jobs=n_jobs)
    return squared
