"""What a sparse coder is: a solver of the row problems of sparse coding."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from ..codes import RowCodes

Floats = NDArray[np.floating]


class SparseCoder(BaseEstimator, ABC):
    r"""Solves the row problems of sparse coding.

    For each row, with :math:`G` the Gram matrix of the atoms and :math:`W` the classifiers as rows,

    .. math::
        \min_x\; x^T (G + W^T \mathrm{diag}(h) W - B^T B)\, x - 2 (c + W^T p)^T x
        \quad\text{subject to}\quad \|x\|_0 \le T,

    with the row's correlations :math:`c`, class weights :math:`h` and class pull :math:`p`.  A coder that sets
    ``projects_directions`` also takes directions :math:`B`, different in each row, which alignment projects out of the
    problem; the others are never given any.  Weights may be negative, as those of missing features are, but the matrix
    in brackets never has a negative eigenvalue.

    A coder that adds a penalty on the code sets ``has_penalty`` and implements :meth:`measure_penalty`; one that sets
    ``starts_from_codes`` receives the present codes of the samples; and one with a parameter that is estimated from the
    data returns False as ``is_adapted`` until :meth:`adapt` has been called, which a fit does once, with its first
    dictionary.

    Examples
    --------
    >>> import numpy as np
    >>> from ddlearn import OMP
    >>> gram, correlations = np.eye(3), np.array([[0.5, 3.0, -2.0]])
    >>> no_classes = np.empty((0, 3)), np.empty((1, 0)), np.empty((1, 0))
    >>> OMP().encode(gram, correlations, *no_classes, n_nonzero_coefs=2)
    RowCodes(indices=array([[1, 2]], dtype=int32), values=array([[ 3., -2.]]))
    """

    projects_directions = False
    starts_from_codes = False
    has_penalty = False
    is_adapted = True  # False while a parameter is still to be estimated from the data
    default_budget = 5  # the T of n_nonzero_coefs=None

    @abstractmethod
    def encode(
        self,
        gram: Floats,
        correlations: Floats,
        coef: Floats,
        weight: Floats,
        pull: Floats,
        *,
        n_nonzero_coefs: int,
        energies: Floats | None = None,
        directions: Floats | None = None,
        init_codes: RowCodes | None = None,
    ) -> RowCodes:
        """Return the codes of some rows; all arrays are C-contiguous and of one dtype.

        Parameters
        ----------
        gram : ndarray of shape (n_components, n_components)
            Products of the atoms with each other.
        correlations : ndarray of shape (n_rows, n_components)
            Products of the samples with the atoms.
        coef : ndarray of shape (n_classes, n_components)
            The classifiers; no rows for traditional sparse coding.
        weight : ndarray of shape (n_rows, n_classes)
            Weight of each class in each row's problem.
        pull : ndarray of shape (n_rows, n_classes)
            Linear term of each class in each row's problem.
        n_nonzero_coefs : int
            The budget T.
        energies : ndarray of shape (n_rows,) or None, default=None
            Squared norms of the samples, given where a coder may stop on the residual: in traditional sparse coding,
            whether or not features are left out.
        directions : ndarray of shape (n_rows, n_directions, n_components) or None, default=None
            Directions to project out, given only to coders that set ``projects_directions``.
        init_codes : RowCodes or None, default=None
            Codes to begin with, given only to coders that set ``starts_from_codes``.

        Returns
        -------
        RowCodes
            At most T entries a row.
        """

    def adapt(self, samples: Floats, dictionary: Floats, n_nonzero_coefs: int) -> SparseCoder:
        """Return a coder whose open parameters have been estimated from the data.

        Parameters
        ----------
        samples : ndarray of shape (n_samples, n_features)
            Some of the samples to be coded, at most 1000.
        dictionary : ndarray of shape (n_components, n_features)
            The initial atoms.
        n_nonzero_coefs : int
            The budget T.

        Returns
        -------
        SparseCoder
            This coder itself if it has no open parameters.
        """
        return self

    def measure_penalty(self, values: Floats) -> Floats:
        """Return the penalty on each row's code, in units of half the squared residual; 0 unless ``has_penalty``.

        Parameters
        ----------
        values : ndarray of shape (n_rows, n_places)
            The coefficients, in any order.

        Returns
        -------
        ndarray of shape (n_rows,)
            The penalty, in the dtype of the values.
        """
        return np.zeros(len(values), values.dtype)


def no_classes(n_rows: int, n_components: int, dtype: np.dtype) -> tuple[Floats, Floats, Floats]:
    """Return the class terms (coef, weight, pull) of traditional sparse coding."""
    return np.empty((0, n_components), dtype), np.empty((n_rows, 0), dtype), np.empty((n_rows, 0), dtype)


def measure_misfit(sparse_coder: SparseCoder, squared_residuals: Floats, codes: RowCodes) -> Floats:
    """Return the squared residuals, plus twice the penalty of a coder that has one."""
    if not sparse_coder.has_penalty:
        return squared_residuals
    return squared_residuals + 2 * sparse_coder.measure_penalty(codes.values)
