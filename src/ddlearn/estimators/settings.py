"""The constructor parameters of DDLClassifier, resolved and checked: what a fit and a prediction are made with.

The samples of a fit are in memory, on the workers of a Dask cluster, or come in batches.  A parameter that one of these
modes cannot honour is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _check_sample_weight

from ..classifiers import CLASSIFIER_TRAINERS, ClassifierTrainer, has_intercept, resolve_trainer
from ..coding.alignment import ALIGNMENT, Alignment, make_registration
from ..coding.coders import check_budget
from ..coding.discriminative import LABEL_CODINGS
from ..coding.encoder import SPARSE_CODERS
from ..coding.robust import ERROR_SEARCHES, ROBUSTNESS, check_error_budget
from ..describe.base import Description
from ..describe.checks import check_image_shape, has_missing
from ..describe.choice import DESCRIPTIONS, list_rivals, make_description
from ..describe.jitter import JITTER, Jitter, make_jitter
from ..dictionary import DICTIONARY_UPDATES, DictionaryUpdate
from ..fitting.data import TrainingFacts, TrainingSet, check_weight, collect_classes, is_mapped
from ..fitting.loop import FitSettings
from ..inference.rules import INFERENCE_RULES
from ..model.codes import Model
from ..model.losses import LOSSES
from ..model.scales import SCALES, ConjugateScales
from ..model.strategies import Registry, check_number
from ..parallel import warn_user
from ..refinement.refiner import REFINEMENT, Refiner

Estimator = Any  # a DDLClassifier, whose file imports this one

AUTO = "auto"  # in place of a value that is chosen
# Default size: one atom per two labelled samples, at most 500. With more atoms than labelled samples, each atom would
# be learned from a sample or two.
_SAMPLES_PER_ATOM = 2
_MOST_ATOMS = 500
_MANY_ATOMS = 20  # for each labelled sample
# Default numbers of outer iterations; refinement does the rest.
_MAX_ITER = 50
_MAX_ITER_BEFORE_REFINEMENT = 1
_MOST_VIEWS = 1000
_LARGEST_WEIGHT = 1e15  # of the classification cost, so that evidence stays in range
# Nothing changes them, so one of each serves all models.
DEFAULT_SCALES = ConjugateScales()


@dataclass(frozen=True)
class Settings:
    """What a fit is made with: what comes before and after the loop, and what the loop reads."""

    loop: FitSettings
    description: Any  # "auto", or a Description
    rivals: list[Description]  # among which a search chooses; it also chooses penalties and the cost
    n_components: int
    searches_size: bool  # whether n_components is chosen by a search, if there are enough samples for one
    init: str | Callable[[Description], ArrayLike]  # how atoms are drawn, or those given, for a description
    warm_start: Model | None  # begin with its dictionary and classifiers
    refiner: Refiner | None
    refits: bool  # train the classifiers on label-free codes after the loop
    jitter: Jitter | None  # of the refiner
    image_shape: tuple[int, int] | None
    temperature: float | None  # of the evidence, estimated on samples that the search held out
    stores_codes: bool
    n_jobs: int | None  # threads of this process, also where those of the loop are on workers


def is_auto(value: Any) -> bool:
    """Whether a value is left to be chosen."""
    return isinstance(value, str) and value == AUTO


# Parameters that are strategies, also those of strategies themselves.
ROLES: dict[str, Registry[Any]] = {
    "description": DESCRIPTIONS,
    "loss": LOSSES,
    "sparse_coder": SPARSE_CODERS,
    "label_coding": LABEL_CODINGS,
    "dictionary_update": DICTIONARY_UPDATES,
    "classifier_trainer": CLASSIFIER_TRAINERS,
    "scales": SCALES,
    "refine": REFINEMENT,
    "inference": INFERENCE_RULES,
    "robustness": ROBUSTNESS,
    "alignment": ALIGNMENT,
    "error_search": ERROR_SEARCHES,
    "jitter": JITTER,
}


def _resolve_update(model: Estimator, is_here: bool) -> DictionaryUpdate:
    update = model.dictionary_update
    if is_auto(update):
        has_penalty = SPARSE_CODERS.resolve(model.sparse_coder).has_penalty
        # K-SVD does not know of a penalty when it changes codes: it nearly always raises the objective.
        update = "atom" if has_penalty else "guarded_ksvd" if is_here else "block_coordinate"
    return DICTIONARY_UPDATES.resolve(update)


def check_dask(model: Estimator) -> None:
    """Raise if a parameter cannot be honoured where the samples are on the workers of a cluster."""
    where = "needs all samples in one place, but those of a Dask array are on its workers"
    update, trainer = _resolve_update(model, is_here=False), resolve_trainer(model.classifier_trainer, model.loss)
    if not update.is_additive:
        remedy = f"use 'auto' or {_list_additive()}, which need only sums over samples"
        _refuse(model, "dictionary_update", where, remedy)
    if not trainer.is_additive:
        _refuse(model, "classifier_trainer", where, "use 'auto', or derive it from ClassifierTrainer")
    if not is_auto(model.description) and DESCRIPTIONS.resolve(model.description).needs_all_samples:
        _refuse(model, "description", where, "use 'auto', 'unit' or 'standard', which need only sums over samples")
    if searches_size(model):
        _refuse(model, "n_components", where, "use a number, such as that of a fit to some of them in memory")


def _refuse(model: Estimator, name: str, where: str, remedy: str) -> None:
    raise ValueError(f"{name}={getattr(model, name)!r} {where}: {remedy}.")


def _list_additive() -> str:
    return " or ".join(repr(name) for name, known in DICTIONARY_UPDATES.items() if known.is_additive)


def check_complete(model: Estimator, X: Any) -> None:
    """Raise if training images lack pixels, but are to be moved."""
    if isinstance(model.alignment, Alignment) and model.alignment.training and has_missing(X):
        raise ValueError(
            f"alignment={model.alignment!r} moves training images, which must be complete, but X contains NaN: use "
            "Alignment(training=False), or impute missing pixels."
        )


def drop_weightless(X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """Return samples, target and weights, by default 1, without samples of weight 0."""
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    check_weight("sample_weight", float(weights.max()))
    kept = np.flatnonzero(weights)
    return (X, y, weights) if kept.size == len(weights) else (X[kept], _safe_indexing(y, kept), weights[kept])


def check_inference(model: Estimator, n_classes: int, n_features: int, is_multilabel: bool) -> None:
    """Raise if new samples cannot be treated as the parameters say."""
    rule = INFERENCE_RULES.resolve(model.inference)
    rule.check_classes(n_classes)
    if is_multilabel and not rule.takes_multilabel:
        raise ValueError(
            f"inference={model.inference!r} hypothesises one class at a time, which is impossible with multilabel "
            "targets: use inference='fast'."
        )
    LABEL_CODINGS.resolve(model.label_coding)
    if model.n_jobs is not None and (not isinstance(model.n_jobs, Integral) or model.n_jobs == 0):
        raise ValueError(f"n_jobs must be None or an integer other than 0, got {model.n_jobs!r}.")
    check_number("classification_weight", model.classification_weight, Real, most=_LARGEST_WEIGHT)
    if model.classification_weight == 0:
        raise ValueError("classification_weight must be above 0: for codes without labels use KSVD.")
    if model.robustness is not None:
        check_error_budget(ROBUSTNESS.resolve(model.robustness).error_budget, n_features)
    if model.image_shape is not None:
        check_image_shape(model.image_shape, n_features)
    is_integer = isinstance(model.n_views, Integral) and not isinstance(model.n_views, bool)
    if not is_integer or model.n_views < 1:
        raise ValueError(
            f"n_views must be an integer of at least 1, got {model.n_views!r}: 1 is the sample itself, more are "
            "distorted copies of an image."
        )
    check_number("n_views", model.n_views, Integral, most=_MOST_VIEWS)
    if model.n_views > 1:
        make_view_jitter(model)


def make_view_jitter(model: Estimator) -> Any:
    """Return the distortion of views: that of the refiner, by default "affine"."""
    refiner = REFINEMENT.resolve(getattr(model, "refine", None))  # a stream has none
    jitter = refiner.jitter if refiner is not None else None
    return make_jitter("affine" if jitter is None else jitter, model.image_shape)


def describe_init(model: Estimator, description: Description) -> Any:
    """Return ``init``; atoms that are given as samples are described like samples."""
    if isinstance(model.init, str) or np.shape(model.init)[1:] != (model.n_features_in_,):
        return model.init
    return description.apply(np.array(model.init, np.float64))


def _check_images(model: Estimator, description: Description) -> None:
    """Raise if images are to be distorted after a description that makes something else of them."""
    if description.images == "kept":
        return
    refiner = REFINEMENT.resolve(getattr(model, "refine", None))
    distortions = {"alignment": model.alignment is not None}
    if description.images == "lost":
        distortions["n_views"] = model.n_views > 1
        distortions["refine"] = refiner is not None and refiner.jitter is not None
    for name, is_used in distortions.items():
        if is_used:
            raise ValueError(
                f"{name}={getattr(model, name)!r} distorts images, but after description={model.description!r} they "
                "are none: use description='unit'."
            )


def make_settings(model: Estimator, training: TrainingSet, is_multilabel: bool) -> tuple[TrainingSet, Settings]:
    """Turn every parameter of a fit into an object or a checked number, or refuse it.

    The labels of samples that refinement holds out are hidden: known to the loop, they would make its model look best.
    """
    refiner = REFINEMENT.resolve(model.refine)
    if refiner is not None:
        refiner.list_costs(is_multilabel)  # raises if it does not suit
        if refiner.validation_fraction:
            training = training.hold_out(refiner.hold_out(collect_classes(training)))
    facts, is_here, is_warm, max_iter = training.facts, training.parts.is_local, _is_warm(model), model.max_iter
    n_components, has_open_size = count_components(model, facts.n_with_label), searches_size(model)
    loop = _resolve_strategies(model, facts, n_components, is_multilabel, _resolve_update(model, is_here))
    if max_iter is None:
        max_iter = _MAX_ITER if refiner is None else _MAX_ITER_BEFORE_REFINEMENT
    check_number("max_iter", max_iter, Integral)
    check_number("tol", model.tol, Real)
    registration = None
    if model.alignment is not None:
        registration = make_registration(model.alignment, model.image_shape, loop.sparse_coder)
        registration = registration if registration is not None and registration.alignment.training else None
    description = model.description_ if is_warm else model.description
    if not is_auto(description):
        description = make_description(description, model.image_shape)
        _check_images(model, description)
    jitter = None
    if refiner is not None and refiner.jitter is not None:
        jitter = make_jitter(refiner.jitter, model.image_shape)
    rivals: list[Description] = []  # none if nothing is left open
    if refiner is not None and not is_warm:
        if is_auto(description):
            rivals = list_rivals(are_images=model.image_shape is not None)
        elif None in (refiner.weight_decay, refiner.linear_decay) or not loop.sparse_coder.is_adapted:
            rivals = [description]
    n_jobs = model.n_jobs if is_here else 1  # a worker runs one thread for each part
    settings = Settings(
        loop=replace(loop, max_iter=max_iter, tol=model.tol, registration=registration, n_jobs=n_jobs),
        description=description,
        n_components=n_components,
        searches_size=has_open_size,
        init=model.init if isinstance(model.init, str) else partial(describe_init, model),
        warm_start=_take_past(model, n_components, facts) if is_warm else None,
        refiner=refiner,
        # Refinement trains classifiers of its own, but keeps the class costs of these where samples may have several
        # classes, and needs images registered as new ones are.
        refits=model.refine is not None and (refiner is None or is_multilabel or registration is not None),
        jitter=jitter,
        image_shape=model.image_shape,
        temperature=None,
        stores_codes=is_here and training.whole is not None and not is_mapped(training.whole.X),
        n_jobs=model.n_jobs,
        rivals=rivals,
    )
    return training, settings


def make_stream_settings(model: Estimator, facts: TrainingFacts, n_components: int, is_multilabel: bool) -> FitSettings:
    """Resolve the strategies of a stream, whose batches are used once, and check the numbers."""
    where, update = "cannot be honoured by partial_fit, which sees each sample once", model.dictionary_update
    trainer = resolve_trainer(model.classifier_trainer, model.loss)
    if not DICTIONARY_UPDATES.resolve(update).is_additive:
        _refuse(model, "dictionary_update", where, f"use {_list_additive()}, which need only sums over samples")
    if not trainer.is_additive or not isinstance(trainer, ClassifierTrainer):
        _refuse(model, "classifier_trainer", where, "use 'auto', or derive it from ClassifierTrainer")
    if is_auto(model.n_components):
        _refuse(model, "n_components", where, "use a number")
    if model.class_weight == "balanced":
        _refuse(model, "class_weight", where, "use a dict of weights by class")
    if isinstance(model.alignment, Alignment) and model.alignment.training:
        _refuse(model, "alignment", where, "use Alignment(training=False), or DDLClassifier")
    return _resolve_strategies(model, facts, n_components, is_multilabel, DICTIONARY_UPDATES.resolve(update))


def _resolve_strategies(
    model: Estimator, facts: TrainingFacts, n_components: int, is_multilabel: bool, update: DictionaryUpdate
) -> FitSettings:
    check_inference(model, facts.n_classes, model.n_features_in_, is_multilabel)
    # Clones: a later set_params must not change the fitted model.
    loss = clone(LOSSES.resolve(model.loss), safe=False)
    sparse_coder = clone(SPARSE_CODERS.resolve(model.sparse_coder), safe=False)
    trainer = resolve_trainer(model.classifier_trainer, loss)
    fit_intercept = has_intercept(trainer)
    return FitSettings(
        loss=loss,
        sparse_coder=sparse_coder,
        n_nonzero_coefs=check_budget(model.n_nonzero_coefs, n_components, sparse_coder),
        label_coding=clone(LABEL_CODINGS.resolve(model.label_coding)),
        dictionary_update=update,
        classifier_trainer=trainer,
        fit_intercept=fit_intercept,
        scales=DEFAULT_SCALES if model.scales == "conjugate" else clone(SCALES.resolve(model.scales)),
        classification_weight=float(model.classification_weight),
        is_multilabel=is_multilabel,
        max_iter=0,
        tol=0.0,
        registration=None,
        n_jobs=model.n_jobs,
    )


def _is_warm(model: Estimator) -> bool:
    return getattr(model, "warm_start", False) and hasattr(model, "components_")  # a stream has no warm start


def check_warm_start(model: Estimator, n_features_before: int | None) -> None:
    """Raise if samples or their description are others than those of the fit to start from."""
    if not _is_warm(model):
        return
    if model.n_features_in_ != n_features_before:
        raise ValueError(
            f"warm_start=True, but the previous fit had samples of {n_features_before} features, while this one has "
            f"samples of {model.n_features_in_}: set warm_start=False."
        )
    check_description(model, "warm_start=True goes on from: set it back, or set warm_start=False")


def check_description(model: Estimator, remedy: str) -> None:
    """Raise if the description is set to another one than that of the fitted model."""
    if is_auto(model.description):
        return
    now, before = make_description(model.description, model.image_shape), model.description_
    learned = before.get_params(deep=False)
    given = {name: value for name, value in now.get_params(deep=False).items() if value is not None}
    if type(now) is not type(before) or any(repr(value) != repr(learned[name]) for name, value in given.items()):
        raise ValueError(f"description is {now!r} now, but {type(before).__name__} in the model that {remedy}.")


def _take_past(model: Estimator, n_components: int, facts: TrainingFacts) -> Model:
    shapes = (n_components, model.components_.shape[1]), (facts.n_classes, n_components)
    if (model.components_.shape, model.coef_.shape) != shapes:
        raise ValueError(
            f"warm_start=True, but the previous fit had components of shape {model.components_.shape} and coef of "
            f"shape {model.coef_.shape}, while this one needs {shapes[0]} and {shapes[1]}: set warm_start=False."
        )
    trainer = resolve_trainer(model.classifier_trainer, model.loss)
    intercept = model.intercept_ if has_intercept(trainer) else np.zeros_like(model.intercept_)
    return Model(model.components_, model.coef_, intercept, model.class_cost_).astype(facts.dtype)


def searches_size(model: Estimator) -> bool:
    """Whether the number of atoms is searched for; an earlier fit or given atoms may have decided it."""
    return is_auto(model.n_components) and isinstance(model.init, str) and not _is_warm(model)


def count_components(model: Estimator, n_labelled: int) -> int:
    """Return the number of atoms, or the default where it is searched for."""
    if model.n_components is None or is_auto(model.n_components):
        if _is_warm(model):
            return len(model.components_)
        if not isinstance(model.init, str) and model.init is not None:
            return len(np.atleast_2d(model.init))
        n_nonzero_coefs = check_budget(model.n_nonzero_coefs, np.iinfo(np.int32).max)
        return max(min(n_labelled // _SAMPLES_PER_ATOM, _MOST_ATOMS), min(n_nonzero_coefs, n_labelled))
    if not isinstance(model.n_components, Integral) or model.n_components < 1:
        raise ValueError(f"n_components must be None, 'auto' or an integer of at least 1, got {model.n_components!r}.")
    if int(model.n_components) > _MANY_ATOMS * n_labelled:
        warn_user(
            f"n_components={model.n_components} is more than {_MANY_ATOMS} atoms for each of the {n_labelled} labelled "
            "samples: the fit takes long, and many atoms will be alike. Half as many atoms as samples are usual.",
        )
    return int(model.n_components)


def check_fitted(model: Estimator) -> None:
    """Raise if new samples cannot be treated as the parameters of a fitted model say."""
    check_inference(model, len(model.coef_), model.n_features_in_, model.is_multilabel_)
    _check_images(model, model.description_)
    if model.alignment is not None:
        make_registration(model.alignment, model.image_shape, model.sparse_coder_)
