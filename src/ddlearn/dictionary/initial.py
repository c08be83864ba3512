"""The first atoms (line "initialize D" of Algorithm 2): samples of each class in turn, or random directions.

To draw from samples that are spread over several places takes two steps: :func:`order_candidates` decides which samples
to try in which order, and :func:`draw_dictionary` takes them as they come until it has enough different directions.
:func:`init_dictionary` does both for samples in one array.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..model.codes import Flags, Floats

# Both of NumPy's generators will do: only methods that they share are called.
RandomNumbers = np.random.RandomState | np.random.Generator

# K-SVD replaces an atom that is closer than this to another one. To replace many at once would raise the objective.
_MAX_COHERENCE = 0.99
# Noise in a combination of samples, relative to its norm, where there are fewer samples than atoms.
_FILLER_NOISE = 0.1


def order_candidates(class_index: NDArray[np.integer], rng: RandomNumbers) -> NDArray[np.intp]:
    """Return the order in which to try samples: a random one of each class in turn; unlabelled ones (-1) last."""
    shuffled = rng.permutation(len(class_index))
    by_class = shuffled[np.argsort(class_index[shuffled], kind="stable")]
    classes, first, class_of_row = np.unique(class_index[by_class], return_index=True, return_inverse=True)
    turn = np.arange(len(by_class)) - first[class_of_row]
    lot = rng.permutation(len(classes))[class_of_row]
    return by_class[np.lexsort((lot, turn, class_index[by_class] < 0))]


def _key_of_line(direction: Floats) -> bytes:
    """Return a key that two unit vectors share when they span the same line, to five digits."""
    sign = np.sign(direction[np.argmax(np.abs(direction))])
    return (np.round(sign * direction, 5) + 0.0).tobytes()  # adding zero turns -0.0 into 0.0


def _take_samples(batches: Iterable[Floats], n_components: int, n_features: int, rng: RandomNumbers) -> Floats:
    """Take samples as they come; those close to one taken before only where there are not enough others."""
    lines: set[bytes] = set()
    taken, close = np.empty((0, n_features)), np.empty((0, n_features))
    for batch in batches:
        directions = _list_new_directions(np.asarray(batch, dtype=np.float64), lines)
        is_close: Flags = np.any(np.abs(directions @ taken.T) > _MAX_COHERENCE, axis=1)
        coherent = np.abs(directions @ directions.T) > _MAX_COHERENCE
        for place in range(1, len(directions)):
            is_close[place] |= (coherent[place, :place] & ~is_close[:place]).any()
        taken = np.concatenate([taken, directions[~is_close]])
        close = np.concatenate([close, directions[is_close]])
        if len(taken) >= n_components:
            return taken[:n_components]
    atoms = np.concatenate([taken, close])[:n_components]
    return np.concatenate([atoms, _combine(atoms, n_components - len(atoms), rng)])


def _list_new_directions(batch: Floats, lines: set[bytes]) -> Floats:
    """Return the directions of samples, each line once; lines that have been seen are remembered."""
    norms = np.linalg.norm(batch, axis=1)
    directions = batch[norms > 0] / norms[norms > 0, None]
    keys = list(map(_key_of_line, directions))
    first = {key: place for place, key in reversed(list(enumerate(keys))) if key not in lines}
    lines.update(first)
    return directions[sorted(first.values())]


def _combine(atoms: Floats, n_combinations: int, rng: RandomNumbers) -> Floats:
    """Return random combinations of two atoms each, plus noise; without atoms, noise alone."""
    n_atoms, n_features = atoms.shape
    combined = _FILLER_NOISE / np.sqrt(n_features) * rng.standard_normal((n_combinations, n_features))
    for _ in range(2 if n_atoms else 0):
        combined += rng.standard_normal((n_combinations, 1)) * atoms[rng.choice(n_atoms, n_combinations)]
    return combined


def _draw_gaussian(batches: Iterable[Floats], n_components: int, n_features: int, rng: RandomNumbers) -> Floats:
    return rng.standard_normal((n_components, n_features))


INITIAL_DICTIONARIES: dict[str, Callable[[Iterable[Floats], int, int, RandomNumbers], Floats]] = {
    "samples": _take_samples,
    "gaussian": _draw_gaussian,
}


def _check_given_atoms(init: ArrayLike, shape: tuple[int, int]) -> Floats:
    atoms = np.array(init, dtype=np.float64)
    if atoms.shape != shape:
        raise ValueError(
            f"init has shape {atoms.shape}, but n_components={shape[0]} atoms of n_features={shape[1]} are needed: "
            f"pass an array of shape {shape}, one atom per row."
        )
    if not np.isfinite(atoms).all():
        raise ValueError(f"Row {np.argwhere(~np.isfinite(atoms))[0, 0]} of init holds NaN or infinity.")
    is_zero = ~atoms.any(axis=1)
    if is_zero.any():
        raise ValueError(f"Row {np.argmax(is_zero)} of init is zero: an atom needs a direction.")
    return atoms


def draw_dictionary(
    init: str | ArrayLike,
    batches: Iterable[Floats],
    n_components: int,
    n_features: int,
    dtype: np.dtype,
    rng: RandomNumbers,
) -> Floats:
    """Return the first atoms like :func:`init_dictionary`, from samples that are fetched as they are needed.

    ``batches`` yields samples in the order of :func:`order_candidates`.  Only "samples" iterates over it, until it has
    enough directions.

    >>> batches = iter([np.array([[3.0, 4.0]]), np.array([[6.0, 8.0], [0.0, 0.0]]), np.array([[0.0, 2.0]])])
    >>> draw_dictionary("samples", batches, 2, 2, np.dtype(float), np.random.RandomState(0))
    array([[0.6, 0.8],
           [0. , 1. ]])
    """
    if isinstance(init, str):
        if init not in INITIAL_DICTIONARIES:
            raise ValueError(
                f"init={init!r} is not known; choose one of {sorted(INITIAL_DICTIONARIES)} or pass an array."
            )
        atoms = INITIAL_DICTIONARIES[init](batches, n_components, n_features, rng)
    else:
        atoms = _check_given_atoms(init, (n_components, n_features))
    # Divided by the largest entry first, so that the norm of a very long or very short row can be computed.
    atoms = atoms / np.abs(atoms).max(axis=1, keepdims=True)
    return (atoms / np.linalg.norm(atoms, axis=1, keepdims=True)).astype(dtype)


def init_dictionary(
    init: str | ArrayLike, X: Floats, class_index: NDArray[np.integer] | None, n_components: int, rng: RandomNumbers
) -> Floats:
    """Return the first atoms, of unit norm and in the dtype of ``X``.

    "samples" draws training samples, the same number from each class (one more or less when it does not divide), no
    direction twice, no zero rows, and none close to another (a cosine above 0.99) while there are others; unlabelled
    samples (class -1) only when there are too few labelled ones.  If there are too few samples, the remaining atoms are
    random combinations of two samples with a tenth of Gaussian noise.
    "gaussian" draws zero-mean Gaussian vectors.  The rows of an array are normalised.

    >>> X = np.array([[0.0, 2.0], [3.0, 0.0], [0.0, 0.0]])
    >>> np.sort(init_dictionary("samples", X, np.array([0, 1, 1]), 2, np.random.RandomState(0)), axis=0)
    array([[0., 0.],
           [1., 1.]])
    """

    def fetch() -> Iterator[Floats]:
        order = order_candidates(np.zeros(X.shape[0], dtype=np.intp) if class_index is None else class_index, rng)
        for start in range(0, len(order), n_components):
            yield X[order[start : start + n_components]]

    return draw_dictionary(init, fetch(), n_components, X.shape[1], X.dtype, rng)
