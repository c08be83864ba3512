r"""From codes to labels (Section 3.5 and Eq. 5 of the paper): the fast rule and the full rule.

With one +1 in each label vector, the log-probability of class j for a given code is, up to a constant that all classes
share,

.. math:: e_j = \frac{\Omega(-s_j) - \Omega(s_j)}{\gamma_j}, \qquad s_j = w_j^T x + b_j .

The *fast* rule codes a sample once, without labels, and takes the class of largest evidence :math:`e_j`; with
different class costs it need not be the one of largest score.

The *full* rule (Eq. 5) supposes each class in turn, codes the sample as if that were its label
(``discriminative_coding.py``), and takes the class whose hypothesis costs least,

.. math:: F_j = \min_x \frac{\|y - D^T x\|^2}{\sigma^2} + 2 \sum_c \frac{\Omega(l_c(j)\, s_c(x))}{\gamma_c},

with evidence :math:`-F_j/2`; if the coder has a penalty on codes, twice that is added to the squared residual here and
below, which makes it the misfit.  All hypotheses start from the label-free code, where their costs differ by the fast
evidence alone: the full rule is the fast one, improved for as many of the best classes as one likes to try.

The paper leaves :math:`\sigma` of a test sample open.  There are three answers (:data:`TEST_NOISE`): the closed form
of training, from the misfit of the label-free code; the median of the training samples; or a closed form for each
hypothesis anew, which turns the first term into :math:`(M + 2) \ln \|y - D^T x\|^2`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from ..codes import RowCodes
from ..coding import Floats, SparseCoder, correlate
from ..coding.discriminative import (
    ClassifierState,
    DiscriminativeCoder,
    Point,
    Rows,
)
from ..coding.masked import Flags
from ..losses import Loss
from ..objective import compute_scores

# The share of an atom's squared norm that lies in the features kept, below which no hypothesis may use it.
_SMALLEST_SHOWN_SHARE = 0.1


def compute_evidence(scores: Floats, loss: Loss, class_cost: Floats) -> Floats:
    """Return the evidence for each class: how much less its label +1 costs than -1."""
    return (loss.value(-scores) - loss.value(scores)) / class_cost.astype(scores.dtype)


def label_probabilities(evidence: Floats) -> Floats:
    """Return the probability of each label alone, for targets with any number of labels: p(+1) against p(-1).

    A model is never certain, so neither 0 nor 1 is ever returned, where rounding would give them.
    """
    limits = np.finfo(evidence.dtype)
    return np.clip(expit(evidence), limits.tiny, 1 - limits.epsneg)


def count_errors(labels: NDArray, evidence: Floats, is_multilabel: bool) -> tuple[int, int]:
    """Return how many labelled samples get a wrong class, and how many there are.

    For multilabel targets labels are counted, not samples.
    """
    labelled = labels.any(axis=1)
    labels, evidence = labels[labelled], evidence[labelled]
    if is_multilabel:
        is_wrong = np.where(evidence > 0, 1, -1)[labels != 0] != labels[labels != 0]
    else:
        is_wrong = labels[np.arange(len(labels)), evidence.argmax(axis=1)] != 1
    return int(np.count_nonzero(is_wrong)), is_wrong.size


@dataclass(frozen=True)
class TrainingNoise:
    """What the fit knows about the noise variances of its samples."""

    floor: float
    median: float


class TestNoise(ABC):
    """An answer to what the noise variance of a test sample is."""

    __test__ = False  # not a test, whatever pytest thinks of the name

    @abstractmethod
    def estimate(self, misfit: Floats, n_features: int, training: TrainingNoise) -> Floats:
        """Return the variances to code with, from the misfits of label-free codes."""

    def weigh(self, misfit: Floats, variance: Floats, n_features: int, training: TrainingNoise) -> Floats:
        """Return what a misfit costs, on the scale of F."""
        return misfit / variance


class PerSampleNoise(TestNoise):
    """The closed form of training, from the sample's own label-free misfit."""

    def estimate(self, misfit: Floats, n_features: int, training: TrainingNoise) -> Floats:
        return np.maximum(misfit / (n_features + 2), training.floor).astype(misfit.dtype)


class SharedNoise(TestNoise):
    """The median of the training samples, for all."""

    def estimate(self, misfit: Floats, n_features: int, training: TrainingNoise) -> Floats:
        return np.full_like(misfit, training.median)


class ProfiledNoise(PerSampleNoise):
    """The closed form again for each hypothesis, from the misfit that it ends with."""

    def weigh(self, misfit: Floats, variance: Floats, n_features: int, training: TrainingNoise) -> Floats:
        variance = self.estimate(misfit, n_features, training)
        return misfit / variance + (n_features + 2) * np.log(variance)


TEST_NOISE: dict[str, TestNoise] = {
    "per_sample": PerSampleNoise(),
    "shared": SharedNoise(),
    "profiled": ProfiledNoise(),
}


def _group_equal(flags: Flags) -> Iterator[tuple[Flags, NDArray[np.intp]]]:
    """Yield each different row of flags, and which rows are equal to it."""
    patterns, group = np.unique(flags, axis=0, return_inverse=True)
    for position, pattern in enumerate(patterns):
        yield pattern, np.flatnonzero(group.ravel() == position)


@dataclass(frozen=True)
class LabelModel:
    """What the rules need of a fitted model."""

    dictionary: Floats
    gram: Floats
    classifiers: ClassifierState
    sparse_coder: SparseCoder
    n_nonzero_coefs: int
    max_coding_iter: int
    coding_tol: float
    noise: TestNoise
    training_noise: TrainingNoise
    n_candidates: int


class InferenceRule(ABC):
    """Turns blocks of coded samples into evidence."""

    takes_multilabel = True  # whether samples may have several labels

    def __init__(self, model: LabelModel):
        self.model = model

    @abstractmethod
    def weigh(self, samples: Floats, is_kept: Flags, codes: RowCodes) -> Floats:
        """Return the evidence of each class; features that are not kept have no part in it."""


class FastInference(InferenceRule):
    """One label-free code per sample."""

    def weigh(self, samples: Floats, is_kept: Flags, codes: RowCodes) -> Floats:
        classifiers = self.model.classifiers
        scores = compute_scores(codes, classifiers.coef, classifiers.intercept)
        return compute_evidence(scores, classifiers.loss, classifiers.class_cost)


class FullInference(InferenceRule):
    """Eq. 5: one code for each hypothesis that is tried."""

    takes_multilabel = False

    def __init__(self, model: LabelModel):
        super().__init__(model)
        self.coder = self._make_coder(model.gram, model.classifiers.coef)

    def _make_coder(self, gram: Floats, coef: Floats) -> DiscriminativeCoder:
        model = self.model
        return DiscriminativeCoder(
            model.dictionary,
            replace(model.classifiers, coef=coef),
            model.sparse_coder,
            model.n_nonzero_coefs,
            model.max_coding_iter,
            model.coding_tol,
            gram=gram,
        )

    def weigh(self, samples: Floats, is_kept: Flags, codes: RowCodes) -> Floats:
        if is_kept.all():
            dictionary = self.model.dictionary
            correlations = correlate(samples, dictionary, np.empty((len(samples), len(dictionary)), samples.dtype))
            energies = np.vecdot(samples, samples)
            return self._weigh(self.coder, correlations, energies, codes, n_features=samples.shape[1])
        evidence = np.empty((len(samples), len(self.model.classifiers.coef)), samples.dtype)
        for mask, rows in _group_equal(is_kept):
            evidence[rows] = self._weigh_masked(samples[rows], mask, codes.rows(rows))
        return evidence

    def _weigh_masked(self, samples: Floats, is_kept: Flags, codes: RowCodes) -> Floats:
        """Weigh the hypotheses of rows that keep the same features, with the Gram matrix of those."""
        model = self.model
        left_out, kept = model.dictionary[:, ~is_kept], np.ascontiguousarray(model.dictionary[:, is_kept])
        gram = model.gram - left_out @ left_out.T
        samples = np.ascontiguousarray(samples[:, is_kept])
        correlations, energies = samples @ kept.T, np.vecdot(samples, samples)
        # An atom that the features hardly show could take any coefficient at no cost, and agree with any hypothesis.
        # Only a row that uses it already goes on with it.
        is_open = codes.to_csr(len(gram)).toarray() != 0
        is_open |= np.diagonal(gram) > _SMALLEST_SHOWN_SHARE * np.diagonal(model.gram)
        evidence = np.empty((len(samples), len(model.classifiers.coef)), samples.dtype)
        for atoms, rows in _group_equal(is_open):
            coder = self._make_coder(
                np.where(np.outer(atoms, atoms), gram, 0), np.where(atoms, model.classifiers.coef, 0)
            )
            open_correlations = np.where(atoms, correlations[rows], 0)
            evidence[rows] = self._weigh(
                coder, open_correlations, energies[rows], codes.rows(rows), n_features=len(kept[0])
            )
        return evidence

    def _weigh(
        self, coder: DiscriminativeCoder, correlations: Floats, energies: Floats, codes: RowCodes, *, n_features: int
    ) -> Floats:
        """Start all hypotheses from the label-free codes and improve the best of them."""
        n_rows, n_classes = len(energies), len(self.model.classifiers.coef)
        unlabelled, unit = np.zeros((n_rows, n_classes), energies.dtype), np.ones_like(energies)
        rows = Rows(coder.gram, correlations, energies, unlabelled, unit)
        start = coder.measure(rows, codes)
        rows = rows._replace(
            noise_variance=self.model.noise.estimate(start.misfit, n_features, self.model.training_noise)
        )
        fast, joint = self._weigh_start(start, rows.noise_variance, n_features)
        everyone = np.arange(n_rows)
        for candidate in np.argsort(-fast, axis=1, kind="stable")[:, : self.model.n_candidates].T:
            labels = np.full_like(rows.labels, -1)
            labels[everyone, candidate] = 1
            point, _ = coder.descend(rows._replace(labels=labels), codes, is_start_traditional=True)
            class_cost = point.objective - point.misfit / rows.noise_variance
            cost = self._weigh_misfit(point, rows.noise_variance, n_features) + class_cost
            joint[everyone, candidate] = np.minimum(joint[everyone, candidate], cost)
        return -joint / 2

    def _weigh_start(self, start: Point, variance: Floats, n_features: int) -> tuple[Floats, Floats]:
        """Return the fast evidence, and what each hypothesis costs with the label-free code."""
        classifiers = self.model.classifiers
        scores = start.scores + classifiers.intercept
        fast = compute_evidence(scores, classifiers.loss, classifiers.class_cost)
        all_wrong = np.sum(classifiers.loss.value(-scores) / classifiers.class_cost, axis=1)
        common = self._weigh_misfit(start, variance, n_features) + 2 * all_wrong
        return fast, common[:, None] - 2 * fast

    def _weigh_misfit(self, point: Point, variance: Floats, n_features: int) -> Floats:
        return self.model.noise.weigh(point.misfit, variance, n_features, self.model.training_noise)


INFERENCE_RULES: dict[str, type[InferenceRule]] = {"fast": FastInference, "full": FullInference}
