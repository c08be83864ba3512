"""K-SVD, a dictionary without classes, and the paper's baseline: K-SVD first, classifiers on its codes afterwards."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags, check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from ..classifiers import ClassifierTrainer, resolve_trainer
from ..coding.coders import SparseCoder, check_budget
from ..coding.encoder import Encoder, adapt_coder, resolve_sparse_coder
from ..dictionary import DictionaryUpdate, init_dictionary, resolve_dictionary_update
from ..model.codes import Floats, Model, RowCodes, measure_residuals
from ..model.losses import Loss, check_number, resolve_loss
from ..parallel import refuse_dask
from .transformer import DictionaryTransformer, check_form


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
        coder = clone(resolve_sparse_coder(self.sparse_coder), safe=False)
        n_nonzero_coefs = check_budget(self.n_nonzero_coefs, self.n_components, coder)
        rng = check_random_state(self.random_state)
        update = resolve_dictionary_update(self.dictionary_update)
        dictionary = init_dictionary(self.init, X, class_index, self.n_components, rng)
        coder = adapt_coder(coder, X, dictionary, n_nonzero_coefs)
        precision = np.ones(len(X), X.dtype)
        errors = []
        for _ in range(self.max_iter):
            codes = self._encode_training(X, dictionary, coder, n_nonzero_coefs)
            errors.append(self._error(X, codes, dictionary))
            if len(errors) > 1 and abs(errors[-2] - errors[-1]) <= self.tol * errors[-2]:
                break
            dictionary = update.update(X, codes, dictionary, precision, n_jobs=self.n_jobs).dictionary
        else:
            codes = self._encode_training(X, dictionary, coder, n_nonzero_coefs)
            errors.append(self._error(X, codes, dictionary))
        self.components_ = dictionary
        self.error_ = np.array(errors)
        self.n_iter_ = len(errors) - 1
        self.sparse_coder_ = coder
        self.n_nonzero_coefs_ = n_nonzero_coefs

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _encode_training(self, X: Floats, dictionary: Floats, coder: SparseCoder, n_nonzero_coefs: int) -> RowCodes:
        return Encoder.of(dictionary, coder, n_nonzero_coefs, self.n_jobs).encode(X, n_jobs=self.n_jobs)

    def _error(self, X: Floats, codes: RowCodes, dictionary: Floats) -> float:
        return float(measure_residuals(X, codes, dictionary, self.n_jobs).sum(dtype=np.float64))


class CodeClassifier(ClassifierMixin, BaseEstimator):
    """One linear classifier per class on sparse codes; the class of largest score wins.

    The second half of the paper's baseline: the classifiers of :class:`DDLClassifier`, trained once on codes that are
    given.

    Parameters
    ----------
    loss : str or Loss, default="square"
        The classification cost.
    classifier_trainer : str or ClassifierTrainer, default="auto"
        How classifiers are trained.
    n_jobs : int or None, default=None
        Number of threads, after joblib's conventions.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes.
    coef_ : ndarray of shape (n_classes, n_features)
        One classifier per row.
    intercept_ : ndarray of shape (n_classes,)
        Their intercepts.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> from ddlearn import CodeClassifier
    >>> codes = csr_array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, 3.0]])
    >>> CodeClassifier().fit(codes, ["a", "a", "b", "b"]).predict(codes)
    array(['a', 'a', 'b', 'b'], dtype='<U1')
    """

    def __init__(
        self,
        loss: str | Loss = "square",
        *,
        classifier_trainer: str | ClassifierTrainer = "auto",
        n_jobs: int | None = None,
    ):
        self.loss = loss
        self.classifier_trainer = classifier_trainer
        self.n_jobs = n_jobs

    def fit(self, X: csr_array | ArrayLike, y: ArrayLike) -> CodeClassifier:
        """Train the classifiers.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Codes.
        y : array-like of shape (n_samples,)
            The class of each sample.

        Returns
        -------
        CodeClassifier
            The estimator itself.
        """
        refuse_dask(X, "CodeClassifier.fit", "fit a part of them, or use DDLClassifier, which fits Dask arrays")
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32])
        check_classification_targets(y)
        classes, positions = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"y holds only one class, {classes.tolist()[0]!r}: a classifier needs at least two.")
        labels = np.where(positions[:, None] == np.arange(len(classes)), 1, -1).astype(X.dtype)
        loss = resolve_loss(self.loss)
        start = np.zeros((len(classes), X.shape[1]), X.dtype), np.zeros(len(classes), X.dtype)
        self.coef_, self.intercept_ = resolve_trainer(self.classifier_trainer, loss).train(
            _lay_out(X), labels, loss, *start, n_jobs=self.n_jobs
        )
        self.classes_ = classes
        return self

    def decision_function(self, X: csr_array | ArrayLike) -> Floats:
        """Return the score of codes for each class; for two classes, that of the second minus that of the first.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Codes.

        Returns
        -------
        ndarray of shape (n_samples, n_classes) or (n_samples,)
            The scores.
        """
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict(self, X: csr_array | ArrayLike) -> NDArray[Any]:
        """Return the class of largest score.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Codes.

        Returns
        -------
        ndarray of shape (n_samples,)
            The classes.
        """
        best = self._scores(X).argmax(axis=1)
        return self.classes_[best]

    def _scores(self, X: csr_array | ArrayLike) -> Floats:
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        no_atoms = no_costs = np.empty(0)
        return Model(no_atoms, self.coef_, self.intercept_, no_costs).astype(X.dtype).scores(_lay_out(X))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _index_classes(X: Floats, y: ArrayLike) -> NDArray[np.intp]:
    check_consistent_length(X, y)
    return np.unique(column_or_1d(y), return_inverse=True)[1]


def _lay_out(X: csr_array | Floats) -> RowCodes:
    codes = csr_array(X)
    return RowCodes.from_csr(codes, max(int(np.diff(codes.indptr).max(initial=0)), 1), codes.dtype)


def make_baseline(
    n_components: int = 100,
    *,
    n_nonzero_coefs: int | None = None,
    loss: str | Loss = "square",
    sparse_coder: str | SparseCoder = "ormp",
    max_iter: int = 20,
    n_jobs: int | None = None,
    random_state: int | np.random.RandomState | None = None,
) -> Pipeline:
    """Return the paper's baseline: K-SVD, then one classifier per class on its codes, winner takes all.

    Defaults are those of :class:`DDLClassifier`, so that the two differ only in joint learning and in the stopping
    rule, since K-SVD has an error and no objective.

    Parameters
    ----------
    n_components, n_nonzero_coefs : int
        As for :class:`KSVD`.
    loss : str or Loss, default="square"
        The classification cost.
    sparse_coder, max_iter, n_jobs, random_state : object
        As for :class:`KSVD`; the paper used the coder "omp".

    Returns
    -------
    Pipeline
        With the steps "ksvd" and "classifier".

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from ddlearn import make_baseline
    >>> X, y = load_digits(return_X_y=True)
    >>> make_baseline(100, random_state=0).fit(X, y).score(X, y) > 0.9
    True
    """
    ksvd = KSVD(
        n_components,
        n_nonzero_coefs=n_nonzero_coefs,
        sparse_coder=sparse_coder,
        max_iter=max_iter,
        n_jobs=n_jobs,
        random_state=random_state,
    )
    return Pipeline([("ksvd", ksvd), ("classifier", CodeClassifier(loss, n_jobs=n_jobs))])
