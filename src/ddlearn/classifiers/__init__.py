r"""The classifier update (Section 3.1 of the paper): one linear classifier per class on the sparse codes.

With the codes fixed the classes are independent of each other, and class :math:`j` minimises

.. math:: \sum_i \Omega\bigl(l_{ij} (w_j^T x_i + b_j)\bigr) + \frac{\lambda_j}{2} \|w_j\|^2 .

The paper names a method for each cost: square leverage, AdaBoost, LogitBoost, a linear SVM.  With linear base learners
they are one mechanism: a round weighs the samples, fits a weighted least squares regressor to their working responses
:math:`-\Omega_1 / \text{weight}`, and adds it to the classifier; a sum of linear learners is a linear classifier.  Only
the weights differ.  As in coding, the ratio is never formed: the normal equations need the weights and
:math:`\Omega_1` alone.

The small ridge :math:`\lambda_j` is not in the paper's objective.  It keeps classifiers finite where the classes are
separable, and settles the directions that the codes leave open.  Whatever it does, the cost without it never rises.

In the order of their imports: ``problem`` (the penalised cost of one class, its gradient and its Hessian), ``trainer``
(the rounds, and the base class of all trainers), ``memory`` (what is remembered of samples that are gone), ``methods``
(the paper's four, and Newton's) and ``registry`` (trainers by name).
"""

from .methods import (
    AdaBoost,
    LinearSVM,
    LogitBoost,
    Newton,
    SquareLev,
)
from .registry import CLASSIFIER_TRAINERS, resolve_trainer
from .trainer import ClassifierTrainer

__all__ = [
    "CLASSIFIER_TRAINERS",
    "AdaBoost",
    "ClassifierTrainer",
    "LinearSVM",
    "LogitBoost",
    "Newton",
    "SquareLev",
    "resolve_trainer",
]
