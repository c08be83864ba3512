"""Updates that lower the weighted error for fixed codes, from additive statistics, and so never raise the objective.

Atom after atom, in one sweep or several (block coordinate descent), or all atoms at once by least squares (the method
of optimal directions).
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ..codes import RowCodes
from ..kernels import sweep as kernel
from .interface import Array
from .maintenance import MaintainedUpdate
from .sums import CodeStatistics, scale_to_one, sum_data


class AdditiveUpdate(MaintainedUpdate):
    """An update that sees the samples only through their :class:`CodeStatistics`."""

    is_weighted = True
    is_monotone = True
    is_additive = True

    def statistics(
        self, X: Array, codes: RowCodes, precision: Array, n_components: int, *, n_jobs: int | None = None
    ) -> CodeStatistics:
        r"""Return the sums over a block of samples that the update needs.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            A block of samples.
        codes : RowCodes
            Their codes.
        precision : ndarray of shape (n_samples,)
            :math:`1 / \sigma_i^2`.
        n_components : int
            How many atoms there are.
        n_jobs : int or None, default=None
            How many threads, after joblib's conventions.

        Returns
        -------
        CodeStatistics
            To be added to those of other blocks.
        """
        X = np.asarray(X)
        weights = np.asarray(precision, dtype=X.dtype)
        code_gram = np.zeros((n_components, n_components))
        kernel.add_code_gram(*codes, weights, code_gram)
        return CodeStatistics(code_gram, sum_data(X, codes, weights, n_components, n_jobs))

    @abstractmethod
    def update_from(self, statistics: CodeStatistics, dictionary: Array) -> tuple[Array, Array]:
        """Return the improved dictionary, and the ``atom_scale`` by which the codes of each atom are to be multiplied.

        Parameters
        ----------
        statistics : CodeStatistics
            Of all samples.
        dictionary : ndarray of shape (n_components, n_features)
            The atoms so far; atoms without users stay as they are.

        Returns
        -------
        dictionary : ndarray of shape (n_components, n_features)
            The new atoms, of unit norm.
        atom_scale : ndarray of shape (n_components,)
            See :class:`UpdatedDictionary`.
        """

    def _improve(self, X: Array, codes: RowCodes, dictionary: Array, precision: Array, n_jobs: int | None) -> Array:
        weights = scale_to_one(precision, X.dtype)
        statistics = self.statistics(X, codes, weights, len(dictionary), n_jobs=n_jobs)
        dictionary[:], atom_scale = self.update_from(statistics, dictionary)
        if self.updates_codes:
            codes.values[:] *= atom_scale[codes.indices]
        return atom_scale


def _sweep_atoms(statistics: CodeStatistics, dictionary: Array, n_sweeps: int) -> Array:
    n_components, n_features = dictionary.shape
    dictionary = np.array(dictionary, order="C")
    direction, coupling = np.empty(n_features, dtype=dictionary.dtype), np.empty(n_components, dtype=dictionary.dtype)
    partners = np.empty(n_components, dtype=np.int64)
    for _ in range(n_sweeps):
        kernel.sweep_atoms(statistics.code_gram, statistics.data_sums, dictionary, direction, coupling, partners)
    return dictionary


class AtomUpdate(AdditiveUpdate):
    r"""Weighted update of one atom after another, the codes left alone: monotone.

    With the residuals :math:`e_i` of the other atoms, :math:`d \leftarrow \sum_i \sigma_i^{-2} x_{ij} e_i`, normalised,
    is the unit vector of least weighted error for fixed codes.  Margins do not change, so the MAP objective cannot
    rise.

    Parameters
    ----------
    max_coherence : float, default=0.99
        A sample that resembles an atom more than this does not replace another one.
    outlier_fraction : float, default=0.01
        This share of the samples, those with the largest error, never become atoms.

    Examples
    --------
    >>> import numpy as np
    >>> from ddlearn.codes import RowCodes
    >>> codes = RowCodes(np.zeros((2, 1), np.int32), np.ones((2, 1)))
    >>> X = np.array([[3.0, 0.0], [0.0, 4.0]])
    >>> updated = AtomUpdate().update(X, codes, np.array([[1.0, 0.0]]), np.ones(2), np.random.RandomState(0))
    >>> updated.dictionary
    array([[0.6, 0.8]])
    >>> updated.codes.values.ravel()
    array([1., 1.])
    """

    def update_from(self, statistics: CodeStatistics, dictionary: Array) -> tuple[Array, Array]:
        return _sweep_atoms(statistics, dictionary, 1), np.ones(len(dictionary), dtype=dictionary.dtype)


class BlockCoordinateUpdate(AdditiveUpdate):
    r"""Several sweeps of :class:`AtomUpdate` over the same statistics: monotone, and one pass over the data for all.

    The sweeps approach the dictionary of least weighted error for fixed codes under unit norms.

    Parameters
    ----------
    n_sweeps : int, default=3
        How often to go through all atoms.  On digits the third sweep gains less than a millionth of the first.
    max_coherence : float, default=0.99
        A sample that resembles an atom more than this does not replace another one.
    outlier_fraction : float, default=0.01
        This share of the samples, those with the largest error, never become atoms.

    Examples
    --------
    >>> import numpy as np
    >>> from ddlearn.codes import RowCodes
    >>> update = BlockCoordinateUpdate()
    >>> X, codes = np.array([[3.0, 4.0]]), RowCodes(np.zeros((1, 1), np.int32), np.ones((1, 1)))
    >>> statistics = update.statistics(X, codes, np.ones(1), 2)
    >>> update.update_from(statistics + statistics, np.eye(2))[0]
    array([[0.6, 0.8],
           [0. , 1. ]])
    """

    def __init__(self, *, n_sweeps: int = 3, max_coherence: float = 0.99, outlier_fraction: float = 0.01):
        super().__init__(max_coherence=max_coherence, outlier_fraction=outlier_fraction)
        self.n_sweeps = n_sweeps

    def update_from(self, statistics: CodeStatistics, dictionary: Array) -> tuple[Array, Array]:
        return _sweep_atoms(statistics, dictionary, self.n_sweeps), np.ones(len(dictionary), dtype=dictionary.dtype)


# Below this norm an atom of the least squares solution has vanished, and no scale of its codes could make up for it.
_VANISHED = 1e-6


class MODUpdate(AdditiveUpdate):
    r"""Method of optimal directions: all atoms at once by weighted least squares, then normalised.

    .. math:: D = (A + \epsilon I)^{-1} (B + \epsilon D_{old}), \qquad
        A = \sum_i \sigma_i^{-2} x_i x_i^T,\; B = \sum_i \sigma_i^{-2} x_i y_i^T,

    with a tiny :math:`\epsilon` that leaves an atom where it was when the samples do not determine it.  The norm of
    each new atom moves into its codes, so the reconstruction is that of the least squares solution; classifier
    coefficients divided by the returned ``atom_scale`` leave the margins as they were, and then the MAP objective
    cannot rise.  Where least squares makes an atom vanish, the sweep of :class:`AtomUpdate` takes the place of
    the whole solution.

    Parameters
    ----------
    max_coherence : float, default=0.99
        A sample that resembles an atom more than this does not replace another one.
    outlier_fraction : float, default=0.01
        This share of the samples, those with the largest error, never become atoms.

    Examples
    --------
    >>> import numpy as np
    >>> from ddlearn.codes import RowCodes
    >>> codes = RowCodes(np.zeros((2, 1), np.int32), np.ones((2, 1)))
    >>> X = np.array([[6.0, 0.0], [0.0, 8.0]])
    >>> updated = MODUpdate().update(X, codes, np.array([[1.0, 0.0]]), np.ones(2), np.random.RandomState(0))
    >>> updated.dictionary.round(6), updated.atom_scale.round(6)
    (array([[0.6, 0.8]]), array([5.]))
    """

    updates_codes = True

    def update_from(self, statistics: CodeStatistics, dictionary: Array) -> tuple[Array, Array]:
        dtype = dictionary.dtype
        total = float(np.trace(statistics.code_gram))
        if total == 0:  # no codes
            return dictionary.copy(), np.ones(len(dictionary), dtype=dtype)
        # Above the rounding errors of the sums. Pulling towards the old atoms and not towards zero is what keeps the
        # update monotone.
        ridge = 100 * np.finfo(dtype).eps * total
        factor = cho_factor(statistics.code_gram + ridge * np.eye(len(dictionary)))
        solution = cho_solve(factor, statistics.data_sums + ridge * dictionary.astype(np.float64))
        scale = np.linalg.norm(solution, axis=1)
        if scale.min() < _VANISHED:
            return _sweep_atoms(statistics, dictionary, 1), np.ones(len(dictionary), dtype=dtype)
        return (solution / scale[:, None]).astype(dtype), scale.astype(dtype)
