r"""The classifier update (Section 3.1 of the paper): one linear classifier per class on the sparse codes.

With the codes fixed the classes are independent of each other, and class :math:`j` minimises

.. math:: \sum_i \Omega\bigl(l_{ij} (w_j^T x_i + b_j)\bigr) + \frac{\lambda_j}{2} \|w_j\|^2 .

The paper names a method for each cost: square leverage, AdaBoost, LogitBoost, a linear SVM.  With linear base learners
they are one mechanism: a round fits a weighted least squares regressor to working responses
:math:`-\Omega_1 / \text{weight}` and adds it to the classifier; a sum of linear learners is a linear classifier.  Only
the sample weights differ.  As in coding, the ratio is never formed: the normal equations need only the weights and
:math:`\Omega_1`.

The small ridge :math:`\lambda_j` is not in the paper's objective, but a prior in ours (``model/scales.py``).  It
keeps classifiers finite where the classes are separable, and determines the directions that the codes leave open.

``problem`` has the penalised cost of each class, its gradient and its Hessian, ``trainer`` the rounds and the methods,
``memory`` the parabolas that replace samples of earlier batches.
"""

from .trainer import CLASSIFIER_TRAINERS as CLASSIFIER_TRAINERS
from .trainer import AdaBoost as AdaBoost
from .trainer import ClassifierTrainer as ClassifierTrainer
from .trainer import LinearSVM as LinearSVM
from .trainer import LogitBoost as LogitBoost
from .trainer import Newton as Newton
from .trainer import SquareLev as SquareLev
from .trainer import has_intercept as has_intercept
from .trainer import resolve_trainer as resolve_trainer
