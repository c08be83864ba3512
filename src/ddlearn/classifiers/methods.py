r"""The paper's method for each cost, and Newton's for any: which losses each is for, and how it weighs the samples.

Square leverage for a quadratic loss, AdaBoost for the exponential, LogitBoost for the logistic, a linear SVM for the
smooth hinges.  With :math:`\Omega_1` and :math:`\Omega_2` the loss's derivatives at a sample's margin, its weight is
:math:`\Omega_2`; in Newton's method, LogitBoost and the SVM it is :math:`\max(\Omega_2, |\Omega_1| / z_{\max})`.
"""

from __future__ import annotations

from numbers import Real

import numpy as np
from sklearn.utils import check_scalar

from ..losses import (
    Exponential,
    Logistic,
    Loss,
    SmoothHinge,
    SoftplusHinge,
)
from .problem import Array
from .trainer import ClassifierTrainer


class SquareLev(ClassifierTrainer):
    r"""Square leverage for a quadratic loss, with linear least squares as the base regressor.

    Duffy and Helmbold's SquareLev.R relabels the samples with their residuals :math:`l - f(x)`, fits a base regressor
    and adds it with the best factor.  A linear regressor fitted to all atoms at once leaves residuals that no linear
    function can lower: **one round reaches ridge least squares**, and the factor is 1.  The mean residual, which the
    original adds at the end, is in the unpenalised intercept.

    Parameters
    ----------
    ridge : float, default=1e-3
        Penalty on the coefficients, relative to the mean diagonal entry of the Hessian.  The intercept has none.
    max_rounds : int, default=10
        How many base learners at most are added for each class; one is enough.
    tol : float, default=1e-4
        A class is done when the next round promises a decrease below this share of its cost.

    References
    ----------
    Duffy and Helmbold, "Boosting methods for regression", Machine Learning 47, 2002.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_array
    >>> from ddlearn import Square
    >>> from ddlearn.classifiers import SquareLev
    >>> from ddlearn.codes import RowCodes
    >>> codes = RowCodes.from_csr(csr_array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]]), 1, float)
    >>> labels = np.array([[1.0], [-1.0], [-1.0]])
    >>> coef, intercept = SquareLev(ridge=0).train(codes, labels, Square(), np.zeros((1, 2)), np.zeros(1))
    >>> coef.round(6), intercept.round(6)
    (array([[-2., -4.]]), array([3.]))
    """

    def supports(self, loss: Loss) -> bool:
        return bool(getattr(loss, "is_quadratic", False))


class AdaBoost(ClassifierTrainer):
    r"""Gentle AdaBoost for the exponential loss, with linear base learners.

    A round weighs sample i by :math:`e^{-z_i}` and fits the labels themselves: the working response of every margin
    is 1.  Discrete AdaBoost would add signs of linear functions, whose sum is not linear.

    Parameters
    ----------
    ridge : float, default=1e-3
        Penalty on the coefficients, relative to the mean diagonal entry of the Hessian.  The intercept has none.
    max_rounds : int, default=10
        How many base learners at most are added for each class.
    tol : float, default=1e-4
        A class is done when the next round promises a decrease below this share of its cost.

    References
    ----------
    Friedman, Hastie and Tibshirani, "Additive logistic regression", Annals of Statistics 28, 2000, Algorithm 4.

    Examples
    --------
    >>> from ddlearn import Exponential, Logistic
    >>> from ddlearn.classifiers import AdaBoost
    >>> AdaBoost().supports(Exponential()), AdaBoost().supports(Logistic())
    (True, False)
    """

    def supports(self, loss: Loss) -> bool:
        return isinstance(loss, Exponential)


class Newton(ClassifierTrainer):
    r"""Newton's method for any convex loss, guarded by step halving.

    A sample's working response is the change of margin :math:`-\Omega_1/\Omega_2` that Newton's method wishes for it.
    Where the loss is nearly straight, that is huge or infinite; such a sample counts with the larger weight
    :math:`|\Omega_1|/z_{\max}`, which makes the response ``z_max`` and leaves the gradient as it is.

    Parameters
    ----------
    ridge : float, default=1e-3
        Penalty on the coefficients, relative to the mean diagonal entry of the Hessian.  The intercept has none.
    max_rounds : int, default=10
        How many steps at most are taken for each class.
    tol : float, default=1e-4
        A class is done when the next round promises a decrease below this share of its cost.
    z_max : float, default=4.0
        The largest change of margin that a single sample asks for in a round.

    Examples
    --------
    >>> from ddlearn.classifiers import Newton, resolve_trainer
    >>> resolve_trainer("newton", "logistic")
    Newton()
    """

    def __init__(self, ridge: float = 1e-3, max_rounds: int = 10, tol: float = 1e-4, z_max: float = 4.0):
        super().__init__(ridge, max_rounds, tol)
        self.z_max = z_max

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_scalar(self.z_max, "z_max", Real, min_val=0, include_boundaries="neither")

    def weigh(self, gradient: Array, curvature: Array) -> Array:
        # Were only the response clipped, its product with the weight would no longer be the gradient, and rounds
        # would converge to something else than the minimum.
        return np.maximum(curvature, np.abs(gradient) / self.z_max)


class LogitBoost(Newton):
    r"""LogitBoost for the logistic loss, with linear base learners.

    A round weighs sample i by :math:`p_i (1 - p_i)` and fits the working response :math:`1/p_i`, where :math:`p_i` is
    the probability of its label; on the scale :math:`\ln(1 + e^{-z})` of the paper a learner is added whole, not by
    half.  Responses stop at ``z_max``.  The original keeps the weight of a clipped response; here the weight grows, so
    that their product remains the gradient and rounds converge to logistic regression also where samples are
    misclassified.

    Parameters
    ----------
    ridge : float, default=1e-3
        Penalty on the coefficients, relative to the mean diagonal entry of the Hessian.  The intercept has none.
    max_rounds : int, default=10
        How many base learners at most are added for each class.
    tol : float, default=1e-4
        A class is done when the next round promises a decrease below this share of its cost.
    z_max : float, default=4.0
        The largest working response; the original recommends 2 to 4.

    References
    ----------
    Friedman, Hastie and Tibshirani, "Additive logistic regression", Annals of Statistics 28, 2000, Algorithm 3.

    Examples
    --------
    >>> import numpy as np
    >>> from ddlearn import Logistic
    >>> from ddlearn.classifiers import LogitBoost
    >>> loss, margin = Logistic(), np.array([0.0, -1000.0])
    >>> LogitBoost().weigh(loss.gradient(margin), loss.curvature(margin))
    array([0.25, 0.25])
    """

    def supports(self, loss: Loss) -> bool:
        return isinstance(loss, Logistic)


class LinearSVM(Newton):
    r"""Linear support vector machine for the smooth hinges, by Newton's method in the primal.

    In Chapelle's form :math:`\frac{\lambda}{2}\|w\|^2 + \sum_i \Omega(z_i)`; samples beyond the hinge have weight zero.

    Parameters
    ----------
    ridge : float, default=1e-3
        Penalty on the coefficients, relative to the mean diagonal entry of the Hessian.  The intercept has none.
    max_rounds : int, default=10
        How many steps at most are taken for each class.
    tol : float, default=1e-4
        A class is done when the next round promises a decrease below this share of its cost.
    z_max : float, default=4.0
        The largest change of margin that a single sample asks for in a round.

    References
    ----------
    Chapelle, "Training a support vector machine in the primal", Neural Computation 19, 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from ddlearn import SmoothHinge
    >>> from ddlearn.classifiers import LinearSVM
    >>> loss, margin = SmoothHinge(), np.array([-5.0, 1.0, 5.0])
    >>> LinearSVM().weigh(loss.gradient(margin), loss.curvature(margin))
    array([0.25, 1.  , 0.  ])
    """

    def supports(self, loss: Loss) -> bool:
        return isinstance(loss, (SmoothHinge, SoftplusHinge))
