r"""From scores to labels (Section 3.5 of the paper): the fast rule, one label-free code per sample.

With one +1 in each label vector, the log-probability of class j is, up to a constant that all classes share
,

.. math:: e_j = \frac{\Omega(-s_j) - \Omega(s_j)}{\gamma_j}, \qquad s_j = w_j^T x + b_j .

The predicted class is the one of largest evidence :math:`e_j`; with different class costs it need not be the one of
largest score.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from .losses import Loss

Floats = NDArray[np.floating]


def compute_evidence(scores: Floats, loss: Loss, class_cost: Floats) -> Floats:
    """Return the evidence for each class: how much less its label +1 costs than -1."""
    return (loss.value(-scores) - loss.value(scores)) / class_cost.astype(scores.dtype)


def label_probabilities(evidence: Floats) -> Floats:
    """Return the probability of each label alone, for targets with any number of labels: p(+1) against p(-1).

    A model is never certain, so neither 0 nor 1 is ever returned, where rounding would give them.
    """
    limits = np.finfo(evidence.dtype)
    return np.clip(expit(evidence), limits.tiny, 1 - limits.epsneg)


def count_errors(labels: Floats, evidence: Floats, is_multilabel: bool) -> float:
    """Return the share of labelled samples with a wrong class; for multilabel targets, the share of wrong labels."""
    labelled = labels.any(axis=1)
    labels, evidence = labels[labelled], evidence[labelled]
    if is_multilabel:
        return float(np.mean(np.where(evidence > 0, 1, -1)[labels != 0] != labels[labels != 0]))
    return float(np.mean(labels[np.arange(len(labels)), evidence.argmax(axis=1)] != 1))
