r"""Weighted sums over the samples: :math:`\sum_i \sigma_i^{-2} x_i x_i^T`, :math:`\sum_i \sigma_i^{-2} x_i y_i^T`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..codes import RowCodes
from ..kernels import sweep as kernel
from ..parallel import effective_n_jobs, map_blocks
from .interface import Array


@dataclass(frozen=True)
class CodeStatistics:
    r"""All that the weighted error with fixed codes needs to know of a block of samples; blocks add with ``+``.

    Attributes
    ----------
    code_gram : ndarray of shape (n_components, n_components), float64
        :math:`A = \sum_i \sigma_i^{-2} x_i x_i^T`.
    data_sums : ndarray of shape (n_components, n_features)
        :math:`B = \sum_i \sigma_i^{-2} x_i y_i^T`.

    Examples
    --------
    >>> import numpy as np
    >>> one = CodeStatistics(np.eye(2), np.ones((2, 3)))
    >>> (one + one).code_gram
    array([[2., 0.],
           [0., 2.]])
    """

    code_gram: Array
    data_sums: Array

    def __add__(self, other: CodeStatistics) -> CodeStatistics:
        return CodeStatistics(self.code_gram + other.code_gram, self.data_sums + other.data_sums)


def scale_to_one(precision: Array, dtype: np.dtype) -> Array:
    """Return the precisions relative to their largest: only ratios matter, and these fit in any dtype."""
    precision = np.asarray(precision, dtype=np.float64)
    return (precision / max(precision.max(initial=0), np.finfo(np.float64).tiny)).astype(dtype)


def sum_data(X: Array, codes: RowCodes, weights: Array, n_components: int, n_jobs: int | None) -> Array:
    r"""Return :math:`B = \sum_i s_i x_i y_i^T`, shape (n_components, n_features)."""
    data_sums = np.zeros((n_components, X.shape[1]), dtype=X.dtype)

    def add(features: slice, _: None) -> None:
        kernel.add_data_sums(X, *codes, weights, features.start, features.stop, data_sums)

    # Threads share the features, not the rows: none needs sums of its own, and every number of threads adds the same
    # numbers in the same order.
    n_features = X.shape[1]
    width = max(-(-n_features // effective_n_jobs(n_jobs)), 1)
    slabs = [slice(start, min(start + width, n_features)) for start in range(0, n_features, width)]
    map_blocks(add, slabs, lambda: None, n_jobs=n_jobs)
    return data_sums
