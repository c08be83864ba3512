"""The atoms to start from (line "initialize D" of Algorithm 2): samples of each class in turn, or random directions."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .interface import Array, RandomNumbers

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


TakeSamples = Callable[[NDArray[np.intp]], Array]  # fetches some of the candidates, by position


class SamplePool(NamedTuple):
    """Samples to draw from, wherever they are; they are looked for only if some are to be drawn."""

    n_features: int
    dtype: np.dtype
    find_candidates: Callable[[], tuple[NDArray[np.integer], TakeSamples]]  # each one's class, -1 for an unlabelled one

    @classmethod
    def of(cls, X: Array, class_index: NDArray[np.integer] | None) -> SamplePool:
        """Return the pool of all rows of an array."""
        class_index = np.zeros(X.shape[0], dtype=np.intp) if class_index is None else class_index
        return cls(X.shape[1], X.dtype, lambda: (class_index, lambda rows: X[rows]))


def _draw_samples(pool: SamplePool, n_components: int, rng: RandomNumbers) -> Array:
    lines: dict[bytes, Array] = {}
    class_index, take = pool.find_candidates()
    order = _order_by_turns(class_index, rng)
    for start in range(0, len(order), n_components):
        for sample in np.asarray(take(order[start : start + n_components]), dtype=np.float64):
            norm = np.linalg.norm(sample)
            if norm > 0 and len(lines) < n_components:
                lines.setdefault(_line_of(sample / norm), sample / norm)
        if len(lines) == n_components:
            break
    atoms = np.array(list(lines.values())).reshape(-1, pool.n_features)
    return np.concatenate([atoms, _combine(atoms, n_components - len(atoms), rng)])


def _combine(atoms: Array, n_combinations: int, rng: RandomNumbers) -> Array:
    """Return disturbed random combinations of two atoms each; without atoms, the disturbance alone."""
    n_atoms, n_features = atoms.shape
    combined = _FILLER_NOISE / np.sqrt(n_features) * rng.standard_normal((n_combinations, n_features))
    for _ in range(2 if n_atoms else 0):
        combined += rng.standard_normal((n_combinations, 1)) * atoms[rng.choice(n_atoms, n_combinations)]
    return combined


def _draw_gaussian(pool: SamplePool, n_components: int, rng: RandomNumbers) -> Array:
    return rng.standard_normal((n_components, pool.n_features))


INITIAL_DICTIONARIES: dict[str, Callable[[SamplePool, int, RandomNumbers], Array]] = {
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
    return draw_dictionary(init, SamplePool.of(X, class_index), n_components, rng)


def draw_dictionary(init: str | ArrayLike, pool: SamplePool, n_components: int, rng: RandomNumbers) -> Array:
    """Do what :func:`init_dictionary` does, from samples that may lie elsewhere."""
    if isinstance(init, str):
        if init not in INITIAL_DICTIONARIES:
            raise ValueError(
                f"init={init!r} is not known; choose one of {sorted(INITIAL_DICTIONARIES)} or pass an array."
            )
        atoms = INITIAL_DICTIONARIES[init](pool, n_components, rng)
    else:
        atoms = _check_given_dictionary(init, (n_components, pool.n_features))
    # Divided by the largest entry first, so that the norm of a very long or very short row can be computed.
    atoms = atoms / np.abs(atoms).max(axis=1, keepdims=True)
    return (atoms / np.linalg.norm(atoms, axis=1, keepdims=True)).astype(pool.dtype)
