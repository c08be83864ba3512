"""The framework as one scikit-learn estimator: what goes in is checked here, what comes out is kept here."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logit, softmax
from sklearn.base import ClassifierMixin, clone
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from ..classifiers import ClassifierTrainer, resolve_trainer
from ..codes import RowCodes
from ..coding import (
    SparseCoder,
    check_budget,
    get_numbers,
    recall_numbers,
    resolve_sparse_coder,
)
from ..coding.alignment import Alignment, resolve_alignment
from ..coding.discriminative import ClassifierState
from ..coding.errors import ErrorRoute, resolve_error_route
from ..coding.jitter import Jitter, resolve_jitter
from ..coding.masked import Flags, MaskedCoder
from ..coding.robust import (
    MISSING,
    NoisyCoder,
    check_error_budget,
    check_mask,
)
from ..dictionary import DICTIONARY_UPDATES, DictionaryUpdate, resolve_dictionary_update
from ..fitting.data import (
    Labels,
    Targets,
    TrainingSet,
    collect_labels,
    cut_into_parts,
    hide_labels,
    spread_over_cluster,
)
from ..fitting.loop import (
    AlternatingFit,
    FinishedLoop,
    FitProgress,
    FitState,
)
from ..fitting.online import (
    EarlierModel,
    OnlineFit,
    check_same_model,
    cut_batch,
)
from ..fitting.refinement import (
    MOST_SEEDS,
    RefinedModel,
    Refinement,
    RefinementProgress,
    Refiner,
    TaskGradient,
    resolve_refiner,
)
from ..fitting.size import DictionarySize, SizeSearch, choose_size
from ..fitting.steps import FitSettings
from ..inference.lazy import lazy_on_dask, score_lazily
from ..inference.predictor import Explanation, Predictor, draw_views
from ..inference.rules import (
    INFERENCE_RULES,
    TEST_NOISE,
    LabelModel,
    TrainingNoise,
    label_probabilities,
)
from ..losses import Loss, resolve_loss
from ..objective import NOISE_MODELS, Floors
from ..parallel import is_on_dask, refuse_dask
from ..strategies import check_number
from .presets import collect_parameters
from .transformer import DictionaryTransformer

__all__ = ["DDLClassifier"]

Floats = NDArray[np.floating]

# Without n_components (docs/defaults.md): so many labelled samples for each atom, and so many atoms at most. With more
# atoms than labelled samples, each atom would be judged by a sample or two.
_SAMPLES_PER_ATOM = 2
_MOST_ATOMS = 500
# In place of a number: the training samples decide.
_AUTO = "auto"
# No class is impossible, nor certain, because the training samples happened to have none or nothing else.
_SMALLEST_PRIOR = 1e-6


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == _AUTO


def get_label_weight(model: DDLClassifier) -> float:
    """Return how much labels count for new samples: what the parameter is now, or what the fit has found."""
    if not _is_auto(model.classification_weight):
        return model.classification_weight  # type: ignore[return-value]
    if not hasattr(model, "classification_weight_"):
        raise ValueError("classification_weight='auto' is known to a fit, and this model had none: give a number.")
    return model.classification_weight_


class DDLClassifier(CallbackSupportMixin, ClassifierMixin, DictionaryTransformer):
    r"""Discriminative dictionary learning: a dictionary, sparse codes and linear classifiers, learned jointly.

    Minimises the MAP objective of Ghanem and Ahuja (2011, Eq. 3)

    .. math::
        \sum_i \frac{\|y_i - D^T x_i\|^2}{2\sigma_i^2} + \frac{M+2}{2} \sum_i \ln \sigma_i^2
        + \sum_{ij} \frac{\Omega(l_{ij}(w_j^T x_i + b_j))}{\gamma_j} + (N+1) \sum_j \ln \gamma_j

    over the dictionary :math:`D`, codes :math:`x_i` with at most :math:`T` nonzeros, one-vs-all classifiers
    :math:`w_j, b_j`, noise variances :math:`\sigma_i^2` and class costs :math:`\gamma_j`, by turns.  A new sample is
    coded without labels; its class is that of largest evidence :math:`(\Omega(-s_j) - \Omega(s_j))/\gamma_j` for
    scores :math:`s_j = w_j^T x + b_j`.  Parameters from ``inference`` to ``n_views`` say how new samples are treated;
    they can be changed after the fit by ``set_params``.

    Parameters
    ----------
    n_components : int, "auto" or None, default=None
        Number of atoms, the paper's K.  By default half the number of labelled samples, but at most 500; "auto" tries
        sizes on parts of the training samples, up to 2000, and takes the one whose labels have the shortest code.
    n_nonzero_coefs : int or None, default=None
        Atoms in a code at most, the paper's T.  By default 5, for the elastic net 256, or all atoms if there are
        fewer.
    loss : str or Loss, default="square"
        The classification cost: "square", "exponential", "logistic", "smooth_hinge", "softplus_hinge", or an object.
    sparse_coder : {"omp", "ormp", "elastic_net"} or SparseCoder, default="ormp"
        What finds codes: two pursuits with at most T atoms, or a penalty on codes.
    dictionary_update : str or DictionaryUpdate, default="ksvd"
        "ksvd" (one approximate K-SVD sweep, as printed in the paper), "exact_ksvd", "weighted_ksvd", "atom" (never
        raises the objective), "block_coordinate", "mod", or an object.  Those that change codes do not know of the
        penalty of the elastic net.
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
    classification_weight : float or "auto", default="auto"
        How much the labels count: the terms of the classifiers in the objective are multiplied by it.  1 is the MAP
        estimate; 0.5 is what the paper's Algorithm 1 does as printed, where the weight lacks a factor of two; "auto"
        is 1 for white noise, and more where residuals of the first codes lie along atoms.  It can be changed after the
        fit: evidence and probabilities of new samples, and the full rule, depend on it too, while the class that the
        fast rule finds does not.
    refit : bool, default=True
        Train the classifiers once more in the end, on codes made without labels, such as new samples have.  ``coef_``,
        ``intercept_`` and ``class_cost_`` are then those of label-free codes, while ``codes_``, ``noise_variance_`` and
        ``history_`` tell of the fit itself.
    refine : int, Refiner or None, default=None
        Epochs of refinement after the fit: dictionary and classifiers follow the gradient of the classification cost
        through label-free codes.  Not by :meth:`partial_fit`.  ``codes_`` and ``history_`` tell of the fit itself.
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
        Height and width of the images that are the rows of X, which alignment and jitter need.
    jitter : {"affine", "elastic"}, Jitter or None, default=None
        How images may be distorted at random without becoming something else: training images while they are refined,
        and the views of a new image.
    n_views : int, default=1
        How many views of a new image are judged, itself and slightly distorted copies; their evidence is averaged.
        Images with missing or wrong pixels have one view.
    align_training : bool, default=False
        Whether training images are registered too, a little in each iteration.  ``codes_`` and ``noise_variance_`` are
        then those of the registered images.
    unlabeled : object, default=None
        The value in y that marks a sample without label.  Such samples shape the dictionary, but not the classifiers.
        Not for multilabel targets.
    warm_start : bool, default=False
        Begin with the dictionary and classifiers of the previous fit.
    forgetting : float, default=2.0
        How fast :meth:`partial_fit` forgets: a sample that was the m-th of n counts :math:`(m/n)^{forgetting}`; 0
        forgets nothing.
    store_codes : bool, default=True
        Whether ``codes_`` and ``noise_variance_`` are kept after the fit: so many numbers a training sample as it has
        atoms, and one.  Those of a Dask array never are.
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
        The paper's :math:`\sigma_i^2` of the training samples, if they were to be stored.
    codes_ : csr_array of shape (n_samples, n_components)
        Codes of the training samples, which saw the labels, if they were to be stored; :meth:`transform` cannot and
        gives others.
    n_samples_seen_ : int
        Number of training samples.
    median_noise_variance_ : float
        The median :math:`\sigma_i^2` of the codes that the classifiers were last trained on.
    classification_weight_ : float
        How much the labels counted in the fit.
    dictionary_sizes_ : list of DictionarySize
        The numbers of atoms that were tried, if the samples were to decide it; none if there are too few samples.
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
        The coder object, with the numbers that the training samples decided, such as ``alpha`` of the elastic net.
    n_nonzero_coefs_ : int
        The budget T.
    n_iter_ : int
        Outer iterations done.
    converged_ : bool
        Whether the objective had settled.
    history_ : list of IterationRecord
        What each iteration did, from the state before the first.
    refinement_ : list of EpochRecord
        What each epoch of refinement did, from the model before the first, where there has been one.
    stream_ : object
        What :meth:`partial_fit` remembers of the samples, where it has been called last.
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
        n_components: int | str | None = None,
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
        classification_weight: float | str = "auto",
        refit: bool = True,
        refine: int | Refiner | None = None,
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
        jitter: str | Jitter | None = None,
        n_views: int = 1,
        align_training: bool = False,
        unlabeled: Any = None,
        warm_start: bool = False,
        forgetting: float = 2.0,
        store_codes: bool = True,
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
        self.refine = refine
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
        self.jitter = jitter
        self.n_views = n_views
        self.align_training = align_training
        self.unlabeled = unlabeled
        self.warm_start = warm_start
        self.forgetting = forgetting
        self.store_codes = store_codes
        self.sparse_output = sparse_output
        self.n_jobs = n_jobs
        self.random_state = random_state

    @classmethod
    def from_preset(cls, name: str, **overrides: Any) -> DDLClassifier:
        """Return a classifier with good settings in one word.

        A preset is nothing but parameters of the constructor, which ``get_params`` shows.

        Parameters
        ----------
        name : {"paper", "fast", "accurate"}
            "paper" is the algorithm that Ghanem and Ahuja print, "fast" makes a small model in seconds, and "accurate"
            has elastic-net codes and refines the model for a low error.  Where ``image_shape`` is given, "accurate"
            also distorts images while it learns and averages over views of new ones.
        **overrides : object
            Parameters of the constructor, which win over the preset.

        Returns
        -------
        DDLClassifier
            The classifier, to be fitted.

        Examples
        --------
        >>> from ddlearn import DDLClassifier
        >>> DDLClassifier.from_preset("fast", random_state=0)
        DDLClassifier(max_iter=5, n_components=100, random_state=0)
        >>> DDLClassifier.from_preset("accurate").jitter is None
        True
        >>> DDLClassifier.from_preset("accurate", image_shape=(8, 8)).jitter
        'elastic'
        """
        return cls(**collect_parameters(name, overrides, cls._get_param_names()))

    @with_callbacks
    def fit(self, X: Any, y: Any) -> DDLClassifier:
        """Learn dictionary and classifiers.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples; float32 stays float32.  A memory-mapped array is read a few rows at a time.  A Dask array
            is fitted on the workers of the current client, and stays there.
        y : array-like of shape (n_samples,) or (n_samples, n_classes)
            The class of each sample, of any type, or for multilabel targets a matrix of zeros and ones.

        Returns
        -------
        DDLClassifier
            The estimator itself.  If the fit fails or is interrupted, it is as it was before.

        Raises
        ------
        LostClusterError
            If a Dask cluster goes away.
        """
        with self._unchanged_on_failure():
            if is_on_dask(X):
                self._check_strategies_for_parts()
                training, targets = spread_over_cluster(X, y, self.unlabeled)
                self.n_features_in_ = X.shape[1]
                if hasattr(self, "feature_names_in_"):  # of an earlier fit; a Dask array has none
                    del self.feature_names_in_
            else:
                X = validate_data(self, X, dtype=[np.float64, np.float32], order="C")
                check_consistent_length(X, y)
                training, targets = cut_into_parts(X, y, self.unlabeled)
            try:
                self._fit(X, y, training, targets)
            finally:
                training.parts.release()
        return self

    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None) -> DDLClassifier:
        """Go on learning from a batch of samples, which need not be kept: an approximation of :meth:`fit`.

        A new stream begins with atoms drawn from its first batch, whose labelled samples also decide ``n_components``
        where that is None.  After :meth:`fit`, or a file read by :func:`load`, it goes on from that model.  A
        ``dictionary_update`` that needs more than sums over samples, or changes codes, is replaced by "atom".
        ``history_`` has a record for each batch, with the error before the batch was learned as ``label_free_error``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The batch; any number of samples, in the precision of the first batch.
        y : array-like of shape (n_samples,) or (n_samples, n_classes)
            The class of each sample, or for multilabel targets a matrix of zeros and ones.
        classes : array-like of shape (n_classes,), default=None
            All classes that will ever come.  The first call needs them, unless targets are multilabel.

        Returns
        -------
        DDLClassifier
            The estimator itself.  If something goes wrong, it is as it was before.

        See Also
        --------
        fit : Learns from all samples at once.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from ddlearn import DDLClassifier
        >>> X, y = load_digits(return_X_y=True)
        >>> model = DDLClassifier(n_components=100, random_state=0)
        >>> for start in range(0, 1500, 300):
        ...     batch = slice(start, start + 300)
        ...     _ = model.partial_fit(X[batch], y[batch], classes=range(10))
        >>> model.score(X[1500:], y[1500:]) > 0.85
        True
        """
        with self._unchanged_on_failure():
            refuse_dask(X, "partial_fit", "use fit, which leaves it on its workers, or pass X.compute()")
            is_new = not hasattr(self, "components_")
            dtype = [np.float64, np.float32] if is_new else self.components_.dtype
            X = validate_data(self, X, dtype=dtype, order="C", reset=is_new)
            check_consistent_length(X, y)
            known = None if is_new else Targets(self.classes_, self.is_multilabel_)
            self._learn_batch(*cut_batch(X, y, classes, self.unlabeled, known))
        return self

    def _learn_batch(self, training: TrainingSet, targets: Targets) -> None:
        """Make the model that a batch leads to."""
        check_number("forgetting", self.forgetting, Real)
        facts, is_new = training.facts, not hasattr(self, "components_")
        n_components = self._count_components(facts.n_with_label) if is_new else len(self.components_)
        self._check_inference(facts.n_classes, facts.n_features, targets.is_multilabel)
        settings = self._resolve_settings(n_components, facts.n_features, targets.is_multilabel)
        online = OnlineFit(training, settings, self.forgetting)
        sizes = getattr(self, "dictionary_sizes_", [])
        if is_new:
            rng = check_random_state(self.random_state)
            sizes = self._try_sizes(training, settings, rng)
            stream = online.begin(self.init, choose_size(sizes, n_components), rng)
        else:
            check_same_model(self, settings)
            if settings.estimate_weight:
                weight = get_label_weight(self)
                online.settings = replace(online.settings, classification_weight=weight, estimate_weight=False)
            coder = recall_numbers(settings.sparse_coder, get_numbers(self.sparse_coder_))
            online.settings = replace(online.settings, sparse_coder=coder)
            stream = getattr(self, "stream_", None) or online.resume(EarlierModel.of(self))
        stream = online.learn(stream)
        self._keep(
            stream.get_attributes(self.refit)
            | self._tell_sizes(sizes)
            | {
                "classes_": targets.classes,
                "classification_weight_": float(online.settings.classification_weight),
                "loss_": settings.loss,
                "is_multilabel_": settings.is_multilabel,
                "sparse_coder_": online.settings.sparse_coder,
                "n_nonzero_coefs_": min(settings.n_nonzero_coefs, len(stream.dictionary)),
            }
        )

    def _keep(self, attributes: dict[str, Any]) -> None:
        """Set fitted attributes; what an earlier fit had beside them goes."""
        for name in {"codes_", "noise_variance_", "stream_", "refinement_", "dictionary_sizes_"} & set(vars(self)):
            delattr(self, name)
        for name, value in attributes.items():
            setattr(self, name, value)

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
        if not _is_auto(self.classification_weight):
            check_number("classification_weight", self.classification_weight, Real)
        if self.classification_weight == 0:
            raise ValueError("classification_weight must be above 0: for codes without labels use make_baseline.")
        check_error_budget(self.error_budget, n_features)
        resolve_jitter(self.jitter, self.image_shape, n_features)
        check_number("n_views", self.n_views, Integral)
        if self.n_views == 0 or (self.n_views > 1 and self.jitter is None):
            raise ValueError(
                f"n_views={self.n_views!r}: at least 1, the sample itself; more are distorted copies and need a "
                "jitter, such as jitter='affine'."
            )
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
        estimate_weight = _is_auto(self.classification_weight)
        return FitSettings(
            loss=loss,
            sparse_coder=sparse_coder,
            dictionary_update=resolve_dictionary_update(self.dictionary_update),
            classifier_trainer=resolve_trainer(self.classifier_trainer, loss),
            noise=self.noise,
            n_nonzero_coefs=check_budget(self.n_nonzero_coefs, n_components, sparse_coder),
            fit_intercept=self.fit_intercept,
            is_multilabel=is_multilabel,
            max_iter=self.max_iter,
            tol=self.tol,
            max_coding_iter=self.max_coding_iter,
            coding_tol=self.coding_tol,
            noise_floor=self.noise_floor,
            cost_floor=self.cost_floor,
            classification_weight=1.0 if estimate_weight else float(self.classification_weight),
            estimate_weight=estimate_weight,
            n_jobs=self.n_jobs,
            registration=registration if self.align_training else None,
        )

    def _check_strategies_for_parts(self) -> None:
        """Raise if a strategy needs all samples in one place."""
        if self.refine is not None:
            raise ValueError(
                f"refine={self.refine!r} needs all samples in one place, but those of a Dask array lie on its workers: "
                "use refine=None, or fit a part of them in memory."
            )
        if self._searches_size():
            raise ValueError(
                f"n_components={self.n_components!r} needs all samples in one place, but those of a Dask array lie on "
                "its workers: give a number, such as that of a fit to a part of them in memory."
            )
        loss = resolve_loss(self.loss)
        update = resolve_dictionary_update(self.dictionary_update)
        trainer = resolve_trainer(self.classifier_trainer, loss)
        additive = [name for name, each in DICTIONARY_UPDATES.items() if each.is_additive]
        for name, strategy, choices in (
            ("dictionary_update", update, additive),
            ("classifier_trainer", trainer, ["auto"]),
        ):
            if not strategy.is_additive:
                raise ValueError(
                    f"{name}={getattr(self, name)!r} needs all samples in one place, but those of a Dask array lie on "
                    f"its workers: use {name}={' or '.join(map(repr, choices))}, which needs only sums over them."
                )

    def _count_components(self, n_labelled: int) -> int:
        if self.n_components is None or _is_auto(self.n_components):
            if self.warm_start and hasattr(self, "components_"):
                return len(self.components_)
            if not isinstance(self.init, str) and self.init is not None:
                return len(np.atleast_2d(self.init))
            n_nonzero_coefs = check_budget(self.n_nonzero_coefs, np.iinfo(np.int32).max)
            return max(min(n_labelled // _SAMPLES_PER_ATOM, _MOST_ATOMS), min(n_nonzero_coefs, n_labelled))
        if not isinstance(self.n_components, Integral) or self.n_components < 1:
            raise ValueError(
                f"n_components must be None, 'auto' or an integer of at least 1, got {self.n_components!r}."
            )
        return int(self.n_components)

    def _searches_size(self) -> bool:
        """Return whether the samples decide how many atoms there are; an earlier fit or given atoms may have."""
        is_open = isinstance(self.init, str) and not (self.warm_start and hasattr(self, "components_"))
        return is_open and _is_auto(self.n_components)

    def _try_sizes(
        self, training: TrainingSet, settings: FitSettings, rng: np.random.RandomState
    ) -> list[DictionarySize]:
        """Try numbers of atoms, if the samples are to decide."""
        if not self._searches_size():
            return []
        # With random numbers of its own: the fit is that of a model which is given this number of atoms.
        return SizeSearch(training, settings, self.init, deepcopy(rng)).run()

    def _tell_sizes(self, sizes: list[DictionarySize]) -> dict[str, Any]:
        return {"dictionary_sizes_": sizes} if _is_auto(self.n_components) else {}

    def _fit(self, X: Any, y: Any, training: TrainingSet, targets: Targets) -> None:
        rng = check_random_state(self.random_state)
        refiner = resolve_refiner(self.refine, targets.is_multilabel, resolve_loss(self.loss))
        if refiner is not None:
            labels = collect_labels(training)
            held_out = refiner.hold_out(labels)
            training = hide_labels(training, labels, held_out)
        facts = training.facts
        n_components = self._count_components(facts.n_with_label)
        self._check_inference(facts.n_classes, facts.n_features, targets.is_multilabel)
        settings = self._resolve_settings(n_components, facts.n_features, targets.is_multilabel)
        if not training.is_local:
            settings = replace(settings, n_jobs=1)  # a worker has a thread for each part that it works on
        fitting = AlternatingFit(training, settings, rng)
        n_epochs = 0 if refiner is None else refiner.epochs
        context = self._init_callback_context(max_subtasks=settings.max_iter + n_epochs)
        # A checkpoint may know where the loop has been interrupted.
        context.call_on_fit_task_begin(estimator=self, X=X, y=y, metadata={"loop": fitting})

        def model_attributes(state: FitState, floors: Floors) -> dict[str, Any]:
            return self._model_attributes(fitting, state, floors, targets)

        def tell(task_name: str, reconstruction_attributes: Callable[[], dict[str, Any]]) -> bool:
            task = context.subcontext(task_name=task_name)
            task.call_on_fit_task_begin(estimator=self, X=X, y=y)
            return task.call_on_fit_task_end(
                estimator=self, X=X, y=y, reconstruction_attributes=reconstruction_attributes
            )

        def on_iteration(progress: FitProgress) -> bool:
            return tell(
                "iteration",
                lambda: {"history_": progress.history} | model_attributes(progress.state, progress.floors),
            )

        # Without a name for it, the first state goes when the second has come.
        result = fitting.run(self._begin(fitting, n_components), on_iteration)
        attributes = {"n_iter_": result.n_iter, "converged_": result.converged, "history_": result.history}
        if self.store_codes and training.is_local:
            rows = result.state.collect_rows()
            attributes["codes_"] = rows.codes.to_csr(len(result.state.dictionary))
            attributes["noise_variance_"] = rows.noise_variance
        state = fitting.refit_classifiers(result.state, result.floors) if self.refit else result.state
        attributes |= model_attributes(state, result.floors)
        attributes |= self._tell_sizes(fitting.dictionary_sizes)
        if refiner is not None:
            refinement = self._prepare_refinement(refiner, fitting, state, labels, held_out)

            def refined_attributes(progress: RefinementProgress) -> dict[str, Any]:
                return self._refined_attributes(refinement, progress, fitting, result.floors)

            def on_epoch(progress: RefinementProgress) -> bool:
                return tell("epoch", lambda: attributes | refined_attributes(progress))

            begin = self._begin_refinement(refinement, fitting, result, state)
            attributes |= refined_attributes(refinement.run(begin, on_epoch))
        self._keep(attributes)
        context.call_on_fit_task_end(estimator=self, X=X, y=y, reconstruction_attributes=lambda: attributes)

    def _prepare_refinement(
        self, refiner: Refiner, fitting: AlternatingFit, state: FitState, labels: Labels, held_out: NDArray[np.intp]
    ) -> Refinement:
        """Gather what refinement needs."""
        settings, facts = fitting.settings, fitting.facts
        class_cost = state.class_cost / settings.classification_weight  # as in prediction
        cost = refiner.choose_cost(settings.is_multilabel, settings.loss)(settings.loss, class_cost)
        return Refinement(
            refiner,
            TaskGradient(settings.sparse_coder, settings.n_nonzero_coefs, cost, settings.n_jobs),
            fitting.collect_samples(state),
            labels,
            held_out,
            is_multilabel=settings.is_multilabel,
            fit_intercept=settings.fit_intercept,
            jitter=resolve_jitter(self.jitter, self.image_shape, facts.n_features),
            image_shape=self.image_shape,
        )

    @staticmethod
    def _begin_refinement(
        refinement: Refinement, fitting: AlternatingFit, result: FitProgress, state: FitState
    ) -> RefinementProgress:
        """Return where refinement begins, or where a checkpoint says that it had come to."""
        finished = FinishedLoop(result, deepcopy(fitting.rng))
        refinement.keepers = [partial(keep, finished) for keep in fitting.refinement_keepers]
        # Drawn even if it is known, so that a generator of the user ends as if there had been no interruption.
        seed = int(fitting.rng.randint(MOST_SEEDS))
        if fitting.restored_refinement is not None:
            restored, fitting.restored_refinement = fitting.restored_refinement, None
            return restored
        return refinement.begin(
            RefinedModel(state.dictionary, np.ascontiguousarray(state.coef.T), state.intercept), seed
        )

    @staticmethod
    def _refined_attributes(
        refinement: Refinement, progress: RefinementProgress, fitting: AlternatingFit, floors: Floors
    ) -> dict[str, Any]:
        """Return what refinement changes of a model."""
        best = progress.best
        class_cost, misfit = refinement.measure(best)
        noise_variance = np.maximum(misfit / (fitting.facts.n_features + 2), floors.noise_variance)
        return {
            "components_": best.dictionary,
            "coef_": np.ascontiguousarray(best.coef_by_atom.T),
            "intercept_": best.intercept,
            "class_cost_": class_cost * fitting.settings.classification_weight,  # by which prediction divides
            "median_noise_variance_": float(np.median(noise_variance)),
            "refinement_": progress.history,
        }

    def _begin(self, fitting: AlternatingFit, n_components: int) -> FitProgress:
        """Return where the loop begins, or where a checkpoint says that it had come to."""
        if fitting.restored is not None:
            restored, fitting.restored = fitting.restored, None
            return restored
        fitting.dictionary_sizes = self._try_sizes(fitting.training, fitting.settings, fitting.rng)
        n_components = choose_size(fitting.dictionary_sizes, n_components)
        return fitting.begin(*fitting.initialise(*self._start(fitting, n_components)))

    def _start(self, fitting: AlternatingFit, n_components: int) -> tuple[Floats, Floats | None, Floats | None]:
        """Return the first dictionary, coefficients and intercepts."""
        facts = fitting.facts
        if self.warm_start and hasattr(self, "components_"):
            shapes = (n_components, facts.n_features), (facts.n_classes, n_components)
            if (self.components_.shape, self.coef_.shape) != shapes:
                raise ValueError(
                    f"warm_start=True, but the previous fit had components of shape {self.components_.shape} and coef "
                    f"of shape {self.coef_.shape}, while this one needs {shapes[0]} and {shapes[1]}: "
                    "set warm_start=False."
                )
            intercept = self.intercept_ if self.fit_intercept else np.zeros_like(self.intercept_)
            return (
                self.components_.astype(facts.dtype),
                self.coef_.astype(facts.dtype),
                intercept.astype(facts.dtype),
            )
        return fitting.draw_dictionary(self.init, n_components), None, None

    @staticmethod
    def _model_attributes(fitting: AlternatingFit, state: FitState, floors: Floors, targets: Targets) -> dict[str, Any]:
        """Return what prediction needs."""
        facts, settings = fitting.facts, fitting.settings
        return {
            "classes_": targets.classes,
            "class_prior_": facts.n_positive / facts.n_with_label,
            "n_samples_seen_": facts.n_samples,
            "median_noise_variance_": fitting.find_median_noise(state),
            "classification_weight_": settings.classification_weight,
            "noise_floor_": float(floors.noise_variance),
            "cost_floor_": float(floors.class_cost),
            "components_": state.dictionary,
            "coef_": state.coef,
            "intercept_": state.intercept,
            "class_cost_": state.class_cost,
            "loss_": settings.loss,
            "is_multilabel_": settings.is_multilabel,
            "sparse_coder_": settings.sparse_coder,
            "n_nonzero_coefs_": min(settings.n_nonzero_coefs, len(state.dictionary)),
        }

    def _make_predictor(self, dtype: np.dtype) -> Predictor:
        """Look up how new samples are coded and judged."""
        self._check_inference(len(self.coef_), self.components_.shape[1], self.is_multilabel_)
        n_features = self.components_.shape[1]
        coder = MaskedCoder(
            self.components_.astype(dtype, copy=False), self.sparse_coder_, self.n_nonzero_coefs_, self.n_jobs
        )
        class_cost = self.class_cost_ / get_label_weight(self)
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
        jitter = resolve_jitter(self.jitter, self.image_shape, n_features)
        views = draw_views(jitter, self.image_shape, self.n_views, dtype)
        return Predictor(noisy_coder, rule, self._prior_evidence(), self.missing == "mask", views)

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

    @lazy_on_dask
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

    @lazy_on_dask
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

    @lazy_on_dask
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

    @lazy_on_dask
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

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the share of samples whose class, or whose labels all together, are predicted right.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,) or (n_samples, n_classes)
            What is right.
        sample_weight : array-like of shape (n_samples,), default=None
            How much each sample counts.

        Returns
        -------
        float
            From 0 to 1.
        """
        if is_on_dask(X):
            return score_lazily(self.predict(X), y, sample_weight)
        return super().score(X, y, sample_weight)

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
        refuse_dask(X, "explain", "explain a few of them, as X[:10].compute()")
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
