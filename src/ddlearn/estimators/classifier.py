"""DDLClassifier: the paper's framework as a scikit-learn classifier and transformer."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeGuard
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.base import ClassifierMixin
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from ..classifiers import ClassifierTrainer
from ..coding.alignment import Alignment
from ..coding.coders import SparseCoder
from ..coding.encoder import Encoder
from ..coding.robust import Robustness, check_mask
from ..coding.rows import DiscriminativeCoding
from ..describe.base import Description
from ..describe.checks import check_finite, check_form
from ..dictionary import DictionaryUpdate, draw_dictionary
from ..fitting.data import (
    TrainingSet,
    collect_classes,
    cut_batch,
    cut_into_parts,
    fetch_candidates,
    spread_over_cluster,
)
from ..fitting.labels import Targets
from ..fitting.loop import FitSettings, Loop
from ..fitting.online import PastFit, Stream, begin_stream, learn_batch, resume_stream
from ..inference.lazy import predict_lazily, score_lazily
from ..inference.predictor import Predictor
from ..inference.rules import InferenceRule, label_probabilities
from ..model.codes import Flags, Floats, Model, RowCodes
from ..model.losses import Loss
from ..model.scales import Scales
from ..model.strategies import check_number
from ..parallel import is_on_dask, refuse_dask
from ..refinement.refiner import Refiner
from ..refinement.search import SettingsSearch
from ..refinement.size import SizeSearch, choose_size
from .presets import collect_parameters
from .progress import describe_iteration, say, show_progress
from .run import Attributes, FitRun, Report, describe_settings
from .settings import (
    KeptPredictor,
    Mode,
    check_description,
    check_missing,
    check_mode,
    check_warm_start,
    count_components,
    describe_atoms,
    drop_weightless,
    get_description,
    get_refiner,
    list_descriptions,
    make_predictor,
    resolve_fit,
    resolve_plan,
    searches_size,
    takes_missing,
    warn_of_marks,
)
from .transformer import DictionaryTransformer

if TYPE_CHECKING:
    from .. import Explanation, Summary

# The predictors of fitted models by precision, kept outside of the models, whose attributes predict must not change.
_PREDICTORS: WeakKeyDictionary[DDLClassifier, dict[np.dtype, KeptPredictor]] = WeakKeyDictionary()


class DDLClassifier(CallbackSupportMixin, ClassifierMixin, DictionaryTransformer):
    r"""Discriminative dictionary learning: a dictionary, sparse codes and linear classifiers, learned jointly.

    A sample is described by a few atoms of the dictionary, and the classifiers read the description.  Samples of any
    scale will do: by default the model scales them, chooses its penalties on held-out training samples, learns from all
    of them, and refines dictionary and classifiers together.  The parameters come in three groups:

    * *Basic*: ``n_components``, ``description``, ``refine``, ``class_weight``, ``unlabeled``, ``image_shape``,
      ``verbose``, ``n_jobs`` and ``random_state``.
    * *New samples*: ``inference``, ``robustness``, ``alignment`` and ``n_views``, which can be changed after the fit by
      ``set_params``.
    * *Expert*: all others.

    Parameters
    ----------
    n_components : int, "auto" or None, default=None
        Number of atoms, the paper's K.  By default half the number of labelled samples, but at most 500; "auto" tries
        sizes up to 2000 and takes the one that predicts held-out labels best.
    description : {"auto", "unit", "standard", "gradients"}, Description, transformer or None, default="auto"
        What is coded of a sample: "unit" divides it by its norm (for images and spectra), "standard" standardises each
        feature and appends a constant (for tables), "gradients" describes images by :class:`Gradients`, which makes
        fewer errors with digits and faces but shows atoms only as sketches, and a scikit-learn transformer does what it
        does.  "auto" is "unit" if ``image_shape`` is set, and otherwise the better of "unit" and "standard" on held-out
        training samples (without refinement, the one with which fewer nearest neighbours are of another class).
    n_nonzero_coefs : int or None, default=None
        Most atoms in a code, the paper's T.  By default 5, for the elastic net 256, or all atoms if there are fewer.
    loss : {"square", "exponential", "logistic", "smooth_hinge", "softplus_hinge"} or Loss, default="square"
        The classification cost.
    sparse_coder : {"omp", "ormp", "elastic_net"} or SparseCoder, default="elastic_net"
        How codes are found: two pursuits with at most T atoms, or a penalty on codes.
    label_coding : {"descent", "printed"} or DiscriminativeCoding, default="descent"
        How codes that see the labels are found (Algorithm 1): by a descent close to the minimum, or by the steps that
        the paper prints.
    dictionary_update : str or DictionaryUpdate, default="auto"
        "ksvd" (one approximate K-SVD sweep, as printed in the paper), "guarded_ksvd" (the same, but undone
        where it would raise the objective), "exact_ksvd", "atom" (never raises the objective),
        "block_coordinate", or an object.  "auto" is "guarded_ksvd" for samples in memory ("atom" for the
        elastic net, whose penalty updates that change codes ignore), "block_coordinate" for a Dask array and "atom" for
        :meth:`partial_fit`.
    classifier_trainer : str or ClassifierTrainer, default="auto"
        "square_lev", "ada_boost", "logit_boost", "linear_svm", "newton", or an object; "auto" is the one for the loss.
        Its ``fit_intercept`` says whether classifiers have an intercept.
    init : {"samples", "gaussian"} or array-like of shape (n_components, n_features), default="samples"
        The first dictionary: training samples in equal number from each class, random vectors, or these atoms, which
        are described like samples, or the ``components_`` of a model with the same description.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, 1 for those not named: a sample of weight 2 counts as two.  "balanced" gives all classes
        the same total weight.
    classification_weight : float, default=1.0
        Multiplies the classifiers' terms of the objective.  1 is the MAP estimate; 0.5 is Algorithm 1 as printed, where
        the weight lacks a factor of two.  After the fit, it changes the evidence and probabilities of new samples and
        the full rule, but not the class that the fast rule predicts.
    scales : {"conjugate", "jeffreys"} or Scales, default="conjugate"
        How noise variances and class costs are estimated: with proper priors, or with those of the paper and floors.
    max_iter : int or None, default=None
        Most iterations of the joint fit.  By default 1 before refinement, and otherwise 50.
    tol : float, default=1e-3
        The joint fit stops when two iterations in a row lower the objective by no more than shrinking all noise
        variances and class costs by this share would.
    refine : "auto", "classifiers", int, Refiner or None, default="auto"
        What is trained after the joint fit, on codes computed as for new samples: dictionary and classifiers, for a
        number of epochs or as a :class:`Refiner` says; the classifiers alone; or nothing (None), as in the paper.
        "auto" is ``Refiner()``, and "classifiers" for :meth:`partial_fit`.  ``codes_``, ``noise_variance_`` and
        ``history_`` always describe the joint fit.
    inference : {"fast", "full"} or InferenceRule, default="fast"
        How a new sample is classified: from one code without labels, or by coding it once for each class as if it were
        of that class and comparing the costs (Eq. 5 of the paper).  "full" does not support multilabel targets.
    robustness : float, Robustness or None, default=None
        What may be wrong with a new sample: the number of features (or as a float, their share) that may be grossly
        wrong, or an object that also says how missing features are marked, in training samples too.
    alignment : {"translation", "euclidean", "similarity", "affine"}, Alignment or None, default=None
        How new images may be moved into place while they are coded.
    image_shape : tuple of int or None, default=None
        Height and width of the images in the rows of X, which alignment, jitter, views and gradients need.
    n_views : int, default=1
        Number of views of a new image whose evidence is averaged: the image itself and distorted copies, with half the
        jitter of the :class:`Refiner` (by default half of "affine").  Images with missing or wrong pixels have one.
    unlabeled : object, default=None
        The value in y that marks a sample without label.  Such samples shape the dictionary, but not the classifiers.
        Not for multilabel targets.
    warm_start : bool, default=False
        Whether :meth:`fit` starts from the dictionary and classifiers of the previous fit.
    verbose : int, default=0
        Whether to show the progress of a fit on stderr: objective, held-out error and time left, as bars if rich is
        installed and otherwise as lines.
    n_jobs : int or None, default=None
        Number of threads in this process; None is 1 unless a ``joblib.parallel_config`` says otherwise, -1 all cores.
        Dask workers use one thread per part.
    random_state : int, RandomState or None, default=None
        Seed for the choice of the first atoms and for refinement.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes; for multilabel targets the column numbers.
    components_ : ndarray of shape (n_components, n_scaled_features)
        The dictionary, one atom of unit norm per row, in the space of described samples, which with "standard" has one
        more feature, the constant; ``description_.show(components_)`` is what atoms add to a sample.
    description_ : Description
        How samples are described.
    coef_ : ndarray of shape (n_classes, n_components)
        The classifiers; two rows for two classes, since each class has its own cost.
    intercept_ : ndarray of shape (n_classes,)
        Their intercepts.
    class_cost_ : ndarray of shape (n_classes,)
        The paper's :math:`\gamma_j`.
    noise_variance_ : ndarray of shape (n_samples,)
        The paper's :math:`\sigma_i^2` of the training samples, if these were in memory and not in a mapped file.
    codes_ : csr_array of shape (n_samples, n_components)
        Codes of the training samples, which saw the labels, if these were in memory and not in a mapped file;
        :meth:`transform` returns label-free ones.
    n_samples_seen_ : int
        Number of training samples.
    median_noise_variance_ : float
        The median :math:`\sigma_i^2` of the codes that the classifiers were last trained on.
    dictionary_sizes_ : list of DictionarySize
        The numbers of atoms that were tried, if ``n_components="auto"`` and neither ``init`` nor an earlier fit decides
        it; empty if there are too few samples.
    search_ : list of SearchRecord
        The settings that were tried, if the model is refined and they were not given; the last is what it has.
    priors_ : Priors
        The priors of noise variances, class costs and classifiers, which were set at the first codes.
    class_prior_ : ndarray of shape (n_classes,)
        Share of each class among the labelled training samples, the evidence for a sample without known features.
    loss_ : Loss
        The loss object.
    is_multilabel_ : bool
        Whether y was a matrix of zeros and ones.
    sparse_coder_ : SparseCoder
        The coder object, with the parameters estimated from the training samples, such as ``alpha``.
    n_nonzero_coefs_ : int
        The budget T.
    n_iter_ : int
        Outer iterations done.
    converged_ : bool
        Whether the objective had settled.
    history_ : list of IterationRecord
        What each iteration did, starting with the state before the first; its objective never rises by default.
    refinement_ : list of EpochRecord
        What each epoch of refinement did, starting with the model before the first epoch.
    stream_ : object
        What :meth:`partial_fit` remembers of the samples.
    target_name_ : str
        The name of y, if it is a column of a data frame.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if X had names that are strings.

    Notes
    -----
    The joint fit minimises the MAP objective of Ghanem and Ahuja (2011, Eq. 3)

    .. math::
        \sum_i \frac{\|y_i - D^T x_i\|^2}{2\sigma_i^2} + \frac{M+2}{2} \sum_i \ln \sigma_i^2
        + \sum_{ij} \frac{\Omega(l_{ij}(w_j^T x_i + b_j))}{\gamma_j} + (N+1) \sum_j \ln \gamma_j

    over the dictionary :math:`D`, sparse codes :math:`x_i`, one-vs-all classifiers :math:`w_j, b_j`, noise variances
    :math:`\sigma_i^2` and class costs :math:`\gamma_j`, in turn.  A new sample is coded without labels; its class is
    the one with the largest evidence :math:`(\Omega(-s_j) - \Omega(s_j))/\gamma_j` for the scores
    :math:`s_j = w_j^T x + b_j`.

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
        description: str | Description | Any | None = "auto",
        n_nonzero_coefs: int | None = None,
        loss: str | Loss = "square",
        sparse_coder: str | SparseCoder = "elastic_net",
        label_coding: str | DiscriminativeCoding = "descent",
        dictionary_update: str | DictionaryUpdate = "auto",
        classifier_trainer: str | ClassifierTrainer = "auto",
        init: str | ArrayLike = "samples",
        class_weight: dict[Any, float] | str | None = None,
        classification_weight: float = 1.0,
        scales: str | Scales = "conjugate",
        max_iter: int | None = None,
        tol: float = 1e-3,
        refine: str | int | Refiner | None = "auto",
        inference: str | InferenceRule = "fast",
        robustness: float | Robustness | None = None,
        alignment: str | Alignment | None = None,
        image_shape: tuple[int, int] | None = None,
        n_views: int = 1,
        unlabeled: Any = None,
        warm_start: bool = False,
        verbose: int = 0,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ):
        self.n_components = n_components
        self.description = description
        self.n_nonzero_coefs = n_nonzero_coefs
        self.loss = loss
        self.sparse_coder = sparse_coder
        self.label_coding = label_coding
        self.dictionary_update = dictionary_update
        self.classifier_trainer = classifier_trainer
        self.init = init
        self.class_weight = class_weight
        self.classification_weight = classification_weight
        self.scales = scales
        self.max_iter = max_iter
        self.tol = tol
        self.refine = refine
        self.inference = inference
        self.robustness = robustness
        self.alignment = alignment
        self.image_shape = image_shape
        self.n_views = n_views
        self.unlabeled = unlabeled
        self.warm_start = warm_start
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.random_state = random_state

    @classmethod
    def from_preset(cls, name: str, **overrides: Any) -> DDLClassifier:
        """Return a classifier with good settings in one word.

        A preset is nothing but constructor parameters, which ``get_params`` shows.

        Parameters
        ----------
        name : {"paper", "fast", "accurate"}
            "paper" is the algorithm that Ghanem and Ahuja print, "fast" makes a small model in seconds, and "accurate"
            has elastic-net codes and refines the model for a low error.  If ``image_shape`` is given, "accurate" also
            distorts images while it learns and averages over views of new ones.
        **overrides : object
            Constructor parameters, which take precedence over the preset.

        Returns
        -------
        DDLClassifier
            The classifier, to be fitted.

        Examples
        --------
        >>> from ddlearn import DDLClassifier
        >>> DDLClassifier.from_preset("fast", random_state=0)
        DDLClassifier(max_iter=0, n_components=100, random_state=0,
                      refine=Refiner(cost='one_vs_all', epochs=5, linear_decay=1.0,
                                     weight_decay=0.03))
        >>> DDLClassifier.from_preset("accurate").refine.jitter is None
        True
        >>> DDLClassifier.from_preset("accurate", image_shape=(8, 8)).refine.jitter
        'affine'
        """
        return cls(**collect_parameters(name, overrides, cls._get_param_names()))

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> DDLClassifier:
        """Learn dictionary and classifiers.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples; float32 stays float32.  A memory-mapped array is read a few rows at a time.  A Dask array
            is fitted on the workers of the current client, and stays there.  NaN is a missing feature, which is left
            out, if ``robustness`` says so; not on Dask.
        y : array-like of shape (n_samples,) or (n_samples, n_classes)
            The class of each sample, of any type, or for multilabel targets a matrix of zeros and ones.
        sample_weight : array-like of shape (n_samples,), default=None
            With a weight of 2 a sample counts as two, in all terms of the objective; samples of weight 0 are left out.
            Not for a Dask array.

        Returns
        -------
        DDLClassifier
            The estimator itself.  If the fit fails or is interrupted, it is as it was before.

        Raises
        ------
        LostClusterError
            If a Dask cluster goes away.
        """
        mode: Mode = "dask" if is_on_dask(X) else "memory"
        with self._unchanged_on_failure(), show_progress(self.verbose) as progress:
            n_features_before = getattr(self, "n_features_in_", None)
            self.__dict__.pop("target_name_", None)  # of an earlier fit
            if mode == "memory" and isinstance(name := getattr(y, "name", None), str):
                self.target_name_ = name
            if mode == "dask":
                check_mode(self, mode)
                if sample_weight is not None:
                    raise ValueError("sample_weight needs samples in memory, not a Dask array: use class_weight.")
                training, targets = spread_over_cluster(X, y, self.unlabeled)
                self.n_features_in_ = X.shape[1]
                self.__dict__.pop("feature_names_in_", None)  # of an earlier fit; a Dask array has none
            else:
                check_form(X)
                X = validate_data(self, X, dtype=[np.float64, np.float32], order="C", ensure_all_finite=False)
                check_missing(self, X)
                check_consistent_length(X, y)
                if sample_weight is not None:
                    X, y, sample_weight = drop_weightless(X, y, sample_weight)
                training, targets = cut_into_parts(X, y, self.unlabeled)
                warn_of_marks(targets.classes, self.unlabeled)
            try:
                check_warm_start(self, n_features_before)
                training = training.weigh(sample_weight, self.class_weight, targets)
                found = None
                if (refiner := get_refiner(self, mode)) is not None:
                    refiner.list_costs(targets.is_multilabel)  # raises if it does not suit
                    if refiner.validation_fraction > 0:
                        # Were these labels known to the loop, the unrefined model would look best.
                        training = training.hold_out(refiner.hold_out(collect_classes(training)))
                n_components = count_components(self, training.facts.n_with_label)
                settings = resolve_fit(self, training.facts, n_components, targets.is_multilabel, mode)
                if refiner is not None and (descriptions := list_descriptions(self, refiner)):
                    draw_init = partial(describe_atoms, self)
                    search = SettingsSearch(training, descriptions, settings, refiner, n_components, draw_init)
                    found = search.run(progress.on_trial)
                if found is not None:
                    settings = replace(settings, sparse_coder=found.sparse_coder)
                description = get_description(self) if found is None else found.description
                training = training.describe(description, self.image_shape)
                plan = resolve_plan(self, training, n_components, refiner, found, mode)
                n_epochs = 0 if plan.refiner is None else plan.refiner.count_epochs()
                context = self._init_callback_context(max_subtasks=settings.max_iter + n_epochs)
                report = Report(context, self, X, y)
                run = FitRun(training, targets, settings, plan, check_random_state(self.random_state), report)
                progress.watch(run)
                # A checkpoint may set where the fit resumes.
                context.call_on_fit_task_begin(estimator=self, X=X, y=y, metadata={"run": run})
                fitted = run.run()
                self._set_fitted(fitted, run.encoder)
                context.call_on_fit_task_end(estimator=self, X=X, y=y, reconstruction_attributes=lambda: fitted)
            finally:
                if mode == "dask":
                    training.parts.release()
        return self

    def _set_fitted(self, attributes: Attributes, encoder: Encoder) -> None:
        """Set fitted attributes, remove those that only an earlier fit had, and make the predictor."""
        of_earlier = {"codes_", "noise_variance_", "stream_", "refinement_", "dictionary_sizes_", "search_"}
        for name in of_earlier & set(vars(self)):
            delattr(self, name)
        for name, value in attributes.items():
            setattr(self, name, value)
        dtype = self.components_.dtype
        _PREDICTORS[self] = {dtype: KeptPredictor(self, make_predictor(self, dtype, encoder))}

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        forgetting: float = 2.0,
    ) -> DDLClassifier:
        """Learn from one more batch of samples, which need not be kept: an approximation of :meth:`fit`.

        A new stream begins with atoms drawn from its first batch, whose labelled samples also determine
        ``n_components`` if that is None.  After :meth:`fit`, or for a model from :func:`load`, learning goes on from
        that model.  ``history_`` has a record for each batch, with the error before the batch was learned as
        ``label_free_error``.  The priors are set anew with each batch, from all samples that are remembered.
        Parameters that cannot be honoured, such as epochs of refinement, are refused.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The batch: any number of samples, in the precision of the first batch.
        y : array-like of shape (n_samples,) or (n_samples, n_classes)
            The class of each sample, or for multilabel targets a matrix of zeros and ones.
        classes : array-like of shape (n_classes,), default=None
            All classes that will ever occur; required in the first call, unless targets are multilabel.
        sample_weight : array-like of shape (n_samples,), default=None
            As in :meth:`fit`.
        forgetting : float, default=2.0
            How fast earlier samples lose weight: after n samples, the m-th counts :math:`(m/n)^{forgetting}`; 0
            forgets nothing.

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
            check_number("forgetting", forgetting, Real)
            check_mode(self, "batches")
            is_new = not hasattr(self, "components_")
            dtype = [np.float64, np.float32] if is_new else self.components_.dtype
            check_form(X)
            X = validate_data(self, X, dtype=dtype, order="C", reset=is_new, ensure_all_finite=False)
            check_finite(X, 0, remedy="partial_fit takes complete samples only, so remove or impute such values")
            check_consistent_length(X, y)
            known = None if is_new else Targets(self.classes_, self.is_multilabel_)
            if sample_weight is not None:
                X, y, sample_weight = drop_weightless(X, y, sample_weight)
            training, targets = cut_batch(X, y, classes, self.unlabeled, known)
            training = training.weigh(sample_weight, self.class_weight, targets)
            training = training.describe(self.description if is_new else self.description_, self.image_shape)
            stream, settings, extra = self._begin_stream(training, targets) if is_new else self._go_on(training)
            stream = learn_batch(stream, training, settings, forgetting)
            attributes = stream.attributes(refits=self.refine is not None)
            attributes |= describe_settings(settings, stream.encoder)
            attributes |= {"classes_": targets.classes, "description_": training.description}
            self._set_fitted(attributes | extra, stream.encoder)
        if self.verbose:
            say(f"{self.n_samples_seen_:,} samples: {describe_iteration(self.history_[-1])} before the last batch")
        return self

    def _begin_stream(self, training: TrainingSet, targets: Targets) -> tuple[Stream, FitSettings, Attributes]:
        """Return a new stream, its settings and further attributes."""
        facts, rng = training.facts, check_random_state(self.random_state)
        n_components = count_components(self, facts.n_with_label)
        settings = resolve_fit(self, facts, n_components, targets.is_multilabel, "batches")
        extra, init = {}, describe_atoms(self, training.description)
        if searches_size(self):
            extra["dictionary_sizes_"] = sizes = SizeSearch(training, settings, init, deepcopy(rng)).run()
            n_components = choose_size(sizes, n_components)
        batches = fetch_candidates(training, n_components, rng)
        dictionary = draw_dictionary(init, batches, n_components, facts.n_features, facts.dtype, rng)
        return begin_stream(Loop(training, settings).start(dictionary), settings), settings, extra

    def _go_on(self, training: TrainingSet) -> tuple[Stream, FitSettings, Attributes]:
        """Return the stream so far, or one that begins with the fitted model, its settings and further attributes."""
        settings = resolve_fit(self, training.facts, len(self.components_), self.is_multilabel_, "batches")
        self._check_same_model(settings)
        coder = settings.sparse_coder.with_learned_parameters(self.sparse_coder_.learned_parameters())
        settings = replace(settings, sparse_coder=coder)
        sizes = getattr(self, "dictionary_sizes_", None)
        extra = {} if sizes is None else {"dictionary_sizes_": sizes}
        if hasattr(self, "stream_"):
            return self.stream_, settings, extra
        past = PastFit(
            Model(self.components_, self.coef_, self.intercept_, self.class_cost_),
            self.class_prior_,
            self.median_noise_variance_,
            self.priors_,
            self.n_samples_seen_,
        )
        return resume_stream(past, training, settings), settings, extra

    def _check_same_model(self, settings: FitSettings) -> None:
        """Raise if a parameter has changed that must not change from one batch to the next."""
        n_components = len(self.components_)
        for name, now, before in (
            (
                "n_components",
                self.n_components if isinstance(self.n_components, Integral) else n_components,
                n_components,
            ),
            ("loss", type(settings.loss).__name__, type(self.loss_).__name__),
            ("sparse_coder", type(settings.sparse_coder).__name__, type(self.sparse_coder_).__name__),
        ):
            if now != before:
                raise ValueError(
                    f"{name} is {now!r} now, but {before!r} in the model that partial_fit is to go on from: "
                    "set it back, or begin with a new estimator."
                )
        check_description(self, "partial_fit is to go on from: set it back, or begin with a new estimator")

    def _predictor(self, dtype: np.dtype) -> Predictor:
        """Return the predictor of the fitted model, which is made anew where something that it depends on changed."""
        kept = _PREDICTORS.setdefault(self, {})
        if dtype not in kept or not kept[dtype].is_up_to_date(self):
            kept[dtype] = KeptPredictor(self, make_predictor(self, dtype))
        return kept[dtype].predictor

    def _is_checked(self, X: ArrayLike) -> TypeGuard[Floats]:
        """Whether `validate_data` would return X as it is, for which a single sample does not have the time."""
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
        if is_on_dask(X):
            return predict_lazily(DDLClassifier.predict, self, X, mask)
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
        if is_on_dask(X):
            return predict_lazily(DDLClassifier.decision_function, self, X, mask)
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
        if is_on_dask(X):
            return predict_lazily(DDLClassifier.predict_proba, self, X, mask)
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
        if is_on_dask(X):
            return predict_lazily(DDLClassifier.predict_log_proba, self, X, mask)
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
        if is_on_dask(X):
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

    def history_frame(self) -> Any:
        """Return ``history_`` as a pandas data frame, one row per iteration.

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
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.allow_nan = takes_missing(self)
        return tags
