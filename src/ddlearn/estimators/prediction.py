"""What fitted dictionaries do with new samples: codes; and classifiers: evidence, probabilities, explanations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from operator import is_
from typing import TYPE_CHECKING, Any, TypeGuard
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.special import logit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils import Tags, check_array
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import check_is_fitted, validate_data

from ..coding.alignment import make_registration
from ..coding.coders import SparseCoder
from ..coding.discriminative import LABEL_CODINGS, DiscriminativeCoder
from ..coding.encoder import Encoder
from ..coding.robust import ROBUSTNESS, RobustCoder, check_mask
from ..describe.base import Description
from ..describe.checks import check_form
from ..inference.lazy import predict_lazily, score_lazily
from ..inference.predictor import Predictor, draw_views
from ..inference.rules import INFERENCE_RULES, LabelModel, label_probabilities
from ..model.codes import Flags, Floats, Model, RowCodes
from ..parallel import is_on_dask, refuse_dask, single_threaded_blas
from .run import Attributes
from .settings import check_fitted, make_view_jitter

if TYPE_CHECKING:
    from .. import Explanation, Summary

# No class is impossible or certain because the training samples happened to have none or nothing else.
_SMALLEST_PRIOR = 1e-6
# What a predictor is made from: parameters, and fitted attributes.
_READ_BY_PREDICTION = (
    *("inference", "robustness", "alignment", "image_shape", "n_views", "refine", "label_coding"),
    *("classification_weight", "n_jobs", "components_", "coef_", "intercept_", "class_cost_", "class_prior_"),
    *("description_", "loss_", "sparse_coder_", "n_nonzero_coefs_", "n_features_in_", "is_multilabel_", "priors_"),
    "median_noise_variance_",
)


def is_lazy(X: Any) -> TypeGuard[Any]:
    """Whether samples are a Dask array, for which all is done by its workers."""
    return type(X) is not np.ndarray and is_on_dask(X)


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
        before = vars(self).copy()
        try:
            with single_threaded_blas():
                yield
        except BaseException:
            for name in [name for name in vars(self) if name.endswith("_")]:
                delattr(self, name)
            self.__dict__.update({name: value for name, value in before.items() if name.endswith("_")})
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
        if is_lazy(X):
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


class KeptPredictor:
    """A predictor with all that it was made from: attributes of the model, and of strategies, which may change alone.

    These are compared at each prediction; for a single sample that takes a thirtieth of the time.
    """

    def __init__(self, model: Any, predictor: Predictor):
        self.predictor = predictor
        self._values = [*map(vars(model).get, _READ_BY_PREDICTION)]
        self._owners: list[dict[str, Any]] = []
        for value in self._values:  # which grow
            if isinstance(value, BaseEstimator):
                self._owners.append(vars(value))
                self._values.extend(vars(value).values())

    def is_up_to_date(self, model: Any) -> bool:
        """Whether nothing has changed."""
        values = [*map(vars(model).get, _READ_BY_PREDICTION)]
        for owner in self._owners:
            values.extend(owner.values())
        return len(values) == len(self._values) and all(map(is_, values, self._values))


def make_predictor(model: Any, dtype: np.dtype, encoder: Encoder | None = None) -> Predictor:
    """Return how a fitted model codes and classifies new samples of a precision.

    The encoder of the model's dictionary need not be made again if it is known.
    """
    check_fitted(model)
    prior = np.clip(model.class_prior_, _SMALLEST_PRIOR, 1 - _SMALLEST_PRIOR)
    fitted = Model(model.components_, model.coef_, model.intercept_, model.class_cost_)
    fitted = fitted.weigh_labels(model.classification_weight).astype(dtype)
    if encoder is None or encoder.dictionary is not fitted.dictionary:
        encoder = Encoder.of(fitted.dictionary, model.sparse_coder_, model.n_nonzero_coefs_, model.n_jobs)
    coder = DiscriminativeCoder(encoder, fitted, model.loss_, clone(LABEL_CODINGS.resolve(model.label_coding)))
    robust = RobustCoder(
        encoder,
        clone(ROBUSTNESS.resolve(model.robustness)),
        noise_scale=float(np.sqrt(model.median_noise_variance_)),
        registration=None
        if model.alignment is None
        else make_registration(model.alignment, model.image_shape, model.sparse_coder_),
    )
    views: Any = ()
    if model.n_views > 1:
        views = draw_views(make_view_jitter(model), model.image_shape, model.n_views, dtype)
    return Predictor(
        model.description_,
        LabelModel(coder, model.priors_),
        clone(INFERENCE_RULES.resolve(model.inference)),
        robust,
        logit(prior) if model.is_multilabel_ else np.log(prior),  # the evidence of the class frequencies
        views,
        model.n_jobs,
    )


# The predictors of fitted models by precision, kept outside of the models, whose attributes predict must not change.
_PREDICTORS: WeakKeyDictionary[DictionaryClassifier, dict[np.dtype, KeptPredictor]] = WeakKeyDictionary()


class DictionaryClassifier(ClassifierMixin, DictionaryTransformer):
    """A fitted dictionary with classifiers; a subclass learns them, and sets what is named here."""

    description_: Description
    classes_: NDArray[Any]
    is_multilabel_: bool
    robustness: Any

    def _set_fitted(self, attributes: Attributes, encoder: Encoder) -> None:
        """Set fitted attributes, remove those that only an earlier fit had, and make the predictor."""
        of_earlier = {"codes_", "noise_variance_", "stream_", "refinement_", "search_"}
        for name in of_earlier & set(vars(self)):
            delattr(self, name)
        for name, value in attributes.items():
            setattr(self, name, value)
        dtype = self.components_.dtype
        _PREDICTORS[self] = {dtype: KeptPredictor(self, make_predictor(self, dtype, encoder))}

    def _predictor(self, dtype: np.dtype) -> Predictor:
        """Return the predictor of the fitted model, which is made anew where something that it depends on changed."""
        kept = _PREDICTORS.setdefault(self, {})
        if dtype not in kept or not kept[dtype].is_up_to_date(self):
            kept[dtype] = KeptPredictor(self, make_predictor(self, dtype))
        return kept[dtype].predictor

    def _is_checked(self, X: ArrayLike) -> TypeGuard[Floats]:
        """Whether X needs no validation, which would dominate the time of a one-row prediction."""
        fitted = vars(self)
        return (
            type(X) is np.ndarray
            and X.dtype.char in "df"
            and X.dtype.isnative
            and X.flags.c_contiguous
            and X.ndim == 2
            and len(X) > 0
            and X.shape[1] == fitted.get("n_features_in_")
            and "components_" in fitted
            and "feature_names_in_" not in fitted
        )

    def _check_new(self, X: ArrayLike, mask: ArrayLike | None) -> tuple[Floats, Flags | None]:
        if not self._is_checked(X):
            check_is_fitted(self, "components_")
            check_form(X)
            X = validate_data(self, X, dtype=[np.float64, np.float32], order="C", ensure_all_finite=False, reset=False)
        return X, None if mask is None else check_mask(mask, X.shape)

    def _encode(self, X: ArrayLike) -> RowCodes:
        X, _ = self._check_new(X, None)
        return self._predictor(X.dtype).encode(X)

    def _invert(self, reconstruction: Floats) -> Floats:
        return self.description_.invert(reconstruction)

    def _evidence(self, X: ArrayLike, mask: ArrayLike | None) -> Floats:
        X, mask = self._check_new(X, mask)
        return self._predictor(X.dtype).evidence(X, mask)

    def predict(self, X: ArrayLike, mask: ArrayLike | None = None) -> NDArray[Any]:
        """Return the class of largest evidence, or for multilabel targets every label whose evidence is positive.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.  For a Dask array, the result is a lazy Dask array.
        mask : array-like of shape (n_samples, n_features) or (n_features,), default=None
            True where a feature is missing; its value does not matter.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            The classes, or a matrix of zeros and ones.
        """
        if is_lazy(X):
            return predict_lazily(DictionaryClassifier.predict, self, X, mask)
        evidence = self._evidence(X, mask)
        if self.is_multilabel_:
            return (evidence > 0).astype(int)
        return self.classes_[evidence.argmax(axis=1)]

    def decision_function(self, X: ArrayLike, mask: ArrayLike | None = None) -> Floats:
        """Return the evidence for each class.

        Parameters
        ----------
        X, mask : array-like
            As in :meth:`predict`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes), or (n_samples,) for two classes
            The log-probability of each class up to a constant; for two classes, that of the second minus that of the
            first.
        """
        if is_lazy(X):
            return predict_lazily(DictionaryClassifier.decision_function, self, X, mask)
        evidence = self._evidence(X, mask)
        if evidence.shape[1] == 2 and not self.is_multilabel_:
            return evidence[:, 1] - evidence[:, 0]
        return evidence

    def predict_proba(self, X: ArrayLike, mask: ArrayLike | None = None) -> Floats:
        """Return the probability of each class under the model (Eq. 2, or Eq. 5 in full inference).

        Those of a refined model are calibrated by one temperature, on training samples that were held out in its search
        for settings; others are not calibrated.

        Parameters
        ----------
        X, mask : array-like
            As in :meth:`predict`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Rows sum to one; for multilabel targets, the probability of each label alone.
        """
        if is_lazy(X):
            return predict_lazily(DictionaryClassifier.predict_proba, self, X, mask)
        evidence = self._evidence(X, mask)
        return label_probabilities(evidence) if self.is_multilabel_ else softmax(evidence, axis=1)

    def predict_log_proba(self, X: ArrayLike, mask: ArrayLike | None = None) -> Floats:
        """Return the logarithm of :meth:`predict_proba`.

        Parameters
        ----------
        X, mask : array-like
            As in :meth:`predict`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Minus infinity where a probability underflows; :meth:`decision_function` does not.
        """
        if is_lazy(X):
            return predict_lazily(DictionaryClassifier.predict_log_proba, self, X, mask)
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X, mask))

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the share of samples whose class, or whose labels all together, are predicted correctly.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,) or (n_samples, n_classes)
            The true classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights.

        Returns
        -------
        float
            From 0 to 1.
        """
        if is_lazy(X):
            return score_lazily(self.predict(X), y, sample_weight)
        return super().score(X, y, sample_weight)

    def explain(self, X: ArrayLike, mask: ArrayLike | None = None) -> Explanation:
        """Decompose samples into atoms, gross error and evidence for each class.

        Parameters
        ----------
        X, mask : array-like
            As in :meth:`predict`.

        Returns
        -------
        Explanation
            All of it, by name.
        """
        refuse_dask(X, "explain", "explain a few of them, as X[:10].compute()")
        X, mask = self._check_new(X, mask)
        from .. import Explanation  # show/ stands above this room: its names come from the package's own list

        return Explanation(**self._predictor(X.dtype).explain(X, mask), classes=self.classes_)

    def summary(
        self,
        X: ArrayLike | None = None,
        y: ArrayLike | None = None,
        *,
        training: tuple[ArrayLike, ArrayLike] | None = None,
    ) -> Summary:
        """Summarise size, error and checks, with remedies.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), default=None
            Samples that the model has not seen.  Some checks need them.
        y : array-like of shape (n_samples,), default=None
            Their classes.
        training : tuple of X and y, default=None
            The training samples, from which a logistic regression learns that the model is compared with.  Without
            them, it learns from four fifths of the samples at a time.

        Returns
        -------
        Summary
            Facts, the error and checks; ``print`` shows them as a table.

        See Also
        --------
        write_report : The same and much more as a page for a browser.
        """
        check_is_fitted(self, "components_")
        from .. import Summary  # as for Explanation

        return Summary.of(self, X, y, training)

    @property
    def _takes_missing(self) -> bool:
        """Whether NaN marks missing features."""
        return getattr(self.robustness, "missing", None) == "mask"

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.allow_nan = self._takes_missing
        return tags
