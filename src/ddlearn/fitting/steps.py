"""The four steps of Algorithm 2 on one part of the training set, wherever the part is.

A step takes a part and what all parts share, and returns a new part, summands, or both; ``loop.py`` puts them together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..classifiers import ClassifierTrainer
from ..coding.alignment import Registration
from ..coding.coders import SparseCoder
from ..coding.descent import DiscriminativeCoding
from ..coding.discriminative import CodingRecord, DiscriminativeCoder
from ..coding.encoder import Encoder
from ..coding.masked import MaskedCoder
from ..coding.robust import RobustCoder, Robustness
from ..describe.missing import fill_with_codes
from ..dictionary import DictionaryUpdate, WorstSamples, count_users
from ..model.codes import Flags, Floats, Model, RowCodes, measure_residuals
from ..model.losses import Loss, compute_evidence
from ..model.measures import count_errors
from ..model.objective import Terms, sum_costs, sum_noise_terms
from ..model.scales import MisfitSums, Priors, Scales
from .data import TrainingPart, sum_rows


@dataclass(frozen=True)
class FitSettings:
    """How to fit: strategies and checked numbers."""

    loss: Loss
    sparse_coder: SparseCoder
    n_nonzero_coefs: int
    label_coding: DiscriminativeCoding
    dictionary_update: DictionaryUpdate
    classifier_trainer: ClassifierTrainer
    scales: Scales
    classification_weight: float
    fit_intercept: bool
    is_multilabel: bool
    max_iter: int
    tol: float
    registration: Registration | None  # of training samples
    n_jobs: int | None


def code_label_free(part: TrainingPart, settings: FitSettings, encoder: Encoder) -> TrainingPart:
    """Code samples as new ones are, without their labels."""
    if part.is_known is not None:
        how: Any = {"n_jobs": settings.n_jobs, "first_row": part.first_row}
        return replace(part, codes=MaskedCoder(encoder).encode_all(part.X, part.is_known, **how))
    return replace(part, codes=encoder.encode(part.X, n_jobs=settings.n_jobs, first_row=part.first_row))


def register(part: TrainingPart, settings: FitSettings, encoder: Encoder, n_rounds: int | None) -> TrainingPart:
    """Register images: n_rounds more rounds from the current positions, or from scratch until convergence if None."""
    if settings.registration is None:
        return part
    coder = RobustCoder(MaskedCoder(encoder), Robustness(), noise_scale=0.0)
    positions = None if n_rounds is None else part.positions
    X, positions = settings.registration.register_all(part.original, coder, positions, n_rounds, settings.n_jobs)
    return replace(part, X=X, positions=positions)


def fill(part: TrainingPart, settings: FitSettings, dictionary: Floats) -> TrainingPart:
    """Put reconstructions in place of missing features, with which the others alone make the objective."""
    if part.is_known is None:
        return part
    X = fill_with_codes(part.X, part.is_known, part.codes, dictionary, settings.n_jobs)
    return replace(part, X=X)


class CodingCounts(NamedTuple):
    """What discriminative coding did to the samples."""

    n_refitted: int
    n_reselected: int
    n_swapped: int
    n_rejected: int
    coding_decrease: float


def code_discriminatively(
    part: TrainingPart, settings: FitSettings, encoder: Encoder, model: Model
) -> tuple[TrainingPart, CodingCounts]:
    """Discriminative sparse coding (Algorithm 1), starting from the current codes."""
    part = register(part, settings, encoder, n_rounds=1)
    dtype = part.X.dtype
    coder = DiscriminativeCoder(
        encoder, model.weigh_labels(settings.classification_weight).astype(dtype), settings.loss, settings.label_coding
    )
    labels = part.labels.astype(dtype)

    def descend(part: TrainingPart) -> tuple[RowCodes, CodingRecord]:
        return coder.encode(part.X, labels, part.noise_variance, part.codes, n_jobs=settings.n_jobs)

    if part.is_known is not None:
        part, record = _code_known(part, settings, encoder, descend)
    else:
        codes, record = descend(part)
        part = replace(part, codes=codes)
    decrease = sum_rows(record.decrease, part.weights) / 2  # F is twice what the sample adds to the objective
    n_refitted, n_reselected, n_swapped = record.n_moved.values()
    counts = CodingCounts(n_refitted, n_reselected, n_swapped, int(record.n_rejected.sum()), decrease)
    return part, counts


def _code_known(
    part: TrainingPart,
    settings: FitSettings,
    encoder: Encoder,
    descend: Callable[[TrainingPart], tuple[RowCodes, CodingRecord]],
) -> tuple[TrainingPart, CodingRecord]:
    """Code samples with missing features, and fill them.

    A fill by the current codes holds on to these: a pursuit would hardly ever select other atoms.  So there is a second
    start, from label-free codes of the known features, which no fill takes part in.  The better codes are kept.
    """
    codes, record = descend(fill(part, settings, encoder.dictionary))
    others, other = descend(fill(code_label_free(part, settings, encoder), settings, encoder.dictionary))
    is_better = other.objective_after < record.objective_after
    other.n_steps[:, 1] += 1  # to start with them is to select atoms anew
    other.decrease[:, 1] += record.objective_before - other.objective_before

    def choose(mine: NDArray, theirs: NDArray) -> NDArray:
        return np.where(is_better if mine.ndim == 1 else is_better[:, None], theirs, mine)

    codes = RowCodes(*map(choose, codes, others))
    record = CodingRecord(*map(choose, vars(record).values(), vars(other).values()))
    return fill(replace(part, codes=codes), settings, encoder.dictionary), record


def sum_statistics(
    part: TrainingPart, settings: FitSettings, n_components: int, variance_unit: float
) -> tuple[Any, NDArray[np.intp]]:
    """Return the statistics that an additive dictionary update needs, and how many samples use each atom."""
    precision = variance_unit / part.noise_variance  # only ratios matter, and these fit in any dtype
    if part.weights is not None:
        precision = precision * part.weights.astype(precision.dtype)
    statistics = settings.dictionary_update.statistics(  # type: ignore[attr-defined]
        part.X, part.codes, precision, n_components, n_jobs=settings.n_jobs
    )
    return statistics, count_users(part.codes, n_components)


def measure_part(
    part: TrainingPart, settings: FitSettings, model: Model
) -> tuple[TrainingPart, tuple[float, NDArray[np.float64]]]:
    """Measure misfits; return their sum, and the sum of costs per class."""
    part = fill(part, settings, model.dictionary)
    misfits, scores = model.measure(part.X, part.codes, settings.n_jobs)
    if settings.sparse_coder.has_penalty:
        misfits = settings.sparse_coder.measure_misfit(misfits, part.codes)
    costs = sum_costs(part.labels.astype(part.X.dtype), scores, settings.loss, part.weights)
    return replace(part, misfits=misfits), (sum_rows(misfits, part.weights), costs)


def find_copies(part: TrainingPart) -> Flags:
    """Return which samples are copies of an atom: their misfits are rounding errors and say nothing of the noise."""
    return part.misfits <= np.finfo(part.X.dtype).eps * np.vecdot(part.X, part.X)


def sum_misfits(part: TrainingPart, unit: float, mean_known: float) -> MisfitSums:
    """Return the sums from which the prior of the noise is estimated, as if all samples had as many known features."""
    is_noisy, weights = ~find_copies(part), part.weights
    logs = np.log(part.misfits[is_noisy].astype(np.float64) / unit)
    if part.is_known is not None:
        logs += np.log(mean_known / part.is_known.sum(axis=1)[is_noisy])
    n_samples, sums = float(len(part)), (float(logs.size), float(logs.sum()), float(logs @ logs))
    if weights is not None:
        n_samples, weights = float(weights.sum()), weights[is_noisy]
        sums = float(weights.sum()), float(weights @ logs), float(weights @ logs**2)
    energy = sum_rows(np.vecdot(part.X, part.X), part.weights)
    eps = float(np.finfo(part.X.dtype).eps)
    return MisfitSums(mean_known, eps, unit, n_samples, *sums, energy)


def estimate_noise(
    part: TrainingPart,
    settings: FitSettings,
    mean_misfit: float,
    priors: Priors,
    is_first: bool = False,
    mean_known: float | None = None,
) -> tuple[TrainingPart, Terms]:
    """Set the noise variances from the misfits of the samples, or from their mean; return the terms they are in.

    Only known features count; a variance that all samples share counts as many as they have on average.  At first
    codes, copies of an atom get the typical variance.  With the one of least objective, which is tiny, they would hold
    their atoms where they are.
    """
    is_copy = find_copies(part) if is_first else None
    n_features: Any = part.n_known
    if mean_known is not None and settings.scales.noise == "shared":
        n_features = mean_known
    variance = settings.scales.estimate_noise(part.misfits, mean_misfit, n_features, priors, is_copy)
    terms = sum_noise_terms(part.misfits, variance, n_features, priors, part.weights)
    return replace(part, noise_variance=variance), terms


def count_wrong(part: TrainingPart, settings: FitSettings, model: Model) -> tuple[float, float]:
    """Return how many samples (multilabel: labels) are misclassified from their codes, and how many are labelled."""
    if not part.labels.any():
        return 0, 0
    evidence = compute_evidence(model.scores(part.codes), settings.loss, model.class_cost)
    return count_errors(part.labels, evidence, settings.is_multilabel, part.weights)


class Counts(NamedTuple):
    """What is counted for the record of an iteration."""

    n_at_floor: int
    n_wrong: float  # with the codes that saw the labels
    n_labelled: float
    n_monitored_wrong: float  # with codes as new samples have them
    n_monitored: float


def count_part(
    part: TrainingPart, settings: FitSettings, encoder: Encoder, model: Model, floor: float, stride: int
) -> Counts:
    """Count samples at the noise floor and misclassified ones; every ``stride``-th row is monitored."""
    monitored = slice(-part.first_row % stride, None, stride)  # a view: to draw samples would copy them
    weights = None if part.weights is None else part.weights[monitored]
    is_known = None if part.is_known is None else part.is_known[monitored]
    some = replace(part, X=part.X[monitored], labels=part.labels[monitored], weights=weights, first_row=0)
    some = replace(some, is_known=is_known)
    label_free = count_wrong(code_label_free(some, settings, encoder), settings, model) if len(some.X) else (0, 0)
    is_at_floor = part.noise_variance <= part.noise_variance.dtype.type(floor)
    return Counts(int(np.count_nonzero(is_at_floor)), *count_wrong(part, settings, model), *label_free)


def scale_part(
    part: TrainingPart,
    settings: FitSettings,
    encoder: Encoder,
    model: Model,
    means: tuple[float, float],  # misfit and number of known features
    priors: Priors,
    stride: int,
    is_first: bool,
) -> tuple[TrainingPart, tuple[Terms, Counts]]:
    """Set the noise variances; return the terms of the objective that depend on them, and the counts."""
    part, noise_terms = estimate_noise(part, settings, means[0], priors, is_first, means[1])
    return part, (noise_terms, count_part(part, settings, encoder, model, priors.noise_floor, stride))


def measure_part_residuals(part: TrainingPart, settings: FitSettings, dictionary: Floats) -> Floats:
    """Return squared residuals for another dictionary."""
    return measure_residuals(part.X, part.codes, dictionary, settings.n_jobs)


def find_worst(
    part: TrainingPart, settings: FitSettings, dictionary: Floats, n_wanted: int, largest_error: float
) -> WorstSamples:
    """Return the worst represented samples of a part."""
    errors = measure_part_residuals(part, settings, dictionary)
    return WorstSamples.find(part.X, errors, part.first_row, n_wanted, largest_error)


@dataclass(frozen=True)
class RowState:
    """The unknowns of some rows, which a checkpoint stores; the sum of two holds the rows of both."""

    codes: RowCodes
    noise_variance: Floats
    positions: Floats | None
    first_row: int = 0

    def __add__(self, other: RowState) -> RowState:
        positions = None
        if self.positions is not None and other.positions is not None:
            positions = np.concatenate([self.positions, other.positions])
        return RowState(
            RowCodes.join([self.codes, other.codes]),
            np.concatenate([self.noise_variance, other.noise_variance]),
            positions,
            self.first_row,
        )


def get_row_state(part: TrainingPart) -> RowState:
    """Return the unknowns of a part."""
    return RowState(part.codes, part.noise_variance, part.positions, part.first_row)


def put_row_state(part: TrainingPart, state: RowState) -> TrainingPart:
    """Return the part with its unknowns, which are among those of some rows."""
    start = part.first_row - state.first_row
    rows = slice(start, start + len(part.X))
    positions = None if state.positions is None else state.positions[rows]
    codes, noise_variance = state.codes.rows(rows), state.noise_variance[rows]
    return replace(part, codes=codes, noise_variance=noise_variance, positions=positions)
