"""Atoms that are no use, unused or nearly the same as another, are replaced by badly represented samples."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ..codes import RowCodes
from ..objective import measure_residuals
from ..parallel import single_threaded_blas
from .interface import (
    Array,
    DictionaryUpdate,
    RandomNumbers,
    UpdatedDictionary,
)


def count_users(codes: RowCodes, n_components: int) -> NDArray[np.intp]:
    """Return how many samples use each atom."""
    return np.bincount(codes.indices[codes.values != 0], minlength=n_components)


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


@dataclass(frozen=True)
class WorstSamples:
    """The worst represented of some samples, worst first.  The sum of two is the worst of both."""

    n_wanted: int
    errors: Array  # (n,) squared residuals
    rows: NDArray[np.intp]  # (n,)
    samples: Array  # (n, n_features)

    @classmethod
    def find(cls, X: Array, errors: Array, first_row: int, n_wanted: int, largest_error: float) -> WorstSamples:
        """Return the worst of a block of samples, but for those that are worse than allowed."""
        allowed = np.flatnonzero(errors <= largest_error)
        rows = allowed[np.argsort(-errors[allowed], kind="stable")[:n_wanted]]
        return cls(n_wanted, errors[rows], first_row + rows, np.asarray(X[rows]))

    def __add__(self, other: WorstSamples) -> WorstSamples:
        errors = np.concatenate([self.errors, other.errors])
        rows = np.concatenate([self.rows, other.rows])
        samples = np.concatenate([self.samples, other.samples])
        order = np.lexsort((rows, -errors))[: self.n_wanted]
        return WorstSamples(self.n_wanted, errors[order], rows[order], samples[order])


def rank_of_worst(n_samples: int, outlier_fraction: float) -> int:
    """Return how many samples have a lower error than the worst that may become an atom."""
    return n_samples - 1 - int(outlier_fraction * n_samples)


# What looks for samples of large error: from the share of outliers and how many are wanted.
FindWorst = Callable[[float, int], WorstSamples]

# Samples looked at for each atom to be replaced: those that resemble an atom are passed over.
_CANDIDATES_PER_ATOM = 10


class MaintainedUpdate(DictionaryUpdate):
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
        usage = count_users(codes, len(dictionary))
        unused = np.flatnonzero(usage == 0)
        duplicates = twins = np.empty(0, dtype=np.intp)
        if not self.is_monotone:
            duplicates, twins = _find_duplicates(dictionary, usage, self.max_coherence)
        useless = np.concatenate([unused, duplicates])
        if useless.size == 0:
            return useless
        former = dictionary.copy()

        def find_worst(outlier_fraction: float, n_wanted: int) -> WorstSamples:
            errors = measure_residuals(X, codes, dictionary, n_jobs)
            rank = rank_of_worst(len(errors), outlier_fraction)
            return WorstSamples.find(X, errors, 0, n_wanted, np.partition(errors, rank)[rank])

        n_found = self._insert_samples(find_worst, dictionary, useless)
        n_duplicates = max(n_found - len(unused), 0)  # for the others there was no sample worth an atom: they stay
        if n_duplicates:
            _hand_over(codes, former, duplicates[:n_duplicates], twins[:n_duplicates])
        return np.sort(useless[:n_found])

    def replace_unused(
        self, dictionary: Array, unused: NDArray[np.intp], find_worst: FindWorst
    ) -> tuple[Array, NDArray[np.intp]]:
        """Return a dictionary with badly represented samples in the places of atoms, and which of them were replaced.

        Parameters
        ----------
        dictionary : ndarray of shape (n_components, n_features)
            The atoms.
        unused : ndarray of int
            Those that no sample uses.
        find_worst : callable
            From a share of outliers and a number, so many of the worst samples, wherever they are.

        Returns
        -------
        dictionary : ndarray of shape (n_components, n_features)
            The new atoms.
        replaced : ndarray of int
            As far as there were samples worth an atom.
        """
        dictionary = dictionary.copy()
        n_found = self._insert_samples(find_worst, dictionary, unused) if unused.size else 0
        return dictionary, unused[:n_found]

    def _insert_samples(self, find_worst: FindWorst, dictionary: Array, useless: NDArray[np.intp]) -> int:
        """Put samples of large error in the places of ``useless`` atoms, in order; return how many were found.

        The error counts unweighted, because the scales make the weighted one the same for all samples.  The very worst
        samples are passed over: they are as a rule outliers, and an atom of their own would serve nobody else.
        """
        worst = find_worst(self.outlier_fraction, _CANDIDATES_PER_ATOM * len(useless))
        dtype = dictionary.dtype
        remaining = dictionary.copy()
        remaining[useless] = 0
        n_found = 0
        for error, sample in zip(worst.errors, worst.samples, strict=True):
            energy = float(np.linalg.norm(sample)) ** 2
            if error <= np.finfo(dtype).eps * energy or energy == 0:
                continue  # represented as well as can be
            atom = sample / dtype.type(np.sqrt(energy))
            if np.abs(remaining @ atom).max() <= self.max_coherence:
                place = useless[n_found]
                dictionary[place] = remaining[place] = atom
                n_found += 1
                if n_found == len(useless):
                    break
        return n_found
