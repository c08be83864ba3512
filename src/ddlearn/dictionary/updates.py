r"""Dictionary updates: steps that lower the weighted error of the samples (Eq. 3), given their codes.

K-SVD (approximate as the paper prints it, or exact) changes one atom after another together with its codes.  The
additive updates leave the codes as they are: they need only the sums :math:`\sum_i \sigma_i^{-2} x_i x_i^T` and
:math:`\sum_i \sigma_i^{-2} x_i y_i^T` over the samples, and never raise the objective.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral, Real
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from ..kernels import sweep as kernel
from ..kernels.codes import order_rows
from ..model.codes import Floats, RowCodes
from ..model.strategies import Registry, Strategy, check_number
from ..parallel import effective_n_jobs, map_blocks, single_threaded_blas
from .upkeep import FindWorst, insert_samples, replace_useless


class UpdatedDictionary(NamedTuple):
    """Result of a dictionary update.

    Parameters
    ----------
    dictionary : ndarray of shape (n_components, n_features)
        The new atoms, of unit norm.
    codes : RowCodes
        The codes that belong to them.
    replaced : ndarray of int
        The atoms that were replaced by samples.  No code uses them any more, so their classifier coefficients are free.

    Examples
    --------
    >>> import numpy as np
    >>> from ddlearn import RowCodes, UpdatedDictionary
    >>> codes = RowCodes(np.array([[0], [1]], np.int32), np.ones((2, 1)))
    >>> UpdatedDictionary(np.eye(2), codes, replaced=np.empty(0, int)).replaced.size
    0
    """

    dictionary: Floats
    codes: RowCodes
    replaced: NDArray[np.intp]


class DictionaryUpdate(Strategy, ABC):
    r"""One step that improves the atoms, given codes.

    Your own update implements :meth:`update`, which must not change its arguments, and declares its properties;
    :func:`check_dictionary_update` tests both.

    Attributes
    ----------
    updates_codes : bool
        The values of the codes change too.  Their support never does, except that users of a replaced near-duplicate
        atom get its twin.
    is_monotone : bool
        The weighted error never rises, and codes, and with them margins, stay as they are: the objective cannot rise.
    is_additive : bool
        The update is an :class:`AdditiveUpdate`: a fit calls its methods on sums over the samples, not :meth:`update`.
    is_guarded : bool
        A fit undoes the update where it raises the objective: atoms and codes stay as they were.  The first update of
        a fit, which makes atoms of samples, belongs to its start, and is not undone.

    See Also
    --------
    AdditiveUpdate : Base class of updates that need only sums over the samples.

    Examples
    --------
    >>> import numpy as np
    >>> from ddlearn.dictionary import DictionaryUpdate, UpdatedDictionary, DICTIONARY_UPDATES
    >>> class Frozen(DictionaryUpdate):
    ...     is_monotone = True
    ...     def update(self, X, codes, dictionary, precision, *, n_jobs=None):
    ...         return UpdatedDictionary(dictionary, codes, np.empty(0, int))
    >>> DICTIONARY_UPDATES.resolve(Frozen())
    Frozen()
    """

    updates_codes = False
    is_monotone = False
    is_additive = False
    is_guarded = False

    @abstractmethod
    def update(
        self, X: Floats, codes: RowCodes, dictionary: Floats, precision: Floats, *, n_jobs: int | None = None
    ) -> UpdatedDictionary:
        r"""Return an improved dictionary and the codes that belong to it.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features), float32 or float64
            The samples; may be read-only or on disk.
        codes : RowCodes
            Their codes.
        dictionary : ndarray of shape (n_components, n_features)
            The atoms, of unit norm.
        precision : ndarray of shape (n_samples,)
            :math:`1 / \sigma_i^2`.
        n_jobs : int or None, default=None
            Number of threads, as in joblib.  The result does not depend on it.

        Returns
        -------
        UpdatedDictionary
            New arrays, in the dtype of ``X``.
        """


class UpdateWithUpkeep(DictionaryUpdate):
    """Improves the atoms, then replaces useless ones by badly represented samples: the base of this library's updates.

    Useless are atoms that no sample uses, and the less used of two near-duplicates, unless the update is monotone: to
    remove an atom in use can raise the error.  Parameters are those of :class:`AtomUpdate` but for ``n_sweeps``.
    """

    def __init__(self, *, max_coherence: float = 0.99, outlier_fraction: float = 0.01):
        self.max_coherence = max_coherence
        self.outlier_fraction = outlier_fraction

    def check_parameters(self) -> None:
        check_number("max_coherence", self.max_coherence, Real)
        check_number("outlier_fraction", self.outlier_fraction, Real, most=1)

    def update(
        self, X: Floats, codes: RowCodes, dictionary: Floats, precision: Floats, *, n_jobs: int | None = None
    ) -> UpdatedDictionary:
        X = np.asarray(X)  # a memory map without its subclass, which Numba does not know
        if X.dtype not in (np.float32, np.float64):
            raise TypeError(f"X has dtype {X.dtype}; convert it to float32 or float64.")
        dictionary = np.array(dictionary, dtype=X.dtype, order="C")
        indices = np.array(codes.indices, dtype=np.int32, order="C")
        codes = RowCodes(indices, np.array(codes.values, dtype=X.dtype, order="C"))
        # The matrices here are small: more BLAS threads gain little, and on a busy machine they are ten times slower.
        with single_threaded_blas():
            self._improve(X, codes, dictionary, precision, n_jobs)
            replaced = replace_useless(
                X, codes, dictionary, self.max_coherence, self.outlier_fraction, self.is_monotone, n_jobs
            )
        return UpdatedDictionary(dictionary, codes, replaced)

    @abstractmethod
    def _improve(self, X: Floats, codes: RowCodes, dictionary: Floats, precision: Floats, n_jobs: int | None) -> None:
        """Improve ``dictionary`` (and the values of ``codes``) in place."""


def _sum_data(X: Floats, codes: RowCodes, weights: Floats, n_components: int, n_jobs: int | None) -> Floats:
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


class KSVDUpdate(UpdateWithUpkeep):
    r"""Approximate K-SVD as the paper prints it: one sweep, no weights.

    For each atom in turn, with the residuals :math:`e_i` of its users without it:
    :math:`d \leftarrow \sum_i x_{ij} e_i`, normalised, then :math:`x_{ij} \leftarrow e_i^T d`.  The unweighted error
    never rises in the sweep.  The MAP objective may: the step ignores :math:`\sigma_i`, and new codes mean new margins.

    Parameters
    ----------
    max_coherence, outlier_fraction : float
        As for :class:`AtomUpdate`.

    Examples
    --------
    >>> KSVDUpdate().updates_codes, KSVDUpdate().is_monotone
    (True, False)
    """

    updates_codes = True

    def _improve(self, X: Floats, codes: RowCodes, dictionary: Floats, precision: Floats, n_jobs: int | None) -> None:
        n_components, n_features = dictionary.shape
        data_sums = _sum_data(X, codes, np.ones(len(X), X.dtype), n_components, n_jobs)
        starts, users = _index_users(codes, n_components)
        most_products = max(n_components, np.diff(starts).max(initial=0))
        direction, coupling = np.empty(n_features, X.dtype), np.empty(n_components, X.dtype)
        products = np.empty(most_products, X.dtype)
        seen, partners = np.full(n_components, -1, dtype=np.int64), np.empty(n_components, dtype=np.int64)
        workspace = direction, products, coupling, seen, partners
        kernel.sweep_ksvd(X, data_sums, starts, users, *codes, dictionary, *workspace)
        order_rows(*codes)  # values may have become zero


def _index_users(codes: RowCodes, n_components: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows that use each atom: those of atom k are ``users[starts[k]:starts[k + 1]]``."""
    starts, users = np.zeros(n_components + 1, np.int64), np.empty(codes.values.size, np.int64)
    kernel.index_users(*codes, starts, users)
    return starts, users


class GuardedKSVDUpdate(KSVDUpdate):
    """Approximate K-SVD, undone by a fit where it would raise the objective.

    To improve the atoms with the weights of the noise instead, as :class:`AtomUpdate` does, would lower the objective
    further, but by a few samples that are represented ever better than the others, and predicts worse.
    """

    is_guarded = True


class ExactKSVDUpdate(UpdateWithUpkeep):
    r"""K-SVD with the best rank-one approximation of each atom's residuals, no weights.

    For each atom in turn, the residuals :math:`e_i` of its users without it are the rows of a matrix; :math:`d` becomes
    its first right singular vector, and :math:`x_{ij} = e_i^T d`.  The sign is the one that changes the codes less: a
    flipped atom would flip its share of every margin.

    Parameters
    ----------
    max_coherence, outlier_fraction : float
        As for :class:`AtomUpdate`.

    Examples
    --------
    >>> ExactKSVDUpdate().updates_codes
    True
    """

    updates_codes = True

    def _improve(self, X: Floats, codes: RowCodes, dictionary: Floats, precision: Floats, n_jobs: int | None) -> None:
        starts, users = _index_users(codes, len(dictionary))
        for atom in np.flatnonzero(np.diff(starts)):
            self._improve_atom(atom, users[starts[atom] : starts[atom + 1]], X, codes, dictionary)
        order_rows(*codes)  # values may have become zero

    @staticmethod
    def _improve_atom(atom: np.intp, rows: NDArray[np.int64], X: Floats, codes: RowCodes, dictionary: Floats) -> None:
        # At most n_features residuals at a time: those of a popular atom would be as large as X.
        blocks = [rows[start : start + X.shape[1]] for start in range(0, len(rows), X.shape[1])]
        direction = _leading_direction(_residuals_without(atom, block, X, codes, dictionary) for block in blocks)
        norm = np.linalg.norm(direction)
        if norm > 0:
            dictionary[atom] = direction / norm
        is_own = (codes.indices[rows] == atom) & (codes.values[rows] != 0)
        old = codes.values[rows][is_own]
        new = np.concatenate(
            [_residuals_without(atom, block, X, codes, dictionary) @ dictionary[atom] for block in blocks]
        )
        if old @ new < 0:
            dictionary[atom] *= -1
            new *= -1
        codes.values[rows[:, None], np.arange(is_own.shape[1])] = np.where(is_own, new[:, None], codes.values[rows])


def _residuals_without(
    atom: np.intp, rows: NDArray[np.int64], X: Floats, codes: RowCodes, dictionary: Floats
) -> Floats:
    indices, values = codes.rows(rows)
    residuals = X[rows]
    for place in range(indices.shape[1]):
        others = np.where(indices[:, place] == atom, 0, values[:, place])
        residuals -= others[:, None] * dictionary[indices[:, place]]
    return residuals


def _leading_direction(residual_blocks: Iterator[Floats]) -> Floats:
    """Return a multiple of the first right singular vector of the stacked blocks, from the smaller Gram matrix."""
    first, second = next(residual_blocks), next(residual_blocks, None)
    if second is None:
        return _leading_eigenvector(first @ first.T) @ first
    gram = first.T @ first + second.T @ second
    for block in residual_blocks:
        gram += block.T @ block
    return _leading_eigenvector(gram)


def _leading_eigenvector(gram: Floats) -> Floats:
    last = len(gram) - 1
    return eigh(gram, subset_by_index=[last, last])[1][:, 0]


@dataclass(frozen=True)
class CodeStatistics:
    """Sums over samples that determine the weighted error for fixed codes; those of two parts add with ``+``."""

    code_gram: Floats  # (n_components, n_components) A = sum_i x_i x_i' / sigma_i^2, float64
    data_sums: Floats  # (n_components, n_features) B = sum_i x_i y_i' / sigma_i^2

    def __add__(self, other: CodeStatistics) -> CodeStatistics:
        return CodeStatistics(self.code_gram + other.code_gram, self.data_sums + other.data_sums)


class AdditiveUpdate(UpdateWithUpkeep):
    """A monotone update that needs only sums over the samples, so that they may be in several places.

    Subclasses implement :meth:`update_from`.  One that overrides :meth:`update` instead must set ``is_additive`` to
    False, or a fit will not call it.

    Parameters
    ----------
    max_coherence, outlier_fraction : float
        As for :class:`AtomUpdate`.

    See Also
    --------
    DictionaryUpdate : Base class of all updates.

    Examples
    --------
    >>> from ddlearn.dictionary import AdditiveUpdate
    >>> class Frozen(AdditiveUpdate):
    ...     def update_from(self, statistics, dictionary):
    ...         return dictionary
    >>> Frozen().is_additive
    True
    """

    is_monotone = True
    is_additive = True

    def statistics(
        self, X: Floats, codes: RowCodes, precision: Floats, n_components: int, *, n_jobs: int | None = None
    ) -> CodeStatistics:
        """Return sums over some of the samples, which add with ``+``; arguments are those of :meth:`update`."""
        X = np.asarray(X)
        weights = np.asarray(precision, dtype=X.dtype)
        data_sums = _sum_data(X, codes, weights, n_components, n_jobs)
        code_gram = np.zeros((n_components, n_components))
        kernel.add_code_gram(*codes, weights, code_gram)
        return CodeStatistics(code_gram, data_sums)

    @abstractmethod
    def update_from(self, statistics: CodeStatistics, dictionary: Floats) -> Floats:
        """Return improved atoms of unit norm, from sums over all samples.

        Atoms that no sample uses stay as they are.
        """

    def replace_unused(
        self, dictionary: Floats, unused: NDArray[np.intp], find_worst: FindWorst
    ) -> tuple[Floats, NDArray[np.intp]]:
        """Return a dictionary with badly represented samples in place of unused atoms, and the atoms replaced.

        ``find_worst(outlier_fraction, n_wanted)`` returns the samples of largest error, without this share of outliers.
        Atoms stay if too few samples are worth an atom.
        """
        dictionary = dictionary.copy()
        n_found = 0
        if unused.size:
            n_found = insert_samples(find_worst, dictionary, unused, self.max_coherence, self.outlier_fraction)
        return dictionary, unused[:n_found]

    def _improve(self, X: Floats, codes: RowCodes, dictionary: Floats, precision: Floats, n_jobs: int | None) -> None:
        precision = np.asarray(precision, dtype=np.float64)
        # Only ratios matter, and those to the largest fit in any dtype.
        weights = (precision / max(precision.max(initial=0), np.finfo(np.float64).tiny)).astype(X.dtype)
        statistics = self.statistics(X, codes, weights, len(dictionary), n_jobs=n_jobs)
        dictionary[:] = self.update_from(statistics, dictionary)


class AtomUpdate(AdditiveUpdate):
    r"""Weighted update of one atom after another for fixed codes: monotone.

    With the residuals :math:`e_i` of the other atoms, :math:`d \leftarrow \sum_i \sigma_i^{-2} x_{ij} e_i`, normalised,
    is the unit vector of least weighted error for fixed codes.  Margins do not change, so the MAP objective cannot
    rise.  Several sweeps over the same sums approach the dictionary of least weighted error for fixed codes.

    Parameters
    ----------
    n_sweeps : int, default=1
        Number of sweeps over all atoms; 3 if registered as "block_coordinate".  On digits the third gains less than a
        millionth of the first.
    max_coherence : float, default=0.99
        Two atoms whose inner product exceeds this in size are near-duplicates.
    outlier_fraction : float, default=0.01
        Share of the samples, those of largest error, that never become atoms.

    Examples
    --------
    >>> import numpy as np
    >>> from ddlearn.model.codes import RowCodes
    >>> codes = RowCodes(np.zeros((2, 1), np.int32), np.ones((2, 1)))
    >>> X = np.array([[3.0, 0.0], [0.0, 4.0]])
    >>> updated = AtomUpdate().update(X, codes, np.array([[1.0, 0.0]]), np.ones(2))
    >>> updated.dictionary
    array([[0.6, 0.8]])
    >>> updated.codes.values.ravel()
    array([1., 1.])
    """

    def __init__(self, *, n_sweeps: int = 1, max_coherence: float = 0.99, outlier_fraction: float = 0.01):
        super().__init__(max_coherence=max_coherence, outlier_fraction=outlier_fraction)
        self.n_sweeps = n_sweeps

    def check_parameters(self) -> None:
        super().check_parameters()
        check_number("n_sweeps", self.n_sweeps, Integral)

    def update_from(self, statistics: CodeStatistics, dictionary: Floats) -> Floats:
        (n_components, n_features), dtype = dictionary.shape, dictionary.dtype
        dictionary = np.array(dictionary, order="C")
        workspace = np.empty(n_features, dtype), np.empty(n_components, dtype), np.empty(n_components, np.int64)
        for _ in range(self.n_sweeps):
            kernel.sweep_atoms(statistics.code_gram, statistics.data_sums, dictionary, *workspace)
        return dictionary


class BlockCoordinateUpdate(AtomUpdate):
    """Three sweeps of :class:`AtomUpdate` in one pass over the samples."""

    def __init__(self, *, n_sweeps: int = 3, max_coherence: float = 0.99, outlier_fraction: float = 0.01):
        super().__init__(n_sweeps=n_sweeps, max_coherence=max_coherence, outlier_fraction=outlier_fraction)


DICTIONARY_UPDATES: Registry[DictionaryUpdate] = Registry(
    "dictionary update",
    DictionaryUpdate,
    {
        "ksvd": KSVDUpdate,
        "guarded_ksvd": GuardedKSVDUpdate,
        "exact_ksvd": ExactKSVDUpdate,
        "atom": AtomUpdate,
        "block_coordinate": BlockCoordinateUpdate,
    },
    by_flag={"is_additive": AdditiveUpdate},
)
