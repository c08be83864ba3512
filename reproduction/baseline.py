"""The paper's baseline: K-SVD, a dictionary without classes, and classifiers on its codes afterwards."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import validate_data

from ddlearn import KSVD, ClassifierTrainer, Loss, RowCodes
from ddlearn.classifiers import resolve_trainer
from ddlearn.model.losses import LOSSES


class CodeClassifier(ClassifierMixin, BaseEstimator):
    """One linear classifier per class on sparse codes, those of ``DDLClassifier``; the class of largest score wins."""

    def __init__(self, loss: str | Loss = "square", *, classifier_trainer: str | ClassifierTrainer = "auto"):
        self.loss = loss
        self.classifier_trainer = classifier_trainer

    def fit(self, X: csr_array | ArrayLike, y: ArrayLike) -> CodeClassifier:
        """Train the classifiers on codes that are given."""
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32])
        self.classes_, positions = np.unique(y, return_inverse=True)
        n_classes = len(self.classes_)
        labels = np.where(positions[:, None] == np.arange(n_classes), 1, -1).astype(X.dtype)
        loss, codes = LOSSES.resolve(self.loss), lay_out(X)
        start = np.zeros((n_classes, X.shape[1]), X.dtype), np.zeros(n_classes, X.dtype)
        trainer = resolve_trainer(self.classifier_trainer, loss)
        self.coef_, self.intercept_ = trainer.train(codes, labels, loss, *start)
        return self

    def predict(self, X: csr_array | ArrayLike) -> NDArray[Any]:
        """Return the class of largest score."""
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return self.classes_[(X @ self.coef_.T + self.intercept_).argmax(axis=1)]


def lay_out(X: csr_array | NDArray[np.floating]) -> RowCodes:
    """Return codes in the layout of the library."""
    codes = csr_array(X)
    return RowCodes.from_csr(codes, max(int(np.diff(codes.indptr).max(initial=0)), 1), codes.dtype)


def make_baseline(n_components: int = 100, *, loss: str | Loss = "square", **options: Any) -> Pipeline:
    """Return the baseline, with the steps "ksvd", which takes the options, and "classifier".

    The paper used the coder "omp"; the default is that of :class:`~ddlearn.KSVD`.
    """
    return Pipeline([("ksvd", KSVD(n_components, **options)), ("classifier", CodeClassifier(loss))])
