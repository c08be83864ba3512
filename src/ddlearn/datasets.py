"""Data to try things on: scikit-learn's digits as images, and problems with a known dictionary."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.utils import Bunch, check_random_state

__all__ = ["load_digits_images", "make_planted"]


def load_digits_images(*, return_X_y: bool = False) -> Bunch | tuple[NDArray[Any], NDArray[Any]]:
    """Load scikit-learn's digits: 1797 images of 8 x 8 pixels.

    Parameters
    ----------
    return_X_y : bool, default=False
        Whether to return only ``(data, target)``.

    Returns
    -------
    Bunch, or tuple of two ndarrays
        With ``data``, float32 of shape (1797, 64), pixels from 0 (background) to 1 (ink); ``image_shape``; and
        ``target``, the digits.

    Examples
    --------
    >>> from ddlearn.datasets import load_digits_images
    >>> digits = load_digits_images()
    >>> digits.data.shape, digits.image_shape
    ((1797, 64), (8, 8))
    """
    from sklearn.datasets import load_digits  # here, to keep the import of ddlearn fast

    digits = load_digits()
    data, target = np.divide(digits.data, 16, dtype=np.float32), digits.target
    return (data, target) if return_X_y else Bunch(data=data, target=target, image_shape=(8, 8))


def make_planted(
    n_samples: int = 1000,
    n_features: int = 20,
    n_components: int = 30,
    n_classes: int = 3,
    *,
    n_nonzero_coefs: int = 3,
    noise: float = 0.0,
    random_state: int | np.random.RandomState | None = None,
    return_X_y: bool = False,
) -> Bunch | tuple[NDArray[Any], NDArray[Any]]:
    """Draw samples that are sparse in a known dictionary whose atoms belong to classes.

    Atoms are Gaussian vectors scaled to unit norm, assigned to the classes cyclically.  Classes are balanced, in random
    order.  The code of a sample has exactly `n_nonzero_coefs` nonzeros: one on a random atom of its class, the others
    on random other atoms of any class.  Their magnitudes are uniform in [1, 2), their signs positive on atoms of the
    sample's class and negative on all others.  The samples are ``codes @ dictionary`` plus Gaussian noise.  The
    classifiers in ``coef``, +1 on the atoms of a class and -1 on the others, classify the codes without error, with a
    margin of at least 2 between the correct score and the others.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of samples.
    n_features : int, default=20
        Number of features.
    n_components : int, default=30
        Number of atoms, at least `n_classes`.
    n_classes : int, default=3
        Number of classes.
    n_nonzero_coefs : int, default=3
        Nonzeros in each code, at most `n_components`.
    noise : float, default=0.0
        Standard deviation of the noise on each feature.
    random_state : int, RandomState or None, default=None
        Seed of all random draws; the same integer gives the same samples.
    return_X_y : bool, default=False
        Whether to return only ``(data, target)``.

    Returns
    -------
    Bunch, or tuple of two ndarrays
        With ``data``, float64 of shape (n_samples, n_features); ``target``, the classes; ``dictionary`` of
        shape (n_components, n_features); ``codes``, CSR of shape (n_samples, n_components); ``coef`` of shape
        (n_classes, n_components); and ``atom_class``, the class of each atom.

    Examples
    --------
    >>> import numpy as np
    >>> from ddlearn.datasets import make_planted
    >>> planted = make_planted(200, random_state=0)
    >>> planted.data.shape, planted.codes.shape
    ((200, 20), (200, 30))
    >>> bool(np.allclose(planted.codes @ planted.dictionary, planted.data))
    True
    >>> bool(np.all((planted.codes @ planted.coef.T).argmax(axis=1) == planted.target))
    True
    """
    sizes = {"n_samples": n_samples, "n_features": n_features, "n_components": n_components}
    _check_planted(sizes | {"n_classes": n_classes, "n_nonzero_coefs": n_nonzero_coefs}, noise)
    rng = check_random_state(random_state)
    dictionary = rng.standard_normal((n_components, n_features))
    dictionary /= np.linalg.norm(dictionary, axis=1, keepdims=True)
    atom_class = np.arange(n_components) % n_classes
    target = rng.permutation(np.arange(n_samples) % n_classes)
    codes = _plant_codes(target, atom_class, n_nonzero_coefs, rng)
    data = codes @ dictionary + noise * rng.standard_normal((n_samples, n_features))
    if return_X_y:
        return data, target
    return Bunch(
        data=data,
        target=target,
        dictionary=dictionary,
        codes=codes,
        coef=np.where(atom_class == np.arange(n_classes)[:, None], 1.0, -1.0),
        atom_class=atom_class,
    )


def _check_planted(sizes: dict[str, int], noise: float) -> None:
    for name, value in sizes.items():
        if not isinstance(value, Integral) or value < 1:
            raise ValueError(f"{name} must be an integer of at least 1, got {value!r}.")
    n_components = sizes["n_components"]
    for name in ("n_classes", "n_nonzero_coefs"):
        if sizes[name] > n_components:
            raise ValueError(f"{name}={sizes[name]} exceeds the n_components={n_components} atoms: increase those.")
    if not 0 <= noise < np.inf:
        raise ValueError(f"noise must be a finite number of at least 0, got {noise!r}.")


def _plant_codes(
    target: NDArray[np.integer], atom_class: NDArray[np.integer], n_nonzero_coefs: int, rng: np.random.RandomState
) -> csr_array:
    indices = np.empty((len(target), n_nonzero_coefs), np.int32)
    for class_ in np.unique(target):  # one class at a time, to bound memory
        members = np.flatnonzero(target == class_)
        own_atoms = np.flatnonzero(atom_class == class_)
        lots = rng.random_sample((len(members), len(atom_class)))
        first = own_atoms[lots[:, own_atoms].argmin(axis=1)]
        lots[np.arange(len(members)), first] = -1
        indices[members] = np.sort(lots.argsort(axis=1)[:, :n_nonzero_coefs], axis=1)
    values = rng.uniform(1, 2, indices.shape)
    values[atom_class[indices] != target[:, None]] *= -1
    row_starts = np.arange(0, indices.size + 1, n_nonzero_coefs, dtype=np.int32)
    return csr_array((values.ravel(), indices.ravel(), row_starts), shape=(len(target), len(atom_class)))
