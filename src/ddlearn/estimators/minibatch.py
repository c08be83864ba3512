"""MiniBatchDDLClassifier: the framework for samples that come in batches and are not kept (``fitting/online.py``)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length, validate_data

from ..classifiers import ClassifierTrainer
from ..coding.alignment import Alignment
from ..coding.coders import SparseCoder
from ..coding.robust import Robustness
from ..coding.rows import DiscriminativeCoding
from ..describe.base import Description
from ..describe.checks import check_finite, check_form
from ..dictionary import DictionaryUpdate, draw_dictionary
from ..fitting.data import TrainingSet, fetch_candidates
from ..fitting.labels import Targets, find_labels, read_targets, to_array
from ..fitting.loop import FitSettings, Loop
from ..fitting.online import BatchLoop, Stream, resume_stream, start_stream
from ..inference.rules import InferenceRule
from ..model.codes import Model
from ..model.losses import Loss
from ..model.scales import Scales
from ..model.strategies import check_number
from ..parallel import refuse_dask
from .classifier import DDLClassifier
from .prediction import DictionaryClassifier
from .progress import describe_iteration, say
from .run import describe_settings
from .settings import check_description, count_components, describe_init, drop_weightless, make_stream_settings

_OF_A_FIT = {"codes_", "noise_variance_", "refinement_", "search_"}  # not of a stream


class MiniBatchDDLClassifier(DictionaryClassifier):
    """Discriminative dictionary learning from batches of samples, each used once and then forgotten.

    An approximation of :class:`DDLClassifier` without refinement.  What is kept does not grow with the number of
    samples.  Predictions are those of :class:`DDLClassifier`.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of atoms.  By default half the number of labelled samples in the first batch, but at most 500.
    forgetting : float, default=2.0
        How fast earlier samples lose weight: after n samples, the m-th counts :math:`(m/n)^{forgetting}`; 0 forgets
        nothing.  It may change from batch to batch.
    batch_size : int, default=1000
        About how many samples :meth:`fit` takes for a batch.
    dictionary_update : {"atom", "block_coordinate"} or AdditiveUpdate, default="atom"
        How the atoms are improved: by updates that need only sums over samples.
    class_weight : dict or None, default=None
        Weights of the classes, 1 for those not named.
    description, n_nonzero_coefs, loss, sparse_coder, label_coding, classifier_trainer, init : object
        As for :class:`DDLClassifier`.
    classification_weight, scales, inference, robustness, alignment, image_shape, n_views : object
        As for :class:`DDLClassifier`.
    unlabeled, verbose, n_jobs, random_state : object
        As for :class:`DDLClassifier`.

    Attributes
    ----------
    history_ : list of IterationRecord
        What each batch did.  Its ``label_free_error`` was measured before anything was learned from the batch.
    stream_ : object
        What is remembered of the samples.
    n_samples_seen_ : int
        Number of samples so far.
    classes_, components_, description_, coef_, intercept_, class_cost_, median_noise_variance_, priors_ : object
        As for :class:`DDLClassifier`, as are ``class_prior_``, ``loss_``, ``sparse_coder_`` and the others.

    See Also
    --------
    DDLClassifier : Learns from all samples at once, quicker and more accurately.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from ddlearn import MiniBatchDDLClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = MiniBatchDDLClassifier(n_components=100, random_state=0)
    >>> for start in range(0, 1500, 300):
    ...     batch = slice(start, start + 300)
    ...     _ = model.partial_fit(X[batch], y[batch], classes=range(10))
    >>> model.score(X[1500:], y[1500:]) > 0.85
    True
    """

    stream_: Stream

    def __init__(
        self,
        n_components: int | None = None,
        *,
        forgetting: float = 2.0,
        batch_size: int = 1000,
        dictionary_update: str | DictionaryUpdate = "atom",
        class_weight: dict[Any, float] | None = None,
        description: str | Description | Any | None = "auto",
        n_nonzero_coefs: int | None = None,
        loss: str | Loss = "square",
        sparse_coder: str | SparseCoder = "elastic_net",
        label_coding: str | DiscriminativeCoding = "descent",
        classifier_trainer: str | ClassifierTrainer = "auto",
        init: str | ArrayLike = "samples",
        classification_weight: float = 1.0,
        scales: str | Scales = "conjugate",
        inference: str | InferenceRule = "fast",
        robustness: float | Robustness | None = None,
        alignment: str | Alignment | None = None,
        image_shape: tuple[int, int] | None = None,
        n_views: int = 1,
        unlabeled: Any = None,
        verbose: int = 0,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ):
        self.n_components = n_components
        self.forgetting = forgetting
        self.batch_size = batch_size
        self.dictionary_update = dictionary_update
        self.class_weight = class_weight
        self.description = description
        self.n_nonzero_coefs = n_nonzero_coefs
        self.loss = loss
        self.sparse_coder = sparse_coder
        self.label_coding = label_coding
        self.classifier_trainer = classifier_trainer
        self.init = init
        self.classification_weight = classification_weight
        self.scales = scales
        self.inference = inference
        self.robustness = robustness
        self.alignment = alignment
        self.image_shape = image_shape
        self.n_views = n_views
        self.unlabeled = unlabeled
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.random_state = random_state

    @classmethod
    def go_on_from(cls, model: DDLClassifier, **parameters: Any) -> MiniBatchDDLClassifier:
        """Return an estimator that goes on from a fitted model, whose samples count by their number.

        Parameters
        ----------
        model : DDLClassifier
            The model, which stays as it is.
        **parameters : object
            Parameters of the estimator; others are those of the model, as far as both have them.

        Returns
        -------
        MiniBatchDDLClassifier
            The fitted estimator, for :meth:`partial_fit`.
        """
        names = set(cls._get_param_names()) & set(model._get_param_names()) - {"dictionary_update"}
        estimator = cls(**{name: getattr(model, name) for name in names} | parameters)
        fitted = {name: value for name, value in vars(model).items() if name.endswith("_")}
        estimator.__dict__.update({name: value for name, value in fitted.items() if name not in _OF_A_FIT})
        return estimator

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> MiniBatchDDLClassifier:
        """Begin anew, and learn from all samples in batches of about ``batch_size``, drawn at random.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,) or (n_samples, n_classes)
            The class of each sample, or for multilabel targets a matrix of zeros and ones.
        sample_weight : array-like of shape (n_samples,), default=None
            With a weight of 2 a sample counts as two; samples of weight 0 are left out.

        Returns
        -------
        MiniBatchDDLClassifier
            The estimator itself.  If something goes wrong, it is as it was before.
        """
        check_number("batch_size", self.batch_size, Integral)
        with self._unchanged_on_failure():
            for name in [name for name in vars(self) if name.endswith("_")]:
                delattr(self, name)
            X, y, weights = self._read(X, y, sample_weight)
            found = find_labels(y, self.unlabeled)
            classes = None if found.is_multilabel else found.get_targets(self.unlabeled).classes
            target, order = to_array(y), check_random_state(self.random_state).permutation(len(X))
            for rows in np.array_split(order, max(round(len(order) / max(self.batch_size, 1)), 1)):
                self._learn(X[rows], target[rows], classes, weights[rows])
        return self

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> MiniBatchDDLClassifier:
        """Learn from one more batch of samples.

        A new stream begins with atoms drawn from its first batch.  A model from :func:`load`, which has no memory of
        its samples, goes on as if these had used all atoms alike.  The priors are set anew with each batch, from all
        samples that are remembered.

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

        Returns
        -------
        MiniBatchDDLClassifier
            The estimator itself.  If something goes wrong, it is as it was before.
        """
        with self._unchanged_on_failure():
            X, y, weights = self._read(X, y, sample_weight)
            self._learn(X, y, classes, weights)
        return self

    def _read(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
        """Return checked samples, target and weights without samples of weight 0."""
        refuse_dask(X, "MiniBatchDDLClassifier", "use DDLClassifier, which leaves it on its workers, or X.compute()")
        check_number("forgetting", self.forgetting, Real)
        is_new = not hasattr(self, "components_")
        dtype = [np.float64, np.float32] if is_new else self.components_.dtype
        check_form(X)
        X = validate_data(self, X, dtype=dtype, order="C", reset=is_new, ensure_all_finite=False)
        check_finite(X, 0, remedy="batches must be complete, so remove or impute such values")
        check_consistent_length(X, y)
        return drop_weightless(X, y, sample_weight)

    def _learn(self, X: Any, y: Any, classes: Any, weights: Any) -> None:
        is_new = not hasattr(self, "components_")
        known = None if is_new else Targets(self.classes_, self.is_multilabel_)
        labels, targets = read_targets(y, classes, self.unlabeled, known)
        training = TrainingSet.of_arrays(X, labels, weights=weights)
        if self.class_weight is not None:
            training = training.weigh_classes(self.class_weight, targets)
        training = training.describe(self.description if is_new else self.description_, self.image_shape)
        stream, settings = self._begin(training, targets) if is_new else self._go_on(training)
        stream = BatchLoop(training, settings, stream, self.forgetting).learn()
        attributes = stream.attributes() | describe_settings(settings, stream.encoder)
        attributes |= {"classes_": targets.classes, "description_": training.description}
        self._set_fitted(attributes, stream.encoder)
        if self.verbose:
            say(f"{self.n_samples_seen_:,} samples: {describe_iteration(self.history_[-1])} before the last batch")

    def _begin(self, training: TrainingSet, targets: Targets) -> tuple[Stream, FitSettings]:
        facts, rng = training.facts, check_random_state(self.random_state)
        n_components = count_components(self, facts.n_with_label)
        settings = make_stream_settings(self, facts, n_components, targets.is_multilabel)
        batches, init = fetch_candidates(training, n_components, rng), describe_init(self, training.description)
        dictionary = draw_dictionary(init, batches, n_components, facts.n_features, facts.dtype, rng)
        return start_stream(Loop(training, settings).start(dictionary), settings), settings

    def _go_on(self, training: TrainingSet) -> tuple[Stream, FitSettings]:
        """Return the stream so far, or one that begins with the fitted model; and its settings."""
        settings = make_stream_settings(self, training.facts, len(self.components_), self.is_multilabel_)
        for name, now, before in self._list_fixed(settings):
            if now != before:
                raise ValueError(
                    f"{name} is {now!r} now, but {before!r} in the model that partial_fit is to go on from: "
                    "set it back, or begin with a new estimator."
                )
        check_description(self, "partial_fit is to go on from: set it back, or begin with a new estimator")
        coder = settings.sparse_coder.with_learned_parameters(self.sparse_coder_.learned_parameters())
        settings = replace(settings, sparse_coder=coder)
        if hasattr(self, "stream_"):
            return self.stream_, settings
        stream = resume_stream(
            training,
            settings,
            Model(self.components_, self.coef_, self.intercept_, self.class_cost_),
            class_prior=self.class_prior_,
            median_variance=self.median_noise_variance_,
            priors=self.priors_,
            n_samples=self.n_samples_seen_,
        )
        return stream, settings

    def _list_fixed(self, settings: FitSettings) -> Iterator[tuple[str, Any, Any]]:
        """Yield parameters that must not change from one batch to the next, as they are and as they were."""
        n_components = len(self.components_)
        yield "n_components", n_components if self.n_components is None else self.n_components, n_components
        yield "loss", type(settings.loss).__name__, type(self.loss_).__name__
        yield "sparse_coder", type(settings.sparse_coder).__name__, type(self.sparse_coder_).__name__
