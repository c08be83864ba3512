"""A learned dictionary as a scikit-learn transformer: samples to label-free codes and back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_array
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import check_is_fitted, validate_data

from ..coding.coders import SparseCoder
from ..coding.encoder import Encoder
from ..describe.checks import check_form
from ..inference.lazy import predict_lazily
from ..model.codes import Floats, RowCodes
from ..parallel import is_on_dask, single_threaded_blas


def _is_fitted_attribute(name: str) -> bool:
    return name.endswith("_") and not name.startswith("_")


class DictionaryTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """What estimators with a dictionary share; they set what is named here."""

    n_jobs: int | None
    components_: Floats
    n_nonzero_coefs_: int
    sparse_coder_: SparseCoder

    @contextmanager
    def _unchanged_on_failure(self) -> Iterator[None]:
        """Put the fitted attributes back to what they were if anything stops the fit, Ctrl-C included.

        All of the fit has one BLAS thread, as on the workers of a cluster: some of BLAS's kernels round the edges of
        each thread's share differently.
        """
        before = {name: value for name, value in vars(self).items() if _is_fitted_attribute(name)}
        try:
            with single_threaded_blas():
                yield
        except BaseException:
            for name in [name for name in vars(self) if _is_fitted_attribute(name)]:
                delattr(self, name)
            self.__dict__.update(before)
            raise

    def _encode(self, X: ArrayLike) -> RowCodes:
        """Code samples without labels, in the library's own layout."""
        check_is_fitted(self, "components_")
        check_form(X)
        X = validate_data(self, X, dtype=[np.float64, np.float32], order="C", ensure_all_finite=False, reset=False)
        dictionary = self.components_.astype(X.dtype, copy=False)
        encoder = Encoder.of(dictionary, self.sparse_coder_, self.n_nonzero_coefs_, self.n_jobs)
        return encoder.encode(X, n_jobs=self.n_jobs)

    def transform(self, X: ArrayLike) -> csr_array | Floats:
        """Return the codes of samples, made without labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.  For a Dask array, the result is a lazy Dask array.

        Returns
        -------
        csr_array of shape (n_samples, n_components)
            At most ``n_nonzero_coefs`` entries per row; a data frame if ``set_output`` asks for one.
        """
        if is_on_dask(X):
            return predict_lazily(type(self).transform, self, X)
        codes = self._encode(X).to_csr(len(self.components_))
        is_framed = _get_output_config("transform", self)["dense"] != "default"
        return codes.toarray() if is_framed else codes

    def inverse_transform(self, X: csr_array | ArrayLike) -> Floats:
        """Return the samples that codes represent; scaled to unit norm, their norms are not in the codes.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_components)
            Codes.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Reconstructions.
        """
        check_is_fitted(self, "components_")
        codes = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32])
        if codes.shape[1] != len(self.components_):
            raise ValueError(f"X has {codes.shape[1]} columns, but there are {len(self.components_)} atoms.")
        return self._invert(codes @ self.components_.astype(codes.dtype, copy=False))

    def _invert(self, reconstruction: Floats) -> Floats:
        """Return reconstructions in the units of the samples."""
        return reconstruction

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)
