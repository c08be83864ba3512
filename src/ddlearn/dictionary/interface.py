"""What an update of the dictionary is: it lowers the weighted error of the samples (Eq. 3), given their codes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from ..codes import RowCodes

Array = NDArray[np.floating]
# Both of NumPy's kinds serve: only methods that they share are called.
RandomNumbers = np.random.RandomState | np.random.Generator


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
    >>> from ddlearn.dictionary import AtomUpdate
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


class DictionaryUpdate(BaseEstimator, ABC):
    r"""One step that improves the atoms, given codes.

    Subclasses implement :meth:`update`, which must not change its arguments, and declare what it promises.
    :func:`ddlearn.check_dictionary_update` verifies an update numerically.

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
        There are ``statistics(X, codes, precision, n_components, *, n_jobs=None)``, of blocks of samples, to be added,
        and ``update_from(statistics, dictionary)``, which returns the dictionary and the ``atom_scale``.  A fit then
        calls these, for samples that may lie in several places, and ``replace_unused`` if there is one.

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
            For strategies that draw random numbers; those of this library do not.
        n_jobs : int or None, default=None
            How many threads, after joblib's conventions.  The result does not depend on it.

        Returns
        -------
        UpdatedDictionary
            New arrays, in the dtype of ``X``.
        """
