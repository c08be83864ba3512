"""DDLClassifier: the paper's framework as a scikit-learn classifier and transformer."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length, validate_data

from ..classifiers import ClassifierTrainer
from ..coding.alignment import Alignment
from ..coding.coders import SparseCoder
from ..coding.robust import Robustness
from ..coding.rows import DiscriminativeCoding
from ..describe.base import Description
from ..describe.checks import check_form, check_training
from ..dictionary import DictionaryUpdate
from ..fitting.data import cut_into_parts, spread_over_cluster
from ..inference.rules import InferenceRule
from ..model.losses import Loss
from ..model.scales import Scales
from ..refinement.refiner import Refiner
from .prediction import DictionaryClassifier, is_lazy
from .presets import collect_parameters
from .progress import show_progress
from .run import Callbacks, choose_settings, learn
from .settings import check_complete, check_dask, check_warm_start, drop_weightless, make_settings


class DDLClassifier(CallbackSupportMixin, DictionaryClassifier):
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
        elastic net, whose penalty updates that change codes ignore), "block_coordinate" for a Dask array.
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
        "auto" is ``Refiner()``.  ``codes_``, ``noise_variance_`` and
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
    search_ : dict of ndarrays
        What was tried on held-out training samples, a column each, as in ``cv_results_`` of scikit-learn: settings that
        were not given, if the model is refined, and numbers of atoms for ``n_components="auto"``.  The last row is what
        the model has.  Columns are the setting (``description``, ``n_components``, ``alpha`` of the coder,
        ``weight_decay``, ``linear_decay``, ``cost``, ``epochs``), what it is worth (``mean_cost``, ``log_loss``,
        ``calibration_error``, ``error``), the ``temperature`` of the evidence and ``seconds``; NaN where there is none.
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
            refines the model for a low error.  If ``image_shape`` is given, "accurate" also distorts images while it
            learns and averages over views of new ones.
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
        with self._unchanged_on_failure(), show_progress() if self.verbose else nullcontext() as progress:
            X, y, weights = self._check(X, y, sample_weight)
            if is_lazy(X):
                training, targets = spread_over_cluster(X, y, self.unlabeled)
            else:
                training, targets = cut_into_parts(X, y, self.unlabeled, weights)
            try:
                if self.class_weight is not None:
                    training = training.weigh_classes(self.class_weight, targets)
                training, settings = make_settings(self, training, targets.is_multilabel)
                callbacks, rng = Callbacks(self, X, y, progress), check_random_state(self.random_state)
                # In the same variable: samples that are not described are not to stay in the memory of workers.
                on_trial = None if progress is None else progress.on_trial
                training, settings, searched = choose_settings(training, settings, on_trial)
                attributes, encoder = learn(training, targets, settings, searched, rng, callbacks)
                self._set_fitted(attributes, encoder)
                callbacks.end(attributes)
            finally:
                training.parts.release()
        return self

    def _check(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
        """Return samples, target and weights, checked as far as they are here; set what depends on samples alone."""
        n_features_before = getattr(self, "n_features_in_", None)
        self.__dict__.pop("target_name_", None)  # of an earlier fit
        if is_lazy(X):
            check_dask(self)
            if sample_weight is not None:
                raise ValueError("sample_weight needs samples in memory, not a Dask array: use class_weight.")
            self.n_features_in_ = X.shape[-1]  # whether there are rows is checked with the labels
            self.__dict__.pop("feature_names_in_", None)  # of an earlier fit; a Dask array has none
        else:
            if isinstance(name := getattr(y, "name", None), str):
                self.target_name_ = name
            check_form(X)
            X = validate_data(self, X, dtype=[np.float64, np.float32], order="C", ensure_all_finite=False)
            check_training(X, self._takes_missing, getattr(self, "feature_names_in_", None))
            check_complete(self, X)
            check_consistent_length(X, y)
            if sample_weight is not None:
                X, y, sample_weight = drop_weightless(X, y, sample_weight)
        check_warm_start(self, n_features_before)
        return X, y, sample_weight
