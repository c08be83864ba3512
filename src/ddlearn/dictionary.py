r"""The dictionary step of the paper (Section 3.2, line "update D" of Algorithm 2): initial atoms and their update.

Given the codes :math:`x_i` of the samples :math:`y_i`, the atoms :math:`d_k` (unit norm) shall lower

.. math:: \sum_i \frac{1}{\sigma_i^2} \Big\| y_i - \sum_k x_{ik} d_k \Big\|_2^2 ,

the dictionary's part of the MAP objective (Eq. 3).  The paper prints one sweep of approximate K-SVD, which ignores the
:math:`\sigma_i` and changes the codes, so it can raise the objective.  The strategies here are that
sweep and those that use the weights, keep the codes, or both.  In code :math:`1/\sigma_i^2` is ``precision``, rows are
samples and atoms, and codes are :class:`~ddlearn.codes.RowCodes`.
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve, eigh
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, clone

from . import _ksvd_kernel as kernel
from .blocks import effective_n_jobs, map_blocks, single_threaded_blas
from .codes import RowCodes
from .objective import measure_residuals
from .strategies import report_problems

__all__ = [
    "DICTIONARY_UPDATES",
    "INITIAL_DICTIONARIES",
    "AtomUpdate",
    "BlockCoordinateUpdate",
    "CodeStatistics",
    "DictionaryUpdate",
    "ExactKSVDUpdate",
    "KSVDUpdate",
    "MODUpdate",
    "UpdatedDictionary",
    "WeightedKSVDUpdate",
    "check_dictionary_update",
    "init_dictionary",
    "resolve_dictionary_update",
]

Array = NDArray[np.floating]
# Both of NumPy's kinds serve: only methods that they share are called.
RandomNumbers = np.random.RandomState | np.random.Generator


# ---------------------------------------------------------------------------------------------------------------------
# Initial dictionaries
# ---------------------------------------------------------------------------------------------------------------------

# How strongly a combination of samples is disturbed where there are fewer samples than atoms, relative to its norm.
_FILLER_NOISE = 0.1


def _order_by_turns(class_index: NDArray[np.integer], rng: RandomNumbers) -> NDArray[np.intp]:
    """Return all rows: a random one of each class in turn, the classes' order drawn by lot; unlabelled rows last."""
    shuffled = rng.permutation(len(class_index))
    by_class = shuffled[np.argsort(class_index[shuffled], kind="stable")]
    classes, first, class_of_row = np.unique(class_index[by_class], return_index=True, return_inverse=True)
    turn = np.arange(len(by_class)) - first[class_of_row]
    lot = rng.permutation(len(classes))[class_of_row]
    return by_class[np.lexsort((lot, turn, class_index[by_class] < 0))]


def _line_of(direction: Array) -> bytes:
    """Return a key that two unit vectors share when they span the same line, to five digits."""
    sign = np.sign(direction[np.argmax(np.abs(direction))])
    return (np.round(sign * direction, 5) + 0.0).tobytes()  # adding zero turns -0.0 into 0.0


def _draw_samples(X: Array, class_index: NDArray[np.integer], n_components: int, rng: RandomNumbers) -> Array:
    lines: dict[bytes, Array] = {}
    for row in _order_by_turns(class_index, rng):
        sample = np.asarray(X[row], dtype=np.float64)
        norm = np.linalg.norm(sample)
        if norm > 0:
            lines.setdefault(_line_of(sample / norm), sample / norm)
        if len(lines) == n_components:
            break
    atoms = np.array(list(lines.values())).reshape(-1, X.shape[1])
    return np.concatenate([atoms, _combine(atoms, n_components - len(atoms), rng)])


def _combine(atoms: Array, n_combinations: int, rng: RandomNumbers) -> Array:
    """Return disturbed random combinations of two atoms each; without atoms, the disturbance alone."""
    n_atoms, n_features = atoms.shape
    combined = _FILLER_NOISE / np.sqrt(n_features) * rng.standard_normal((n_combinations, n_features))
    for _ in range(2 if n_atoms else 0):
        combined += rng.standard_normal((n_combinations, 1)) * atoms[rng.choice(n_atoms, n_combinations)]
    return combined


def _draw_gaussian(X: Array, class_index: NDArray[np.integer], n_components: int, rng: RandomNumbers) -> Array:
    return rng.standard_normal((n_components, X.shape[1]))


INITIAL_DICTIONARIES: dict[str, Callable[[Array, NDArray[np.integer], int, RandomNumbers], Array]] = {
    "samples": _draw_samples,
    "gaussian": _draw_gaussian,
}


def _check_given_dictionary(init: ArrayLike, shape: tuple[int, int]) -> Array:
    atoms = np.array(init, dtype=np.float64)
    if atoms.shape != shape:
        raise ValueError(
            f"init has shape {atoms.shape}, but n_components={shape[0]} atoms of n_features={shape[1]} are needed: "
            f"pass an array of shape {shape}, one atom in each row."
        )
    if not np.isfinite(atoms).all():
        raise ValueError(f"Row {np.argwhere(~np.isfinite(atoms))[0, 0]} of init holds NaN or infinity.")
    is_zero = ~atoms.any(axis=1)
    if is_zero.any():
        raise ValueError(f"Row {np.argmax(is_zero)} of init is zero: an atom needs a direction.")
    return atoms


def init_dictionary(
    init: str | ArrayLike, X: Array, class_index: NDArray[np.integer] | None, n_components: int, rng: RandomNumbers
) -> Array:
    """Return the atoms to start from.

    Parameters
    ----------
    init : {"samples", "gaussian"} or array-like of shape (n_components, n_features)
        "samples" draws training samples, the same number from each class (one more or less when it does not divide), no
        direction twice and no zero rows; unlabelled samples only when there are too few labelled ones.  When
        the samples run out, the remaining atoms are random combinations of two samples, disturbed by a tenth of
        Gaussian noise.  "gaussian" draws zero-mean Gaussian vectors.  An array is taken as it is.
    X : ndarray of shape (n_samples, n_features)
        The training samples.
    class_index : ndarray of shape (n_samples,) of int, or None
        The class of each sample, -1 for an unlabelled one; None when there are no classes.
    n_components : int
        How many atoms to return.
    rng : numpy.random.RandomState or numpy.random.Generator
        Source of randomness.

    Returns
    -------
    ndarray of shape (n_components, n_features)
        Atoms of unit norm, in the dtype of ``X``.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 2.0], [3.0, 0.0], [0.0, 0.0]])
    >>> np.sort(init_dictionary("samples", X, np.array([0, 1, 1]), 2, np.random.RandomState(0)), axis=0)
    array([[0., 0.],
           [1., 1.]])
    """
    if isinstance(init, str):
        if init not in INITIAL_DICTIONARIES:
            raise ValueError(
                f"init={init!r} is not known; choose one of {sorted(INITIAL_DICTIONARIES)} or pass an array."
            )
        if class_index is None:
            class_index = np.zeros(X.shape[0], dtype=np.intp)
        atoms = INITIAL_DICTIONARIES[init](X, class_index, n_components, rng)
    else:
        atoms = _check_given_dictionary(init, (n_components, X.shape[1]))
    # Divided by the largest entry first, so that the norm of a very long or very short row can be computed.
    atoms = atoms / np.abs(atoms).max(axis=1, keepdims=True)
    return (atoms / np.linalg.norm(atoms, axis=1, keepdims=True)).astype(X.dtype)


# ---------------------------------------------------------------------------------------------------------------------
# What an update returns, and what additive ones are computed from
# ---------------------------------------------------------------------------------------------------------------------


class UpdatedDictionary(NamedTuple):
    """What a dictionary update returns.

    Parameters
    ----------
    dictionary : ndarray of shape (n_components, n_features)
        The new atoms, of unit norm.
    codes : RowCodes
        The codes that belong to them.
    replaced : ndarray of int
        The atoms that were replaced by samples.  No code uses them any more, so their classifier coefficients are free.
    atom_scale : ndarray of shape (n_components,)
        The factor by which the codes of each atom were multiplied to make up for the norm of its update.  Classifier
        coefficients divided by it leave every score as it was.  All ones, unless the update rescales.

    Examples
    --------
    >>> import numpy as np
    >>> from ddlearn.codes import RowCodes
    >>> codes = RowCodes(np.array([[0], [1]], np.int32), np.ones((2, 1)))
    >>> X, rng = np.array([[1.0, 0.0], [3.0, 4.0]]), np.random.RandomState(0)
    >>> updated = AtomUpdate().update(X, codes, np.eye(2), np.ones(2), rng)
    >>> updated.dictionary
    array([[1. , 0. ],
           [0.6, 0.8]])
    >>> updated.replaced.size
    0
    """

    dictionary: Array
    codes: RowCodes
    replaced: NDArray[np.intp]
    atom_scale: Array


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


# ---------------------------------------------------------------------------------------------------------------------
# The interface
# ---------------------------------------------------------------------------------------------------------------------


class DictionaryUpdate(BaseEstimator, ABC):
    r"""One step that improves the atoms, given codes.

    Subclasses implement :meth:`update`, which must not change its arguments, and declare what it promises.  A class
    need not derive from this one: an object with such a method is an update.  :func:`check_dictionary_update` says
    what is wrong with one.

    Attributes
    ----------
    updates_codes : bool
        The values of the codes change too.  Their support never does, but that users of a replaced near-duplicate
        atom go over to its twin.
    is_weighted : bool
        The error is weighted by ``precision``.
    is_monotone : bool
        The weighted error never rises, and neither does the rest of the objective: the margins stay as they are (after
        the classifiers' coefficients have been divided by ``atom_scale``).
    is_additive : bool
        There are ``statistics(X, codes, precision, n_components)``, of blocks of samples, to be added, and
        ``update_from(statistics, dictionary)``, which returns the dictionary and the ``atom_scale``.

    Examples
    --------
    >>> import numpy as np
    >>> from ddlearn.dictionary import DictionaryUpdate, UpdatedDictionary, resolve_dictionary_update
    >>> class Frozen(DictionaryUpdate):
    ...     is_monotone = True
    ...     def update(self, X, codes, dictionary, precision, rng, *, n_jobs=None):
    ...         return UpdatedDictionary(dictionary, codes, np.empty(0, int), np.ones(len(dictionary), X.dtype))
    >>> resolve_dictionary_update(Frozen())
    Frozen()
    """

    updates_codes = False
    is_weighted = False
    is_monotone = False
    is_additive = False

    @abstractmethod
    def update(
        self,
        X: Array,
        codes: RowCodes,
        dictionary: Array,
        precision: Array,
        rng: RandomNumbers,
        *,
        n_jobs: int | None = None,
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
        rng : numpy.random.RandomState or numpy.random.Generator
            For strategies that draw random numbers; those of this module do not.
        n_jobs : int or None, default=None
            How many threads, after joblib's conventions.  The result does not depend on it.

        Returns
        -------
        UpdatedDictionary
            New arrays, in the dtype of ``X``.
        """


def _count_users(codes: RowCodes, n_components: int) -> NDArray[np.intp]:
    return np.bincount(codes.indices[codes.values != 0], minlength=n_components)


def _sum_data(X: Array, codes: RowCodes, weights: Array, n_components: int, n_jobs: int | None) -> Array:
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


def _find_duplicates(
    dictionary: Array, usage: NDArray[np.intp], max_coherence: float
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the used atoms that nearly coincide with an atom used more, least used first, and those atoms."""
    used = np.flatnonzero(usage)
    ranked = used[np.argsort(-usage[used], kind="stable")]
    unit = dictionary[ranked].astype(np.float32)  # single precision is enough for a comparison with 0.99
    resembles = np.tril(np.abs(unit @ unit.T) > max_coherence, -1)
    is_kept = np.ones(len(ranked), dtype=bool)
    for position in np.flatnonzero(resembles.any(axis=1)):  # who resembles only atoms that go may stay
        is_kept[position] = not (resembles[position] & is_kept).any()
    twins = [np.flatnonzero(row)[0] for row in (resembles & is_kept)[~is_kept]]
    return ranked[~is_kept][::-1], ranked[np.array(twins, dtype=np.intp)][::-1]


def _hand_over(codes: RowCodes, dictionary: Array, atoms: NDArray[np.intp], twins: NDArray[np.intp]) -> None:
    """Give the coefficients of atoms to their twins, in place: nearly the same reconstructions without those atoms."""
    n_components = len(dictionary)
    factor = np.vecdot(dictionary[atoms], dictionary[twins])
    kept = np.setdiff1d(np.arange(n_components), atoms)
    handover = csr_array(
        (
            np.concatenate([np.ones(len(kept), factor.dtype), factor]),
            (np.concatenate([kept, atoms]), np.concatenate([kept, twins])),
        ),
        shape=(n_components, n_components),
    )
    handed = RowCodes.from_csr(codes.to_csr(n_components) @ handover, codes.indices.shape[1], codes.values.dtype)
    codes.indices[:] = handed.indices
    codes.values[:] = handed.values


# Samples looked at for each atom to be replaced: those that resemble an atom are passed over.
_CANDIDATES_PER_ATOM = 10


class _MaintainedUpdate(DictionaryUpdate):
    """Improve the atoms by :meth:`_improve`, then replace those that are no use.

    An atom that no sample uses is replaced by a badly represented sample, and so is the lesser used of two atoms that
    nearly coincide, unless the update is monotone: to take away an atom in use can raise the error.
    """

    def __init__(self, *, max_coherence: float = 0.99, outlier_fraction: float = 0.01):
        self.max_coherence = max_coherence
        self.outlier_fraction = outlier_fraction

    def update(
        self,
        X: Array,
        codes: RowCodes,
        dictionary: Array,
        precision: Array,
        rng: RandomNumbers,
        *,
        n_jobs: int | None = None,
    ) -> UpdatedDictionary:
        X = np.asarray(X)  # a memory map without its subclass, which Numba does not know
        if X.dtype not in (np.float32, np.float64):
            raise TypeError(f"X has dtype {X.dtype}; convert it to float32 or float64.")
        dictionary = np.array(dictionary, dtype=X.dtype, order="C")
        codes = RowCodes(
            np.array(codes.indices, dtype=np.int32, order="C"), np.array(codes.values, dtype=X.dtype, order="C")
        )
        # The matrices here are small: more BLAS threads bring little, and on a busy machine they cost tenfold.
        with single_threaded_blas():
            atom_scale = self._improve(X, codes, dictionary, precision, n_jobs)
            replaced = self._replace_atoms(X, codes, dictionary, n_jobs)
        return UpdatedDictionary(dictionary, codes, replaced, atom_scale)

    @abstractmethod
    def _improve(self, X: Array, codes: RowCodes, dictionary: Array, precision: Array, n_jobs: int | None) -> Array:
        """Improve ``dictionary`` (and the values of ``codes``) in place; return ``atom_scale``."""

    def _replace_atoms(self, X: Array, codes: RowCodes, dictionary: Array, n_jobs: int | None) -> NDArray[np.intp]:
        usage = _count_users(codes, len(dictionary))
        unused = np.flatnonzero(usage == 0)
        duplicates = twins = np.empty(0, dtype=np.intp)
        if not self.is_monotone:
            duplicates, twins = _find_duplicates(dictionary, usage, self.max_coherence)
        useless = np.concatenate([unused, duplicates])
        if useless.size == 0:
            return useless
        errors = measure_residuals(X, codes, dictionary, n_jobs)
        former = dictionary.copy()
        n_found = self._insert_samples(X, errors, dictionary, useless)
        n_duplicates = max(n_found - len(unused), 0)  # for the others there was no sample worth an atom: they stay
        if n_duplicates:
            _hand_over(codes, former, duplicates[:n_duplicates], twins[:n_duplicates])
        return np.sort(useless[:n_found])

    def _insert_samples(self, X: Array, errors: Array, dictionary: Array, useless: NDArray[np.intp]) -> int:
        """Put samples of large error in the places of ``useless`` atoms, in order; return how many were found.

        The error counts unweighted, because the scales make the weighted one the same for all samples.  The very worst
        samples are passed over: they are as a rule outliers, and an atom of their own would serve nobody else.
        """
        worst_first = np.argsort(-errors, kind="stable")[int(self.outlier_fraction * len(errors)) :]
        remaining = dictionary.copy()
        remaining[useless] = 0
        n_found = 0
        for row in worst_first[: _CANDIDATES_PER_ATOM * len(useless)]:
            energy = float(np.linalg.norm(X[row])) ** 2
            if errors[row] <= np.finfo(X.dtype).eps * energy or energy == 0:
                continue  # represented as well as can be
            atom = X[row] / X.dtype.type(np.sqrt(energy))
            if np.abs(remaining @ atom).max() <= self.max_coherence:
                place = useless[n_found]
                dictionary[place] = remaining[place] = atom
                n_found += 1
                if n_found == len(useless):
                    break
        return n_found


# ---------------------------------------------------------------------------------------------------------------------
# K-SVD
# ---------------------------------------------------------------------------------------------------------------------


def _scale_to_one(precision: Array, dtype: np.dtype) -> Array:
    """Return the precisions relative to their largest: only ratios matter, and these fit in any dtype."""
    precision = np.asarray(precision, dtype=np.float64)
    return (precision / max(precision.max(initial=0), np.finfo(np.float64).tiny)).astype(dtype)


def _index_users(codes: RowCodes, n_components: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return ``starts`` and ``users``: the rows that use atom k are ``users[starts[k]:starts[k + 1]]``."""
    starts = np.zeros(n_components + 1, dtype=np.int64)
    users = np.empty(codes.values.size, dtype=np.int64)
    kernel.index_users(*codes, starts, users)
    return starts, users


class KSVDUpdate(_MaintainedUpdate):
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
        weights = _scale_to_one(precision if self.is_weighted else np.ones(X.shape[0]), X.dtype)
        data_sums = _sum_data(X, codes, weights, n_components, n_jobs)
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
        kernel.drop_zeros(*codes)
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


class ExactKSVDUpdate(_MaintainedUpdate):
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
        kernel.drop_zeros(*codes)
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


# ---------------------------------------------------------------------------------------------------------------------
# Updates with fixed codes, from additive statistics
# ---------------------------------------------------------------------------------------------------------------------


class _AdditiveUpdate(_MaintainedUpdate):
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
        return CodeStatistics(code_gram, _sum_data(X, codes, weights, n_components, n_jobs))

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
        weights = _scale_to_one(precision, X.dtype)
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


class AtomUpdate(_AdditiveUpdate):
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


class BlockCoordinateUpdate(_AdditiveUpdate):
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


class MODUpdate(_AdditiveUpdate):
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


DICTIONARY_UPDATES: dict[str, type[DictionaryUpdate]] = {
    "ksvd": KSVDUpdate,
    "exact_ksvd": ExactKSVDUpdate,
    "weighted_ksvd": WeightedKSVDUpdate,
    "atom": AtomUpdate,
    "block_coordinate": BlockCoordinateUpdate,
    "mod": MODUpdate,
}


def resolve_dictionary_update(update: str | DictionaryUpdate) -> DictionaryUpdate:
    """Return the dictionary update of that registered name, or the object itself.

    Parameters
    ----------
    update : str or DictionaryUpdate
        A key of ``DICTIONARY_UPDATES``, or an object with a method ``update``.

    Returns
    -------
    DictionaryUpdate
        The update object.

    Examples
    --------
    >>> resolve_dictionary_update("atom")
    AtomUpdate()
    """
    if isinstance(update, str):
        if update not in DICTIONARY_UPDATES:
            raise ValueError(
                f"dictionary_update={update!r} is not known; choose one of {sorted(DICTIONARY_UPDATES)} "
                "or pass a DictionaryUpdate object."
            )
        return DICTIONARY_UPDATES[update]()
    if isinstance(update, type) or not callable(getattr(update, "update", None)):
        raise TypeError(
            f"dictionary_update={update!r} cannot serve as a dictionary update: it must be a name from "
            f"{sorted(DICTIONARY_UPDATES)} or an object (not a class) with the method update."
        )
    return update


# ---------------------------------------------------------------------------------------------------------------------
# The conformance check
# ---------------------------------------------------------------------------------------------------------------------


class _Problem(NamedTuple):
    """The arguments of an update, but for the random numbers."""

    X: Array
    codes: RowCodes
    dictionary: Array
    precision: Array


def _make_problem(dtype: type[np.floating]) -> _Problem:
    """Return a problem with all that happens: unequal precisions, a zero sample, an unused atom, nearly equal atoms."""
    rng = np.random.RandomState(0)
    n_samples, n_features, n_components = 80, 6, 9
    dictionary = rng.standard_normal((n_components, n_features))
    dictionary[1] = dictionary[0] + 0.01 * dictionary[1]
    dictionary /= np.linalg.norm(dictionary, axis=1, keepdims=True)
    dense = rng.standard_normal((n_samples, n_components))
    dense[:, -1] = 0
    dense[rng.standard_normal(dense.shape).argsort(axis=1) > 1] = 0
    X = dense @ dictionary + 0.3 * rng.standard_normal((n_samples, n_features))
    X[3] = dense[3] = 0
    codes = RowCodes.empty(n_samples, 2, dtype)
    for row, code in enumerate(dense):
        support = np.flatnonzero(code)
        codes.indices[row, : len(support)] = support
        codes.values[row, : len(support)] = code[support]
    return _Problem(X.astype(dtype), codes, dictionary.astype(dtype), rng.uniform(0.2, 5, n_samples).astype(dtype))


def _run(update: DictionaryUpdate, problem: _Problem) -> UpdatedDictionary:
    return update.update(*problem, np.random.RandomState(0), n_jobs=1)


def _weighted_error(problem: _Problem, codes: RowCodes, dictionary: Array) -> float:
    residuals = problem.X - codes.to_csr(len(dictionary)) @ dictionary
    return float(problem.precision @ (residuals**2).sum(axis=1))


def _find_form_problems(update: DictionaryUpdate, dtype: type[np.floating]) -> Iterator[str]:
    problem = _make_problem(dtype)
    result = _run(update, problem)
    untouched = _make_problem(dtype)
    for name, given, kept in zip(
        ("X", "codes.indices", "codes.values", "dictionary", "precision"),
        (problem.X, *problem.codes, *problem[2:]),
        (untouched.X, *untouched.codes, *untouched[2:]),
        strict=True,
    ):
        if not np.array_equal(given, kept):
            yield f"update changes its argument {name} in place; work on a copy."
    try:
        new, codes, replaced, atom_scale = result
        shapes_agree = new.shape == problem.dictionary.shape and codes.values.shape == problem.codes.values.shape
        shapes_agree &= atom_scale.shape == new.shape[:1] and np.asarray(replaced).ndim == 1
    except (TypeError, ValueError, AttributeError):
        shapes_agree = False
    if not shapes_agree:
        yield "update must return an UpdatedDictionary, its dictionary and codes in the shapes of the arguments."
        return
    for name, array in (("dictionary", new), ("codes.values", codes.values), ("atom_scale", atom_scale)):
        if array.dtype != dtype:
            yield f"{name} has dtype {array.dtype} for {np.dtype(dtype)} samples; keep the dtype of X."
        if not np.isfinite(array).all():
            yield f"{name} holds NaN or infinity."
    if not np.allclose(np.linalg.norm(new, axis=1), 1, atol=1e-5):
        yield "atoms are not of unit norm."
    if not np.array_equal(new, _run(update, problem).dictionary):
        yield "two calls with the same arguments and random numbers differ."


def _find_code_problems(update: DictionaryUpdate) -> Iterator[str]:
    problem = _make_problem(np.float64)
    new, codes, replaced, atom_scale = _run(update, problem)
    used = codes.values != 0
    if (used[:, 1:] & ~used[:, :-1]).any() or codes.indices[~used].any():
        yield "codes: unused places must come last in a row and hold index 0 and value 0."
    if (used[:, 1:] & (np.diff(codes.indices, axis=1) <= 0)).any():
        yield "codes: the indices of a row must ascend."
    before, after = problem.codes.to_csr(len(new)).toarray(), codes.to_csr(len(new)).toarray()
    if after[:, replaced].any():
        yield "codes still use replaced atoms; remove these entries."
    expected = before.copy()
    expected[:, replaced] = 0
    if ((after != 0) != (expected != 0)).any():
        yield "the support of the codes changed; only the entries of replaced atoms may go, and none may come."
    elif not getattr(update, "updates_codes", False) and not np.array_equal(after, expected):
        yield "values of the codes changed, but updates_codes is not set."
    if not (atom_scale > 0).all():
        yield "atom_scale is not positive: classifier coefficients could not be divided by it."
    if getattr(update, "is_monotone", False):
        old_error = _weighted_error(problem, problem.codes, problem.dictionary)
        new_error = _weighted_error(problem, codes, new)
        if new_error > old_error * (1 + 1e-10):
            yield f"is_monotone is set, but the weighted error rises from {old_error:.6g} to {new_error:.6g}."
        if not np.allclose(after / atom_scale, before):
            yield "is_monotone is set, but codes divided by atom_scale differ from the old ones: margins would change."


def _find_statistics_problems(update: Any) -> Iterator[str]:
    X, codes, dictionary, precision = _make_problem(np.float64)
    n_components = len(dictionary)
    whole = update.statistics(X, codes, precision, n_components)
    first, second = slice(0, 30), slice(30, None)
    halves = [update.statistics(X[part], codes.rows(part), precision[part], n_components) for part in (first, second)]
    from_whole, scale = update.update_from(whole, dictionary)
    from_halves, _ = update.update_from(halves[0] + halves[1], dictionary)
    if not np.allclose(from_whole, from_halves):
        yield "statistics do not add: two blocks give another dictionary than all samples at once."
    new, _, replaced, atom_scale = _run(update, _make_problem(np.float64))
    remaining = np.setdiff1d(np.arange(n_components), replaced)
    if not np.allclose(from_whole[remaining], new[remaining]) or not np.allclose(scale, atom_scale):
        yield "update_from gives another dictionary or another atom_scale than update."


def _find_copy_problems(update: DictionaryUpdate) -> Iterator[str]:
    def clone_update() -> DictionaryUpdate:
        return clone(update)

    def pickle_update() -> DictionaryUpdate:
        return pickle.loads(pickle.dumps(update))

    problem = _make_problem(np.float64)
    for word, copy_update in (("cloned", clone_update), ("pickled", pickle_update)):
        try:
            copy = copy_update()
        except Exception as error:  # a plug-in may fail in any way; the report names it
            yield (
                f"it cannot be {word} ({type(error).__name__}: {error}); derive from ddlearn.DictionaryUpdate, "
                "define it in a module."
            )
            continue
        if not np.array_equal(_run(copy, problem).dictionary, _run(update, problem).dictionary):
            yield f"its result changes when it is {word}: set all state from the constructor's parameters."


def check_dictionary_update(update: str | DictionaryUpdate) -> None:
    """Verify numerically that an object can serve as a dictionary update.

    Looks at shapes, dtypes and unit norms, at whether arguments and the support of the codes are left alone, at what
    the object declares (codes, monotone, additive), and at clone and pickle.

    Parameters
    ----------
    update : str or DictionaryUpdate
        The update to look at.

    Raises
    ------
    ValueError
        With one line for each thing that is wrong.

    Examples
    --------
    >>> check_dictionary_update("weighted_ksvd")
    """
    update = resolve_dictionary_update(update)
    problems = [*_find_form_problems(update, np.float64), *_find_form_problems(update, np.float32)]
    if not problems:  # of results of the wrong form nothing else can be said
        problems += _find_code_problems(update)
        if getattr(update, "is_additive", False):
            problems += _find_statistics_problems(update)
        problems += _find_copy_problems(update)
    report_problems(update, "dictionary update", problems)
