"""What the steps of Algorithm 2 do to a part of the training set, where it lies.

Each takes a part and what all parts need, and returns the part as it is then, or sums over it.  ``fitting.py`` puts
them together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..classifiers import ClassifierTrainer
from ..codes import RowCodes
from ..coding import SparseCoder, encode_rows, measure_misfit
from ..coding.alignment import Registration
from ..coding.discriminative import ClassifierState, DiscriminativeCoder
from ..coding.masked import MaskedCoder
from ..coding.robust import NoisyCoder
from ..dictionary import DictionaryUpdate, WorstSamples, count_users
from ..inference.rules import compute_evidence, count_errors
from ..losses import Loss
from ..objective import (
    NOISE_MODELS,
    compute_scores,
    measure_residuals,
    sum_costs,
    sum_noise_terms,
)
from .data import Floats, TrainingPart


@dataclass(frozen=True)
class FitSettings:
    """How to fit; all of it checked and resolved."""

    loss: Loss
    sparse_coder: SparseCoder
    dictionary_update: DictionaryUpdate
    classifier_trainer: ClassifierTrainer
    noise: str
    n_nonzero_coefs: int
    fit_intercept: bool
    is_multilabel: bool
    max_iter: int
    tol: float
    max_coding_iter: int
    coding_tol: float
    noise_floor: float
    cost_floor: float
    classification_weight: float
    n_jobs: int | None
    registration: Registration | None = None  # of training samples
    estimate_weight: bool = False  # whether the first codes decide classification_weight


def _encode_label_free(X: Floats, settings: FitSettings, dictionary: Floats, first_row: int = 0) -> RowCodes:
    coder, n_nonzero_coefs, n_jobs = settings.sparse_coder, settings.n_nonzero_coefs, settings.n_jobs
    return encode_rows(X, dictionary, coder, n_nonzero_coefs, n_jobs=n_jobs, first_row=first_row)


def code_label_free(part: TrainingPart, settings: FitSettings, dictionary: Floats) -> TrainingPart:
    """Code samples as new ones are, without their labels."""
    return replace(part, codes=_encode_label_free(part.X, settings, dictionary, part.first_row))


def register(part: TrainingPart, settings: FitSettings, dictionary: Floats, n_rounds: int | None) -> TrainingPart:
    """Register images to the dictionary: so many rounds from where they are, or for None anew until they rest."""
    if settings.registration is None:
        return part
    coder = NoisyCoder(MaskedCoder(dictionary, settings.sparse_coder, settings.n_nonzero_coefs, settings.n_jobs))
    positions = None if n_rounds is None else part.positions
    X, positions = settings.registration.register_all(part.images, coder, positions, n_rounds, settings.n_jobs)
    return replace(part, X=X, positions=positions)


class StepCounts(NamedTuple):
    """How many coding steps were taken, and how many undone."""

    n_accepted: int
    n_rejected: int


def code_discriminatively(
    part: TrainingPart, settings: FitSettings, dictionary: Floats, coef: Floats, intercept: Floats, class_cost: Floats
) -> tuple[TrainingPart, StepCounts]:
    """Discriminative sparse coding (Algorithm 1), starting from the codes there are."""
    part = register(part, settings, dictionary, n_rounds=1)
    dtype = part.X.dtype
    coder = DiscriminativeCoder(
        dictionary,
        ClassifierState(coef, intercept, (class_cost / settings.classification_weight).astype(dtype), settings.loss),
        settings.sparse_coder,
        settings.n_nonzero_coefs,
        settings.max_coding_iter,
        settings.coding_tol,
        settings.n_jobs,
    )
    codes, record = coder.encode(part.X, part.labels.astype(dtype), part.noise_variance, part.codes)
    return replace(part, codes=codes), StepCounts(record.n_accepted, record.n_rejected)


def sum_statistics(
    part: TrainingPart, settings: FitSettings, n_components: int, variance_unit: float
) -> tuple[Any, NDArray[np.intp]]:
    """Return what an additive dictionary update needs to know of a part, and how many samples use each atom."""
    precision = variance_unit / part.noise_variance  # only ratios matter, and these fit in any dtype
    statistics = settings.dictionary_update.statistics(  # type: ignore[attr-defined]
        part.X, part.codes, precision, n_components, n_jobs=settings.n_jobs
    )
    return statistics, count_users(part.codes, n_components)


def scale_codes(part: TrainingPart, atom_scale: Floats) -> TrainingPart:
    """Multiply the codes of each atom by a factor."""
    codes = RowCodes(part.codes.indices, part.codes.values * atom_scale[part.codes.indices])
    return replace(part, codes=codes)


def measure_part(
    part: TrainingPart, settings: FitSettings, dictionary: Floats, coef: Floats, intercept: Floats
) -> tuple[TrainingPart, tuple[float, NDArray[np.float64]]]:
    """Measure misfits; return their sum, and each class's sum of costs."""
    residuals = measure_residuals(part.X, part.codes, dictionary, settings.n_jobs)
    misfits = measure_misfit(settings.sparse_coder, residuals, part.codes)
    labels = part.labels.astype(part.X.dtype)
    costs = sum_costs(labels, compute_scores(part.codes, coef, intercept), settings.loss)
    return replace(part, misfits=misfits), (float(np.sum(misfits, dtype=np.float64)), costs)


def sum_noise(part: TrainingPart) -> tuple[float, float]:
    """Return what a part adds to the terms of representation and noise."""
    return sum_noise_terms(part.misfits, part.noise_variance, part.X.shape[1])


class Tally(NamedTuple):
    """What is counted for the record of an iteration."""

    n_at_floor: int
    n_wrong: int  # with the codes that saw the labels
    n_judged: int
    n_watched_wrong: int  # with codes as new samples have
    n_watched: int


def _judge(
    codes: RowCodes, labels: NDArray[np.int8], settings: FitSettings, classifiers: ClassifierState
) -> tuple[int, int]:
    if not labels.any():
        return 0, 0
    scores = compute_scores(codes, classifiers.coef, classifiers.intercept)
    evidence = compute_evidence(scores, settings.loss, classifiers.class_cost)
    return count_errors(labels, evidence, settings.is_multilabel)


def count_mistakes(part: TrainingPart, settings: FitSettings, classifiers: ClassifierState) -> tuple[int, int]:
    """Return how many samples (multilabel: labels) get a wrong class from their codes, and how many are labelled."""
    return _judge(part.codes, part.labels, settings, classifiers)


def _count(
    part: TrainingPart,
    settings: FitSettings,
    dictionary: Floats,
    classifiers: ClassifierState,
    floor: float,
    stride: int,
) -> Tally:
    """Count samples at the floor and mistakes; every ``stride``-th row is watched."""
    watched = slice(-part.first_row % stride, None, stride)  # a view: to draw samples would copy them
    X = part.X[watched]
    label_free = RowCodes.empty(0, 1, X.dtype)
    if len(X):
        label_free = _encode_label_free(X, settings, dictionary)
    at_floor = part.noise_variance <= part.noise_variance.dtype.type(floor)
    return Tally(
        int(np.count_nonzero(at_floor)),
        *count_mistakes(part, settings, classifiers),
        *_judge(label_free, part.labels[watched], settings, classifiers),
    )


def estimate_noise(part: TrainingPart, settings: FitSettings, mean_misfit: float, floor: float) -> TrainingPart:
    """Give samples the noise variances that their misfits, or the mean of all, make best."""
    estimate = NOISE_MODELS[settings.noise]
    return replace(part, noise_variance=estimate(part.misfits, mean_misfit, part.X.shape[1], floor))


def settle_scales(
    part: TrainingPart,
    settings: FitSettings,
    dictionary: Floats,
    coef: Floats,
    intercept: Floats,
    class_cost: Floats,
    mean_misfit: float,
    floor: float,
    stride: int,
) -> tuple[TrainingPart, tuple[tuple[float, float], Tally]]:
    """Give samples their noise variances, add up the terms that these are in, and count for the record.

    Returns the terms of the objective that are left then, and what is counted for the record.
    """
    part = estimate_noise(part, settings, mean_misfit, floor)
    classifiers = ClassifierState(coef, intercept, class_cost, settings.loss)
    return part, (sum_noise(part), _count(part, settings, dictionary, classifiers, floor, stride))


def sum_residual_energy(part: TrainingPart, dictionary: Floats, stride: int) -> tuple[float, float, float]:
    """Return the energies of every ``stride``-th sample, of its residual, and of the residual along all atoms."""
    watched = slice(-part.first_row % stride, None, stride)
    X = part.X[watched]
    residuals = X - part.codes.rows(watched).to_csr(len(dictionary)) @ dictionary
    energies = (np.sum(np.square(each), dtype=np.float64) for each in (X, residuals, residuals @ dictionary.T))
    return tuple(map(float, energies))  # type: ignore[return-value]


def get_labels(part: TrainingPart) -> NDArray[np.int8]:
    """Return the labels."""
    return part.labels


def get_seen(part: TrainingPart) -> Floats:
    """Return what is seen of the samples."""
    return part.X


def get_itself(part: Any) -> Any:
    """Return the part, of whatever kind."""
    return part


def get_misfits(part: TrainingPart) -> Floats:
    """Return the misfits last measured."""
    return part.misfits


def get_noise_variance(part: TrainingPart) -> Floats:
    """Return the noise variances."""
    return part.noise_variance


def measure_errors(part: TrainingPart, settings: FitSettings, dictionary: Floats) -> Floats:
    """Return squared residuals for another dictionary."""
    return measure_residuals(part.X, part.codes, dictionary, settings.n_jobs)


def find_worst(
    part: TrainingPart, settings: FitSettings, dictionary: Floats, n_wanted: int, largest_error: float
) -> WorstSamples:
    """Return the worst represented samples of a part."""
    errors = measure_errors(part, settings, dictionary)
    return WorstSamples.find(part.X, errors, part.first_row, n_wanted, largest_error)


def index_classes(part: TrainingPart) -> NDArray[np.intp]:
    """Return each sample's class for the draw of first atoms; -1 for an unlabelled one.

    Of several labels the first counts; samples with none of them are a class too, unlabelled ones are not.
    """
    labels = part.labels
    first_label = np.where((labels > 0).any(axis=1), labels.argmax(axis=1), labels.shape[1])
    return np.where(labels.any(axis=1), first_label, -1)


def count_classes(part: TrainingPart) -> NDArray[np.int64]:
    """Return how many samples each class has; first stands the number of unlabelled ones."""
    return np.bincount(index_classes(part) + 1, minlength=part.labels.shape[1] + 2)


class Candidates(NamedTuple):
    """Samples that may become first atoms."""

    rows: NDArray[np.int32]  # of the part
    class_index: NDArray[np.signedinteger]


def find_candidates(part: TrainingPart, request: tuple[NDArray[np.int64], NDArray[np.int64]]) -> Candidates:
    """Return every s-th sample of each class, s for each class, counted on from the parts before."""
    n_before, strides = request
    index = index_classes(part)
    is_candidate = np.zeros(len(index), bool)
    for position, stride in enumerate(strides):
        rows = np.flatnonzero(index == position - 1)
        is_candidate[rows[-n_before[position] % stride :: stride]] = True
    # In few bytes, since this comes from all parts to one place.
    smallest = np.min_scalar_type(-len(strides))
    return Candidates(np.flatnonzero(is_candidate).astype(np.int32), index[is_candidate].astype(smallest))


def take_rows(part: TrainingPart, rows: NDArray[np.intp]) -> tuple[NDArray[np.intp], Floats]:
    """Return those of the rows asked for that are in a part: their places in the request, and the samples."""
    own = np.flatnonzero((rows >= part.first_row) & (rows < part.first_row + len(part)))
    return own, part.X[rows[own] - part.first_row]
