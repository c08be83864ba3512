"""The framework as one scikit-learn estimator: what goes in is checked here, what comes out is kept here."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logit, softmax
from sklearn.base import ClassifierMixin, clone
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.utils import Tags, check_array, check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from .alignment import Alignment, resolve_alignment
from .classifiers import ClassifierTrainer, resolve_trainer
from .codes import RowCodes
from .dictionary import DictionaryUpdate, init_dictionary, resolve_dictionary_update
from .discriminative_coding import ClassifierState
from .fitting import AlternatingFit, FitProgress, FitSettings, FitState
from .gross_errors import ErrorRoute, resolve_error_route
from .inference import INFERENCE_RULES, TEST_NOISE, LabelModel, TrainingNoise, label_probabilities
from .losses import Loss, resolve_loss
from .masked_coding import Flags, MaskedCoder
from .noisy_coding import MISSING, NoisyCoder, check_error_budget, check_mask
from .objective import NOISE_MODELS, Floors
from .prediction import Explanation, Predictor
from .sparse_coding import SparseCoder, check_budget, resolve_sparse_coder
from .strategies import check_number
from .transformer import DictionaryTransformer

__all__ = ["DDLClassifier"]

Floats = NDArray[np.floating]

# Without n_components (docs/defaults.md): so many labelled samples for each atom, and so many atoms at most. With more
# atoms than labelled samples, each atom would be judged by a sample or two.
_SAMPLES_PER_ATOM = 2
_MOST_ATOMS = 500
# No class is impossible, nor certain, because the training samples happened to have none or nothing else.
_SMALLEST_PRIOR = 1e-6


class DDLClassifier(CallbackSupportMixin, ClassifierMixin, DictionaryTransformer):
    r"""Discriminative dictionary learning: a dictionary, sparse codes and linear classifiers, learned jointly.

    Minimises the MAP objective of Ghanem and Ahuja (2011, Eq. 3)

    .. math::
        \sum_i \frac{\|y_i - D^T x_i\|^2}{2\sigma_i^2} + \frac{M+2}{2} \sum_i \ln \sigma_i^2
        + \sum_{ij} \frac{\Omega(l_{ij}(w_j^T x_i + b_j))}{\gamma_j} + (N+1) \sum_j \ln \gamma_j

    over the dictionary :math:`D`, codes :math:`x_i` with at most :math:`T` nonzeros, one-vs-all classifiers
    :math:`w_j, b_j`, noise variances :math:`\sigma_i^2` and class costs :math:`\gamma_j`, by turns.  A new sample is
    coded without labels; its class is that of largest evidence :math:`(\Omega(-s_j) - \Omega(s_j))/\gamma_j` for
    scores :math:`s_j = w_j^T x + b_j`.  Parameters from ``inference`` to ``image_shape`` say how new samples are
    treated; they can be changed after the fit by ``set_params``.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of atoms, the paper's K.  By default half the number of labelled samples, but at most 500.
    n_nonzero_coefs : int or None, default=None
        Atoms in a code at most, the paper's T.  By default 5, or all atoms if there are fewer.
    loss : str or Loss, default="square"
        The classification cost: "square", "exponential", "logistic", "smooth_hinge", "softplus_hinge", or an object.
    sparse_coder : {"omp", "ormp"} or SparseCoder, default="ormp"
        What finds codes.
    dictionary_update : str or DictionaryUpdate, default="ksvd"
        "ksvd" (one approximate K-SVD sweep, as printed in the paper), "exact_ksvd", "weighted_ksvd", "atom" (never
        raises the objective), "block_coordinate", "mod", or an object.
    classifier_trainer : str or ClassifierTrainer, default="auto"
        "square_lev", "ada_boost", "logit_boost", "linear_svm", "newton", or an object; "auto" takes the first of
        these that is made for the loss.
    init : {"samples", "gaussian"} or array-like of shape (n_components, n_features), default="samples"
        The first dictionary: training samples in equal number from each class, random vectors, or these atoms.
    fit_intercept : bool, default=True
        Whether classifiers have an intercept.
    noise : {"per_sample", "shared"}, default="per_sample"
        One noise variance for each sample, as in the paper, or one for all.
    noise_floor : float, default=0.1
        No noise variance falls below this share of the first codes' median.  The objective has no minimum without a
        floor.
    cost_floor : float, default=0.3
        The same for class costs.
    classification_weight : float, default=1.0
        How much the labels count: the terms of the classifiers in the objective are multiplied by it.  1 is the MAP
        estimate; 0.5 is what the paper's Algorithm 1 does as printed, where the weight lacks a factor of two.  It can
        be changed after the fit: evidence and probabilities of new samples, and the full rule, depend on it too, while
        the class that the fast rule finds does not.
    refit : bool, default=True
        Train the classifiers once more in the end, on codes made without labels, such as new samples have.  ``coef_``,
        ``intercept_`` and ``class_cost_`` are then those of label-free codes, while ``codes_``, ``noise_variance_`` and
        ``history_`` tell of the fit itself.
    max_iter : int, default=20
        Outer iterations at most.
    tol : float, default=1e-3
        Stop when the objective changes by less, relative to the size of its terms.
    max_coding_iter : int, default=100
        Newton steps of discriminative coding at most.
    coding_tol : float, default=1e-4
        A code is done when it changes by less, relative to its size.
    inference : {"fast", "full"}, default="fast"
        How the class of a new sample is found: from its label-free code, or by coding it once for each class as if it
        were of that class and comparing the costs (Eq. 5 of the paper).  "full" is not for multilabel targets.
    n_candidates : int or None, default=None
        How many of the best classes of the fast rule the full rule looks at; by default all.
    test_noise : {"per_sample", "shared", "profiled"}, default="per_sample"
        The noise variance of a new sample in the full rule, which the paper leaves open: from the residual of its
        label-free code, the median of the training samples, or anew for each hypothesis.
    error_budget : int or float, default=0
        How many features (an integer) or what share of the known ones (a float below 1) of a new sample may be grossly
        wrong, as by occlusion.  They are found and left out.
    error_route : {"alternating", "greedy"} or ErrorRoute, default="alternating"
        How they are found.
    missing : {"error", "mask"}, default="error"
        Whether NaN in a new sample is an error, or a feature that is missing.  Training samples must be complete.
    alignment : {"translation", "euclidean", "similarity", "affine"}, Alignment or None, default=None
        Whether new images are registered to the dictionary while they are coded, and by which maps.
    image_shape : tuple of int or None, default=None
        Height and width of the images that are the rows of X, which alignment needs.
    align_training : bool, default=False
        Whether training images are registered too, a little in each iteration.  ``codes_`` and ``noise_variance_`` are
        then those of the registered images.
    unlabeled : object, default=None
        The value in y that marks a sample without label.  Such samples shape the dictionary, but not the classifiers.
        Not for multilabel targets.
    warm_start : bool, default=False
        Begin with the dictionary and classifiers of the previous fit.
    sparse_output : bool, default=True
        Whether :meth:`transform` returns a sparse matrix; ``set_output`` for data frames needs False.
    n_jobs : int or None, default=None
        Number of threads; None is 1 unless a ``joblib.parallel_config`` says otherwise, -1 all cores.
    random_state : int, RandomState or None, default=None
        Decides which samples become the first atoms.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes; for multilabel targets the column numbers.
    components_ : ndarray of shape (n_components, n_features)
        The dictionary, one atom of unit norm a row.
    coef_ : ndarray of shape (n_classes, n_components)
        The classifiers; two rows for two classes, since each class has a cost of its own.
    intercept_ : ndarray of shape (n_classes,)
        Their intercepts.
    class_cost_ : ndarray of shape (n_classes,)
        The paper's :math:`\gamma_j`.
    noise_variance_ : ndarray of shape (n_samples,)
        The paper's :math:`\sigma_i^2` of the training samples.
    codes_ : csr_array of shape (n_samples, n_components)
        Codes of the training samples, which saw the labels; :meth:`transform` cannot and gives others.
    median_noise_variance_ : float
        The median :math:`\sigma_i^2` of the codes that the classifiers were last trained on.
    noise_floor_ : float
        The smallest noise variance that the fit allowed.
    cost_floor_ : float
        The smallest class cost that the fit allowed; where all classes are easy, all costs are at it.
    class_prior_ : ndarray of shape (n_classes,)
        Share of each class among the labelled training samples; what a sample with nothing known is judged by.
    loss_ : Loss
        The loss object.
    is_multilabel_ : bool
        Whether y was a matrix of zeros and ones.
    sparse_coder_ : SparseCoder
        The coder object.
    n_nonzero_coefs_ : int
        The budget T.
    n_iter_ : int
        Outer iterations done.
    converged_ : bool
        Whether the objective had settled.
    history_ : list of IterationRecord
        What each iteration did, from the state before the first.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, where X had names that are strings.

    References
    ----------
    Ghanem and Ahuja, "A probabilistic framework for discriminative dictionary learning", arXiv 1109.2389, 2011.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import train_test_split
    >>> from ddlearn import DDLClassifier
    >>> X_train, X_test, y_train, y_test = train_test_split(*load_digits(return_X_y=True), random_state=0)
    >>> model = DDLClassifier(n_components=100, random_state=0).fit(X_train, y_train)
    >>> model.score(X_test, y_test) > 0.9
    True
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        n_nonzero_coefs: int | None = None,
        loss: str | Loss = "square",
        sparse_coder: str | SparseCoder = "ormp",
        dictionary_update: str | DictionaryUpdate = "ksvd",
        classifier_trainer: str | ClassifierTrainer = "auto",
        init: str | ArrayLike = "samples",
        fit_intercept: bool = True,
        noise: str = "per_sample",
        noise_floor: float = 0.1,
        cost_floor: float = 0.3,
        classification_weight: float = 1.0,
        refit: bool = True,
        max_iter: int = 20,
        tol: float = 1e-3,
        max_coding_iter: int = 100,
        coding_tol: float = 1e-4,
        inference: str = "fast",
        n_candidates: int | None = None,
        test_noise: str = "per_sample",
        error_budget: float = 0,
        error_route: str | ErrorRoute = "alternating",
        missing: str = "error",
        alignment: str | Alignment | None = None,
        image_shape: tuple[int, int] | None = None,
        align_training: bool = False,
        unlabeled: Any = None,
        warm_start: bool = False,
        sparse_output: bool = True,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ):
        self.n_components = n_components
        self.n_nonzero_coefs = n_nonzero_coefs
        self.loss = loss
        self.sparse_coder = sparse_coder
        self.dictionary_update = dictionary_update
        self.classifier_trainer = classifier_trainer
        self.init = init
        self.fit_intercept = fit_intercept
        self.noise = noise
        self.noise_floor = noise_floor
        self.cost_floor = cost_floor
        self.classification_weight = classification_weight
        self.refit = refit
        self.max_iter = max_iter
        self.tol = tol
        self.max_coding_iter = max_coding_iter
        self.coding_tol = coding_tol
        self.inference = inference
        self.n_candidates = n_candidates
        self.test_noise = test_noise
        self.error_budget = error_budget
        self.error_route = error_route
        self.missing = missing
        self.alignment = alignment
        self.image_shape = image_shape
        self.align_training = align_training
        self.unlabeled = unlabeled
        self.warm_start = warm_start
        self.sparse_output = sparse_output
        self.n_jobs = n_jobs
        self.random_state = random_state

    @with_callbacks
    def fit(self, X: ArrayLike, y: ArrayLike) -> DDLClassifier:
        """Learn dictionary and classifiers.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples; float32 stays float32.
        y : array-like of shape (n_samples,) or (n_samples, n_classes)
            The class of each sample, of any type, or for multilabel targets a matrix of zeros and ones.

        Returns
        -------
        DDLClassifier
            The estimator itself.  If the fit fails or is interrupted, it is as it was before.
        """
        with self._unchanged_on_failure():
            X = validate_data(self, X, dtype=[np.float64, np.float32], order="C")
            check_consistent_length(X, y)
            self._fit(X, y, *self._encode_labels(y))
        return self

    def _encode_labels(self, y: ArrayLike) -> tuple[NDArray[np.int8], NDArray[Any], bool]:
        """Return labels of -1, 0 (unlabelled) and +1, the classes, and whether the target is multilabel."""
        if y is None:
            raise ValueError("DDLClassifier requires y to be passed, but the target y is None.")
        y = _to_array(y)
        if y.ndim == 2 and y.shape[1] > 1:
            return (*_encode_indicator(y), True)
        y = column_or_1d(y, warn=True)
        is_labelled = ~_equals(y, self.unlabeled)
        if y.dtype.kind == "f" and not np.isfinite(y[is_labelled]).all():
            row = np.flatnonzero(is_labelled & ~np.isfinite(y))[0]
            word = "NaN" if np.isnan(y[row]) else "infinity"
            raise ValueError(f"Input y contains {word} in row {row}; mark samples without label by `unlabeled`.")
        if not is_labelled.any():
            raise ValueError(
                f"All {len(y)} samples are marked as unlabelled (unlabeled={self.unlabeled!r}): "
                "label at least two classes, or use KSVD for a dictionary without classes."
            )
        return (*_encode_classes(y, is_labelled), False)

    def _check_inference(self, n_classes: int, n_features: int, is_multilabel: bool) -> None:
        """Raise if new samples cannot be treated as the parameters say."""
        for name, known in (("inference", INFERENCE_RULES), ("test_noise", TEST_NOISE), ("missing", MISSING)):
            if getattr(self, name) not in known:
                raise ValueError(f"{name}={getattr(self, name)!r} is not known; choose one of {sorted(known)}.")
        if is_multilabel and not INFERENCE_RULES[self.inference].takes_multilabel:
            raise ValueError(
                f"inference={self.inference!r} supposes one class at a time, which cannot be done with multilabel "
                "targets: use inference='fast'."
            )
        check_number("max_coding_iter", self.max_coding_iter, Integral)
        check_number("coding_tol", self.coding_tol, Real)
        check_number("classification_weight", self.classification_weight, Real)
        if self.classification_weight == 0:
            raise ValueError("classification_weight must be above 0: for codes without labels use make_baseline.")
        check_error_budget(self.error_budget, n_features)
        resolve_error_route(self.error_route)
        if self.n_candidates is not None:
            check_number("n_candidates", self.n_candidates, Integral)
            if self.n_candidates > n_classes:
                raise ValueError(
                    f"n_candidates={self.n_candidates}, but there are only {n_classes} classes: use None for all."
                )

    def _resolve_settings(self, n_components: int, n_features: int, is_multilabel: bool) -> FitSettings:
        """Look up the strategies and check the numbers."""
        check_number("max_iter", self.max_iter, Integral)
        for name in ("tol", "noise_floor", "cost_floor"):
            check_number(name, getattr(self, name), Real)
        for name in ("noise_floor", "cost_floor"):
            if getattr(self, name) == 0:
                raise ValueError(f"{name} must be above 0: without a floor the objective is unbounded below.")
        if self.noise not in NOISE_MODELS:
            raise ValueError(f"noise={self.noise!r} is not known; choose one of {sorted(NOISE_MODELS)}.")
        # A later set_params must not change the fitted model.
        loss = clone(resolve_loss(self.loss), safe=False)
        sparse_coder = clone(resolve_sparse_coder(self.sparse_coder), safe=False)
        registration = resolve_alignment(self.alignment, self.image_shape, n_features, sparse_coder)
        if self.align_training and registration is None:
            raise ValueError("align_training=True needs an alignment, such as alignment='affine'.")
        return FitSettings(
            loss=loss,
            sparse_coder=sparse_coder,
            dictionary_update=resolve_dictionary_update(self.dictionary_update),
            classifier_trainer=resolve_trainer(self.classifier_trainer, loss),
            noise=self.noise,
            n_nonzero_coefs=check_budget(self.n_nonzero_coefs, n_components),
            fit_intercept=self.fit_intercept,
            is_multilabel=is_multilabel,
            max_iter=self.max_iter,
            tol=self.tol,
            max_coding_iter=self.max_coding_iter,
            coding_tol=self.coding_tol,
            noise_floor=self.noise_floor,
            cost_floor=self.cost_floor,
            classification_weight=self.classification_weight,
            n_jobs=self.n_jobs,
            registration=registration if self.align_training else None,
        )

    def _count_components(self, n_labelled: int) -> int:
        if self.n_components is None:
            if self.warm_start and hasattr(self, "components_"):
                return len(self.components_)
            if not isinstance(self.init, str) and self.init is not None:
                return len(np.atleast_2d(self.init))
            n_nonzero_coefs = check_budget(self.n_nonzero_coefs, np.iinfo(np.int32).max)
            return max(min(n_labelled // _SAMPLES_PER_ATOM, _MOST_ATOMS), min(n_nonzero_coefs, n_labelled))
        if not isinstance(self.n_components, Integral) or self.n_components < 1:
            raise ValueError(f"n_components must be None or an integer of at least 1, got {self.n_components!r}.")
        return int(self.n_components)

    def _fit(self, X: Floats, y: ArrayLike, labels: NDArray[Any], classes: NDArray[Any], is_multilabel: bool) -> None:
        rng = check_random_state(self.random_state)
        n_components = self._count_components(int(np.count_nonzero(labels.any(axis=1))))
        self._check_inference(len(classes), X.shape[1], is_multilabel)
        settings = self._resolve_settings(n_components, X.shape[1], is_multilabel)
        labels = labels.astype(X.dtype)
        fitting = AlternatingFit(X, labels, settings, rng)
        context = self._init_callback_context(max_subtasks=settings.max_iter)
        # A checkpoint may know where the loop has been interrupted.
        context.call_on_fit_task_begin(estimator=self, X=X, y=y, metadata={"loop": fitting})
        progress = fitting.restored or fitting.begin(*fitting.initialise(*self._start(X, labels, n_components, rng)))

        def model_attributes(state: FitState) -> dict[str, Any]:
            return self._model_attributes(state, progress.floors, labels, classes, settings)

        def on_iteration(progress: FitProgress) -> bool:
            iteration = context.subcontext(task_name="iteration")
            iteration.call_on_fit_task_begin(estimator=self, X=X, y=y)
            return iteration.call_on_fit_task_end(
                estimator=self,
                X=X,
                y=y,
                reconstruction_attributes=lambda: {"history_": progress.history} | model_attributes(progress.state),
            )

        result = fitting.run(progress, on_iteration)
        attributes = {
            "codes_": result.state.codes.to_csr(len(result.state.dictionary)),
            "noise_variance_": result.state.noise_variance,
            "n_iter_": result.n_iter,
            "converged_": result.converged,
            "history_": result.history,
        }
        state = fitting.refit_classifiers(result.state, result.floors) if self.refit else result.state
        for name, value in (attributes | model_attributes(state)).items():
            setattr(self, name, value)
        context.call_on_fit_task_end(
            estimator=self, X=X, y=y, reconstruction_attributes=lambda: attributes | model_attributes(state)
        )

    def _start(
        self, X: Floats, labels: Floats, n_components: int, rng: np.random.RandomState
    ) -> tuple[Floats, Floats | None, Floats | None]:
        """Return the first dictionary, coefficients and intercepts."""
        if self.warm_start and hasattr(self, "components_"):
            shapes = (n_components, X.shape[1]), (labels.shape[1], n_components)
            if (self.components_.shape, self.coef_.shape) != shapes:
                raise ValueError(
                    f"warm_start=True, but the previous fit had components of shape {self.components_.shape} and coef "
                    f"of shape {self.coef_.shape}, while this one needs {shapes[0]} and {shapes[1]}: "
                    "set warm_start=False."
                )
            intercept = self.intercept_ if self.fit_intercept else np.zeros_like(self.intercept_)
            return self.components_.astype(X.dtype), self.coef_.astype(X.dtype), intercept.astype(X.dtype)
        # Of several labels the first counts; samples with none of them are a class too, unlabelled ones are not.
        first_label = np.where((labels > 0).any(axis=1), labels.argmax(axis=1), labels.shape[1])
        class_index = np.where(labels.any(axis=1), first_label, -1)
        return init_dictionary(self.init, X, class_index, n_components, rng), None, None

    @staticmethod
    def _model_attributes(
        state: FitState, floors: Floors, labels: Floats, classes: NDArray[Any], settings: FitSettings
    ) -> dict[str, Any]:
        """Return what prediction needs."""
        return {
            "classes_": classes,
            "class_prior_": np.mean(labels[labels.any(axis=1)] > 0, axis=0),
            "median_noise_variance_": float(np.median(state.noise_variance)),
            "noise_floor_": float(floors.noise_variance),
            "cost_floor_": float(floors.class_cost),
            "components_": state.dictionary,
            "coef_": state.coef,
            "intercept_": state.intercept,
            "class_cost_": state.class_cost,
            "loss_": settings.loss,
            "is_multilabel_": settings.is_multilabel,
            "sparse_coder_": settings.sparse_coder,
            "n_nonzero_coefs_": settings.n_nonzero_coefs,
        }

    def _make_predictor(self, dtype: np.dtype) -> Predictor:
        """Look up how new samples are coded and judged."""
        self._check_inference(len(self.coef_), self.components_.shape[1], self.is_multilabel_)
        n_features = self.components_.shape[1]
        coder = MaskedCoder(
            self.components_.astype(dtype, copy=False), self.sparse_coder_, self.n_nonzero_coefs_, self.n_jobs
        )
        class_cost = self.class_cost_ / self.classification_weight
        coef, intercept, class_cost = (
            array.astype(dtype, copy=False) for array in (self.coef_, self.intercept_, class_cost)
        )
        noisy_coder = NoisyCoder(
            coder,
            resolve_error_route(self.error_route),
            self.error_budget,
            float(np.sqrt(self.median_noise_variance_)),
            resolve_alignment(self.alignment, self.image_shape, n_features, self.sparse_coder_),
            self.n_jobs,
        )
        model = LabelModel(
            coder.dictionary,
            coder.gram,
            ClassifierState(coef, intercept, class_cost, self.loss_),
            self.sparse_coder_,
            self.n_nonzero_coefs_,
            self.max_coding_iter,
            self.coding_tol,
            TEST_NOISE[self.test_noise],
            TrainingNoise(self.noise_floor_, self.median_noise_variance_),
            len(self.coef_) if self.n_candidates is None else self.n_candidates,
        )
        rule = INFERENCE_RULES[self.inference](model)
        return Predictor(noisy_coder, rule, self._prior_evidence(), self.missing == "mask")

    def _prior_evidence(self) -> Floats:
        """Return the evidence of the class frequencies, for samples of which nothing else is known."""
        prior = np.clip(self.class_prior_, _SMALLEST_PRIOR, 1 - _SMALLEST_PRIOR)
        return logit(prior) if self.is_multilabel_ else np.log(prior)

    def _check_new(self, X: ArrayLike, mask: ArrayLike | None) -> tuple[Floats, Flags | None]:
        check_is_fitted(self, "components_")
        X = validate_data(self, X, dtype=[np.float64, np.float32], order="C", ensure_all_finite=False, reset=False)
        return X, check_mask(mask, X.shape)

    def _encode(self, X: ArrayLike) -> RowCodes:
        """Code new samples without labels, as :meth:`predict` does."""
        X, _ = self._check_new(X, None)
        return self._make_predictor(X.dtype).encode(X)

    def _weigh(self, X: ArrayLike, mask: ArrayLike | None) -> Floats:
        X, mask = self._check_new(X, mask)
        return self._make_predictor(X.dtype).weigh(X, mask)

    def decision_function(self, X: ArrayLike, mask: ArrayLike | None = None) -> Floats:
        """Return the evidence for each class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        mask : array-like of shape (n_samples, n_features) or (n_features,), default=None
            True where a feature is missing; the value there does not matter.

        Returns
        -------
        ndarray of shape (n_samples, n_classes), or (n_samples,) for two classes
            The log-probability of each class up to a constant; for two classes, that of the second less that of the
            first.
        """
        evidence = self._weigh(X, mask)
        if evidence.shape[1] == 2 and not self.is_multilabel_:
            return evidence[:, 1] - evidence[:, 0]
        return evidence

    def predict(self, X: ArrayLike, mask: ArrayLike | None = None) -> NDArray[Any]:
        """Return the class of largest evidence, or for multilabel targets every label whose evidence is positive.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        mask : array-like of shape (n_samples, n_features) or (n_features,), default=None
            True where a feature is missing; the value there does not matter.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            The classes, or a matrix of zeros and ones.
        """
        evidence = self._weigh(X, mask)
        if self.is_multilabel_:
            return (evidence > 0).astype(int)
        return self.classes_[evidence.argmax(axis=1)]

    def predict_proba(self, X: ArrayLike, mask: ArrayLike | None = None) -> Floats:
        """Return the probability of each class under the model (Eq. 2, or Eq. 5 in full inference), not calibrated.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        mask : array-like of shape (n_samples, n_features) or (n_features,), default=None
            True where a feature is missing; the value there does not matter.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Rows sum to one; for multilabel targets, the probability of each label alone.
        """
        evidence = self._weigh(X, mask)
        return label_probabilities(evidence) if self.is_multilabel_ else softmax(evidence, axis=1)

    def predict_log_proba(self, X: ArrayLike, mask: ArrayLike | None = None) -> Floats:
        """Return the logarithm of :meth:`predict_proba`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        mask : array-like of shape (n_samples, n_features) or (n_features,), default=None
            True where a feature is missing; the value there does not matter.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Log-probabilities, minus infinity where a probability underflows; :meth:`decision_function` does not.
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X, mask))

    def explain(self, X: ArrayLike, mask: ArrayLike | None = None) -> Explanation:
        """Take samples apart: code, gross error, reconstruction, and what they say for each class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        mask : array-like of shape (n_samples, n_features) or (n_features,), default=None
            True where a feature is missing; the value there does not matter.

        Returns
        -------
        Explanation
            All of it, under the names of the parts.
        """
        X, mask = self._check_new(X, mask)
        return self._make_predictor(X.dtype).explain(X, mask)

    def history_frame(self) -> Any:
        """Return ``history_`` as a pandas data frame, one row an iteration.

        Returns
        -------
        pandas.DataFrame
            Indexed by iteration.
        """
        check_is_fitted(self, "history_")
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("history_frame needs pandas: pip install pandas, or use history_.") from error
        return pd.DataFrame([record._asdict() for record in self.history_]).set_index("iteration")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


def _to_array(y: Any) -> NDArray[Any]:
    """Return the target as an array; NumPy alone would make strings of a list such as ["a", nan] or [1, "a"]."""
    if hasattr(y, "toarray"):  # a sparse matrix
        return y.toarray()
    if hasattr(y, "dtype") or np.asarray(y, dtype=object).ndim > 1:
        return np.asarray(y)
    return np.asarray(y, dtype=object)


def _equals(y: NDArray[Any], marker: Any) -> NDArray[np.bool_]:
    """Where y is the marker; NaN equals NaN."""
    if isinstance(marker, float | np.floating) and np.isnan(marker):
        return np.array([isinstance(value, float) and np.isnan(value) for value in y.tolist()])
    return np.array([value is marker or value == marker for value in y.tolist()], dtype=bool)


def _encode_classes(y: NDArray[Any], is_labelled: NDArray[np.bool_]) -> tuple[NDArray[np.int8], NDArray[Any]]:
    """Return labels of -1, 0 and +1, and the classes, of a target with one class per sample."""
    known = y[is_labelled]
    types = sorted({type(value).__name__ for value in known.tolist()})
    if len(types) > 1:
        raise ValueError(f"y mixes labels of the types {types}: give all labels the same type.")
    if known.dtype == object and types != ["str"]:
        known = np.array(known.tolist())
    check_classification_targets(known)
    classes, positions = np.unique(known, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            f"y holds only one class, {classes.tolist()[0]!r}: a classifier needs samples of at least two classes."
        )
    labels = np.zeros((len(y), len(classes)), np.int8)  # small until the fit gives it the dtype of X
    labels[is_labelled] = np.where(positions[:, None] == np.arange(len(classes)), 1, -1)
    return labels, classes


def _encode_indicator(y: NDArray[Any]) -> tuple[NDArray[np.int8], NDArray[np.intp]]:
    """Return labels of -1 and +1, and the columns as classes, of a multilabel target."""
    indicator = check_array(y, ensure_all_finite=True, dtype=None, input_name="y")
    if not np.isin(indicator, (0, 1)).all():
        raise ValueError(
            f"y has {indicator.shape[1]} columns, but holds values other than 0 and 1: "
            "give one class per sample, or a matrix of zeros and ones."
        )
    return np.where(indicator == 1, np.int8(1), np.int8(-1)), np.arange(indicator.shape[1])
