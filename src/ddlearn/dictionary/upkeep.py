"""Atoms that are unused, or nearly equal to another one, are replaced by badly represented samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ..model.codes import Floats, RowCodes, measure_residuals

Positions = NDArray[np.intp]

# Samples considered for each atom to be replaced; those that resemble another atom are skipped.
_CANDIDATES_PER_ATOM = 10


def count_users(codes: RowCodes, n_components: int) -> Positions:
    """Return the number of samples that use each atom."""
    return np.bincount(codes.indices[codes.values != 0], minlength=n_components)


@dataclass(frozen=True)
class WorstSamples:
    """The samples of largest error, largest first.  The sum of two is the worst of both."""

    n_wanted: int
    errors: Floats  # (n,) squared residuals
    rows: Positions  # (n,)
    samples: Floats  # (n, n_features)

    @classmethod
    def find(cls, X: Floats, errors: Floats, first_row: int, n_wanted: int, largest_error: float) -> WorstSamples:
        """Return the worst samples of a part, except those whose error exceeds ``largest_error``."""
        allowed = np.flatnonzero(errors <= largest_error)
        rows = allowed[np.argsort(-errors[allowed], kind="stable")[:n_wanted]]
        return cls(n_wanted, errors[rows], first_row + rows, np.asarray(X[rows]))

    def __add__(self, other: WorstSamples) -> WorstSamples:
        errors = np.concatenate([self.errors, other.errors])
        rows = np.concatenate([self.rows, other.rows])
        samples = np.concatenate([self.samples, other.samples])
        order = np.lexsort((rows, -errors))[: self.n_wanted]
        return WorstSamples(self.n_wanted, errors[order], rows[order], samples[order])


# Finds samples of large error, from the share of outliers and the number of samples wanted.
FindWorst = Callable[[float, int], WorstSamples]


def rank_of_worst(n_samples: int, outlier_fraction: float) -> int:
    """Return the rank, counted from the smallest error, of the worst sample that may become an atom."""
    return n_samples - 1 - int(outlier_fraction * n_samples)


def insert_samples(
    find_worst: FindWorst, dictionary: Floats, useless: Positions, max_coherence: float, outlier_fraction: float
) -> int:
    """Overwrite the ``useless`` atoms, in order, by samples of large error; return the number of samples found.

    The error is not weighted, because the scales make the weighted error the same for all samples.  The very worst
    samples are skipped: most are outliers, and an atom of their own would serve no other sample.
    """
    worst = find_worst(outlier_fraction, _CANDIDATES_PER_ATOM * len(useless))
    dtype = dictionary.dtype
    remaining = dictionary.copy()
    remaining[useless] = 0
    n_found = 0
    for error, sample in zip(worst.errors, worst.samples, strict=True):
        energy = float(np.linalg.norm(sample)) ** 2
        if error <= np.finfo(dtype).eps * energy or energy == 0:
            continue  # represented as well as can be
        atom = sample / dtype.type(np.sqrt(energy))
        if np.abs(remaining @ atom).max() <= max_coherence:
            place = useless[n_found]
            dictionary[place] = remaining[place] = atom
            n_found += 1
            if n_found == len(useless):
                break
    return n_found


def _find_duplicates(dictionary: Floats, usage: Positions, max_coherence: float) -> tuple[Positions, Positions]:
    """Return the used atoms that nearly equal a more used one, least used first, and for each its twin."""
    used = np.flatnonzero(usage)
    ranked = used[np.argsort(-usage[used], kind="stable")]
    unit = dictionary[ranked].astype(np.float32)  # single precision is enough for a comparison with 0.99
    resembles = np.tril(np.abs(unit @ unit.T) > max_coherence, -1)
    is_kept = np.ones(len(ranked), dtype=bool)
    for position in np.flatnonzero(resembles.any(axis=1)):  # an atom that resembles only removed ones is kept
        is_kept[position] = not (resembles[position] & is_kept).any()
    twins = [np.flatnonzero(row)[0] for row in (resembles & is_kept)[~is_kept]]
    return ranked[~is_kept][::-1], ranked[np.array(twins, dtype=np.intp)][::-1]


def _hand_over(codes: RowCodes, dictionary: Floats, atoms: Positions, twins: Positions) -> None:
    """Move the coefficients of atoms to their twins, in place, which nearly keeps the reconstructions."""
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


def replace_useless(
    X: Floats,
    codes: RowCodes,
    dictionary: Floats,
    max_coherence: float,
    outlier_fraction: float,
    keeps_duplicates: bool,
    n_jobs: int | None,
) -> Positions:
    """Replace unused atoms, and unless they are kept the less used of near-duplicates, in place; return which."""
    usage = count_users(codes, len(dictionary))
    unused = np.flatnonzero(usage == 0)
    duplicates = twins = np.empty(0, dtype=np.intp)
    if not keeps_duplicates:
        duplicates, twins = _find_duplicates(dictionary, usage, max_coherence)
    useless = np.concatenate([unused, duplicates])
    if useless.size == 0:
        return useless
    former = dictionary.copy()

    def find_worst(outlier_fraction: float, n_wanted: int) -> WorstSamples:
        errors = measure_residuals(X, codes, dictionary, n_jobs)
        rank = rank_of_worst(len(errors), outlier_fraction)
        return WorstSamples.find(X, errors, 0, n_wanted, np.partition(errors, rank)[rank])

    n_found = insert_samples(find_worst, dictionary, useless, max_coherence, outlier_fraction)
    n_duplicates = max(n_found - len(unused), 0)  # the others stay, because too few samples were worth an atom
    if n_duplicates:
        _hand_over(codes, former, duplicates[:n_duplicates], twins[:n_duplicates])
    return np.sort(useless[:n_found])
