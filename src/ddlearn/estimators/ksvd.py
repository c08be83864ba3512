"""K-SVD: a dictionary without classes."""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils import Tags, check_random_state, column_or_1d
from sklearn.utils.validation import check_consistent_length, validate_data

from ..coding.coders import SparseCoder, check_budget
from ..coding.encoder import SPARSE_CODERS, Encoder, adapt_coder
from ..describe.checks import check_form
from ..dictionary import DICTIONARY_UPDATES, DictionaryUpdate, init_dictionary
from ..model.codes import Floats, measure_residuals
from ..model.strategies import check_number
from ..parallel import refuse_dask
from .prediction import DictionaryTransformer


class KSVD(DictionaryTransformer):
    r"""A dictionary in which samples have sparse codes (Aharon, Elad and Bruckstein, 2006).

    Lowers :math:`\sum_i \|y_i - D^T x_i\|^2` over atoms of unit norm and codes with at most :math:`T` nonzeros, by
    turns of sparse coding and a sweep over the atoms.

    Parameters
    ----------
    n_components : int, default=100
        Number of atoms, K.
    n_nonzero_coefs : int or None, default=None
        Atoms in a code at most, the paper's T.  By default 5, for the elastic net 256, or all atoms if there are
        fewer.
    sparse_coder : {"omp", "ormp", "elastic_net"} or SparseCoder, default="ormp"
        How codes are found.
    dictionary_update : str or DictionaryUpdate, default="ksvd"
        How the atoms are improved: "ksvd", "exact_ksvd", "atom", "block_coordinate", or an object.
    init : {"samples", "gaussian"} or array-like of shape (n_components, n_features), default="samples"
        The first dictionary.
    max_iter : int, default=20
        Iterations at most.
    tol : float, default=1e-4
        Stop when the error changes by less, relative to itself.
    n_jobs : int or None, default=None
        Number of threads, after joblib's conventions.
    random_state : int, RandomState or None, default=None
        Seed of the draw of the first atoms.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The atoms.
    error_ : ndarray of shape (n_iter + 1,)
        The sum of squared residuals at the start and after each iteration.
    n_iter_ : int
        Iterations done.
    sparse_coder_ : SparseCoder
        The coder object.
    n_nonzero_coefs_ : int
        The budget T.
    n_features_in_ : int
        Number of features.

    See Also
    --------
    DDLClassifier : A dictionary learned together with classifiers.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from ddlearn import KSVD
    >>> X = load_digits().data
    >>> codes = KSVD(n_components=50, random_state=0).fit_transform(X)
    >>> codes.shape
    (1797, 50)
    """

    def __init__(
        self,
        n_components: int = 100,
        *,
        n_nonzero_coefs: int | None = None,
        sparse_coder: str | SparseCoder = "ormp",
        dictionary_update: str | DictionaryUpdate = "ksvd",
        init: str | ArrayLike = "samples",
        max_iter: int = 20,
        tol: float = 1e-4,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ):
        self.n_components = n_components
        self.n_nonzero_coefs = n_nonzero_coefs
        self.sparse_coder = sparse_coder
        self.dictionary_update = dictionary_update
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> KSVD:
        """Learn the atoms.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples; float32 stays float32.
        y : array-like of shape (n_samples,) or None, default=None
            If given, "samples" draws the first atoms in equal number from each class; not used otherwise.

        Returns
        -------
        KSVD
            The estimator itself.
        """
        refuse_dask(X, "KSVD.fit", "fit a part of them, or use DDLClassifier, which fits Dask arrays")
        if not isinstance(self.n_components, Integral) or self.n_components < 1:
            raise ValueError(f"n_components must be an integer of at least 1, got {self.n_components!r}.")
        check_number("max_iter", self.max_iter, Integral)
        check_number("tol", self.tol, Real)
        with self._unchanged_on_failure():
            check_form(X)
            X = validate_data(self, X, dtype=[np.float64, np.float32], order="C")
            self._fit(X, None if y is None else _index_classes(X, y))
        return self

    def _fit(self, X: Floats, class_index: NDArray[np.intp] | None) -> None:
        coder = clone(SPARSE_CODERS.resolve(self.sparse_coder), safe=False)
        n_nonzero_coefs = check_budget(self.n_nonzero_coefs, self.n_components, coder)
        rng = check_random_state(self.random_state)
        update = DICTIONARY_UPDATES.resolve(self.dictionary_update)
        dictionary = init_dictionary(self.init, X, class_index, self.n_components, rng)
        coder = adapt_coder(coder, X, dictionary, n_nonzero_coefs)
        errors: list[float] = []
        while True:
            encoder = Encoder.of(dictionary, coder, n_nonzero_coefs, self.n_jobs)
            codes = encoder.encode(X, n_jobs=self.n_jobs)
            errors.append(float(measure_residuals(X, codes, dictionary, self.n_jobs).sum(dtype=np.float64)))
            has_settled = len(errors) > 1 and abs(errors[-2] - errors[-1]) <= self.tol * errors[-2]
            if has_settled or len(errors) > self.max_iter:
                break
            dictionary = update.update(X, codes, dictionary, np.ones(len(X), X.dtype), n_jobs=self.n_jobs).dictionary
        self.components_ = dictionary
        self.error_ = np.array(errors)
        self.n_iter_ = len(errors) - 1
        self.sparse_coder_ = coder
        self.n_nonzero_coefs_ = n_nonzero_coefs

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _index_classes(X: Floats, y: ArrayLike) -> NDArray[np.intp]:
    check_consistent_length(X, y)
    return np.unique(column_or_1d(y), return_inverse=True)[1]
