r"""The label rules (Section 3.5 and Eq. 5 of the paper): from codes to the evidence for each class.

With one +1 in each label vector, the log-probability of class j for a given code is, up to a constant that all classes
share,

.. math:: e_j = \frac{\Omega(-s_j) - \Omega(s_j)}{\gamma_j}, \qquad s_j = w_j^T x + b_j .

The *fast* rule codes a sample once, without labels, and takes the class of largest evidence :math:`e_j`.  With
different class costs this need not be the class of largest score.

The *full* rule (Eq. 5) hypothesises each class in turn, codes the sample as if that were its label
(``coding/discriminative.py``), and takes the class whose hypothesis costs least,

.. math:: F_j = \min_x \frac{\|y - D^T x\|^2}{\sigma^2} + 2 \sum_c \frac{\Omega(l_c(j)\, s_c(x))}{\gamma_c},

with evidence :math:`-F_j/2`.  If the coder has a penalty on codes, twice the penalty is added to the squared residual,
here and below, which makes it the misfit.  All hypotheses start from the label-free code, where their costs differ only
by the fast evidence: the full rule refines the fast one for the best ``n_candidates`` classes.

The paper leaves :math:`\sigma` of a test sample open: here it is the closed form of training, from the misfit of the
label-free code.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from numbers import Integral

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from ..coding.discriminative import DiscriminativeCoder
from ..model.codes import Flags, Floats, RowCodes
from ..model.losses import compute_evidence
from ..model.scales import Priors
from ..model.strategies import Registry, Strategy, check_number
from ..parallel import split_rows

# Hypotheses may use an atom only if at least this share of its squared norm lies in the features that are kept.
_SMALLEST_SHOWN_SHARE = 0.1
# So many are minimised together: enough to make up for calls of NumPy, and few enough for the caches.
_HYPOTHESES_AT_ONCE = 2560


def label_probabilities(evidence: Floats) -> Floats:
    """Return the probability of each label alone, for multilabel targets: p(+1) against p(-1).

    A model is never certain, so 0 and 1, to which rounding may lead, are never returned.
    """
    limits = np.finfo(evidence.dtype)
    return np.clip(expit(evidence), limits.tiny, 1 - limits.epsneg)


@dataclass(frozen=True)
class LabelModel:
    """What the rules need of a fitted model."""

    coder: DiscriminativeCoder
    priors: Priors


def _group_equal(flags: Flags) -> Iterator[tuple[Flags, NDArray[np.intp]]]:
    """Yield each different row of flags, and which rows are equal to it."""
    patterns, group = np.unique(flags, axis=0, return_inverse=True)
    for position, pattern in enumerate(patterns):
        yield pattern, np.flatnonzero(group.ravel() == position)


class InferenceRule(Strategy, ABC):
    """A label rule: turns blocks of coded samples into evidence for each class.

    Examples
    --------
    >>> from ddlearn import FullInference, InferenceRule
    >>> isinstance(FullInference(), InferenceRule)
    True
    """

    takes_multilabel = True  # whether samples may have several labels

    def check_classes(self, n_classes: int) -> None:
        """Raise a ValueError if the rule is not for this number of classes."""

    @abstractmethod
    def evidence(self, model: LabelModel, samples: Floats, codes: RowCodes, is_kept: Flags | None = None) -> Floats:
        """Return the evidence for each class; features that are not kept do not count."""


class FastInference(InferenceRule):
    """The fast label rule: one label-free code per sample.

    Examples
    --------
    >>> from ddlearn import DDLClassifier
    >>> from ddlearn.inference.rules import FastInference
    >>> DDLClassifier(inference=FastInference())
    DDLClassifier(inference=FastInference())
    """

    def evidence(self, model: LabelModel, samples: Floats, codes: RowCodes, is_kept: Flags | None = None) -> Floats:
        fitted = model.coder.model
        return compute_evidence(fitted.scores(codes), model.coder.loss, fitted.class_cost)


class FullInference(InferenceRule):
    """The full label rule, Eq. 5 of the paper: one code for each hypothesis.

    Parameters
    ----------
    n_candidates : int or None, default=None
        How many of the best classes of the fast rule become hypotheses; by default all.

    Examples
    --------
    >>> from ddlearn import DDLClassifier, FullInference
    >>> DDLClassifier(inference=FullInference(n_candidates=3))
    DDLClassifier(inference=FullInference(n_candidates=3))
    """

    takes_multilabel = False

    def __init__(self, n_candidates: int | None = None):
        self.n_candidates = n_candidates

    def check_parameters(self) -> None:
        if self.n_candidates is not None:
            check_number("n_candidates", self.n_candidates, Integral)

    def check_classes(self, n_classes: int) -> None:
        if self.n_candidates is not None and self.n_candidates > n_classes:
            raise ValueError(
                f"n_candidates={self.n_candidates}, but there are only {n_classes} classes: use None for all."
            )

    def evidence(self, model: LabelModel, samples: Floats, codes: RowCodes, is_kept: Flags | None = None) -> Floats:
        if is_kept is None or is_kept.all():
            correlations, energies = model.coder.encoder.correlate(samples), np.vecdot(samples, samples)
            return self._compare(model, correlations, energies, codes, samples.shape[1])
        evidence = np.empty((len(samples), len(model.coder.model.coef)), samples.dtype)
        for mask, rows in _group_equal(is_kept):
            evidence[rows] = self._evidence_of_kept(model, samples[rows], mask, codes.rows(rows))
        return evidence

    def _evidence_of_kept(self, model: LabelModel, samples: Floats, is_kept: Flags, codes: RowCodes) -> Floats:
        """Compare the hypotheses of rows that keep the same features, with the Gram matrix of those."""
        encoder, coef = model.coder.encoder, model.coder.model.coef
        left_out, kept = encoder.dictionary[:, ~is_kept], np.ascontiguousarray(encoder.dictionary[:, is_kept])
        gram = encoder.gram - left_out @ left_out.T
        samples = np.ascontiguousarray(samples[:, is_kept])
        correlations, energies = samples @ kept.T, np.vecdot(samples, samples)
        # An atom that hardly shows in these features could take any coefficient at no cost, and agree with any
        # hypothesis. Only a row that uses it already may go on with it.
        is_open = codes.to_csr(len(gram)).toarray() != 0
        is_open |= np.diagonal(gram) > _SMALLEST_SHOWN_SHARE * np.diagonal(encoder.gram)
        evidence = np.empty((len(samples), len(coef)), samples.dtype)
        for atoms, rows in _group_equal(is_open):
            open_gram = np.where(np.outer(atoms, atoms), gram, 0)
            coder = replace(
                model.coder,
                encoder=replace(encoder, dictionary=np.where(atoms[:, None], kept, 0), gram=open_gram),
                model=replace(model.coder.model, coef=np.where(atoms, coef, 0)),
            )
            problem = np.where(atoms, correlations[rows], 0), energies[rows], codes.rows(rows)
            evidence[rows] = self._compare(replace(model, coder=coder), *problem, len(kept[0]))
        return evidence

    def _compare(
        self, model: LabelModel, correlations: Floats, energies: Floats, codes: RowCodes, n_features: int
    ) -> Floats:
        """Compare the hypotheses of all rows, for some rows at a time."""
        blocks = split_rows(len(energies), max(_HYPOTHESES_AT_ONCE // len(model.coder.model.coef), 1), unit=1)
        problems = ((correlations[rows], energies[rows], codes.rows(rows)) for rows in blocks)
        return np.concatenate([self._compare_block(model, *problem, n_features) for problem in problems])

    def _compare_block(
        self, model: LabelModel, correlations: Floats, energies: Floats, codes: RowCodes, n_features: int
    ) -> Floats:
        """Start all hypotheses from the label-free codes and minimise the objectives of the best of them."""
        coder, n_rows = model.coder, len(energies)
        fitted, n_classes = coder.model, len(coder.model.coef)
        unlabelled, unit = np.zeros((n_rows, n_classes), energies.dtype), np.ones_like(energies)
        start = coder.pose(correlations, energies, unlabelled, unit, np.arange(n_rows)).place(codes)
        variance = model.priors.estimate_noise(start.misfit, n_features)
        scores = start.scores + fitted.intercept
        fast = compute_evidence(scores, coder.loss, fitted.class_cost)
        all_wrong = np.sum(coder.loss.value(-scores) / fitted.class_cost, axis=1)
        joint = (start.misfit / variance + 2 * all_wrong)[:, None] - 2 * fast
        candidates = np.argsort(-fast, axis=1, kind="stable")[:, : self.n_candidates]
        rows = np.repeat(np.arange(n_rows), candidates.shape[1])
        classes = candidates.ravel()
        labels = np.full((len(rows), n_classes), -1, energies.dtype)
        labels[np.arange(len(rows)), classes] = 1
        problems = replace(coder.pose(correlations, energies, labels, variance[rows], rows), are_rivals=True)
        point, _ = coder.label_coding.descend(problems, codes.rows(rows), is_start_traditional=True)
        joint[rows, classes] = np.minimum(joint[rows, classes], point.objective)
        return -joint / 2


INFERENCE_RULES: Registry[InferenceRule] = Registry(
    "inference", InferenceRule, {"fast": FastInference, "full": FullInference}
)
