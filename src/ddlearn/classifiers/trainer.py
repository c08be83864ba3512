r"""Classifier trainers: the methods of the paper, and Newton's method for any loss.

All add weighted least squares regressors in rounds (``problem.py``).  Square leverage for a quadratic loss, AdaBoost
for the exponential, LogitBoost for the logistic, a linear SVM for the smooth hinges, and Newton's method for any loss
differ in the weight of a sample: with the loss's derivatives :math:`\Omega_1` and
:math:`\Omega_2` at its margin it is :math:`\max(\Omega_2, |\Omega_1| / z_{\max})`, which for the first two is
:math:`\Omega_2`.
"""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np
from sklearn.utils import check_scalar

from ..model.codes import Floats, RowCodes
from ..model.losses import LOSSES, Loss
from ..model.strategies import Registry, Strategy
from ..parallel import Parts
from .problem import ClassifierPart, LabelledCodes, train_in_rounds


def _check_arrays(codes: RowCodes, labels: Floats, coef: Floats, intercept: Floats) -> None:
    """Check here, because kernels do not."""
    n_samples, n_classes, n_components = len(codes.indices), *coef.shape
    if labels.shape != (n_samples, n_classes) or intercept.shape != (n_classes,):
        raise ValueError(
            f"{n_samples} codes and coef of shape {coef.shape} need labels of shape {(n_samples, n_classes)} and "
            f"intercept of shape {(n_classes,)}, got {labels.shape} and {intercept.shape}."
        )
    if codes.indices.size and not 0 <= codes.indices.min() <= codes.indices.max() < n_components:
        raise ValueError(f"The codes use atom {codes.indices.max()}, but coef is for {n_components} atoms.")
    if not ((labels == 0) | (np.abs(labels) == 1)).all():
        raise ValueError("labels must be -1, +1, or 0 where a sample is not labelled for a class.")
    for name, array in (("coef", coef), ("intercept", intercept)):
        if not np.issubdtype(array.dtype, np.floating) or not np.isfinite(array).all():
            raise ValueError(f"{name} must hold finite floating-point numbers.")


class ClassifierTrainer(Strategy):
    r"""Trains one linear classifier per class by adding linear base learners.

    A round adds to each class's classifier the weighted ridge regressor of the working responses.  It is halved until
    the penalised cost

    .. math:: \sum_i \Omega\bigl(l_{ij} (w_j^T x_i + b_j)\bigr) + \frac{\lambda_j}{2} \|w_j\|^2

    falls.  Here :math:`\lambda_j` is ``ridge`` times the mean diagonal entry of the Hessian over the atoms in use, at
    the loss's mean curvature between the margins -1 and 1.  A fit sets it at its first codes and keeps it: it is a
    prior of the classifiers in the MAP objective.  Rounds are in float64 for codes of either precision.

    Subclasses choose the losses that they are for (:meth:`supports`), and maybe the sample weights of a round
    (:meth:`sample_weights`).  One that overrides :meth:`train` instead must set ``is_additive`` to False, or a fit will
    not call it.

    Parameters
    ----------
    ridge : float, default=0.03
        Penalty on the coefficients, relative to the mean diagonal entry of the Hessian.  The intercept has none.
    max_rounds : int, default=50
        Maximum number of base learners per class.
    tol : float, default=1e-4
        A class is done when the gradient of its penalised cost has fallen to this share of what it was at the start.
    z_max : float, default=4.0
        The largest working response of a sample, its wanted change of margin: that is :math:`-\Omega_1/\Omega_2` in
        Newton's method, huge or infinite where the loss is nearly straight.  For a quadratic loss there is no limit.
    fit_intercept : bool, default=True
        Whether classifiers have an intercept; if not, intercepts stay as they are.

    Attributes
    ----------
    is_additive : bool
        A fit calls :meth:`train_on`, which needs the samples only through sums, so that they may be in several places.

    See Also
    --------
    check_classifier_trainer : Tests a trainer of one's own.

    Examples
    --------
    Any positive sample weights will do, since rounds are guarded by step halving:

    >>> import numpy as np
    >>> from ddlearn.classifiers import ClassifierTrainer, resolve_trainer
    >>> class EqualWeights(ClassifierTrainer):
    ...     def sample_weights(self, gradient, curvature):
    ...         return np.full_like(curvature, 0.25)
    >>> resolve_trainer(EqualWeights(max_rounds=100), "logistic")
    EqualWeights(max_rounds=100)
    """

    is_additive = True

    def __init__(
        self,
        ridge: float = 0.03,
        max_rounds: int = 50,
        tol: float = 1e-4,
        z_max: float = 4.0,
        *,
        fit_intercept: bool = True,
    ):
        self.ridge = ridge
        self.max_rounds = max_rounds
        self.tol = tol
        self.z_max = z_max
        self.fit_intercept = fit_intercept

    def supports(self, loss: Loss) -> bool:
        """Return whether this trainer is for that loss."""
        return True

    def sample_weights(self, gradient: Floats, curvature: Floats) -> Floats:
        """Return the weight of each sample in the next round, not negative, from the loss's derivatives at its margin.

        It must not depend on the other samples, which may be elsewhere.  A quadratic loss has its curvature for weight.
        """
        # If only the response were clipped, its product with the weight would no longer be the gradient, and rounds
        # would not converge to the minimum.
        return np.maximum(curvature, np.abs(gradient) / self.z_max)

    def check_parameters(self) -> None:
        given = self.get_params(deep=False)  # not all, where a trainer with its own `train` has its own constructor
        for name, kind in {"ridge": Real, "max_rounds": Integral, "tol": Real, "z_max": Real}.items():
            if name in given:
                least, bounds = int(name == "max_rounds"), "neither" if name == "z_max" else "left"
                check_scalar(given[name], name, kind, min_val=least, include_boundaries=bounds)

    def train(
        self,
        codes: RowCodes,
        labels: Floats,
        loss: Loss,
        coef: Floats,
        intercept: Floats,
        *,
        penalties: Floats | None = None,
        n_jobs: int | None = None,
    ) -> tuple[Floats, Floats]:
        r"""Improve the classifiers given.

        Parameters
        ----------
        codes : RowCodes
            The codes of the samples.
        labels : ndarray of shape (n_samples, n_classes)
            +1 or -1, or 0 if it is not known.
        loss : Loss
            The cost of a margin.
        coef : ndarray of shape (n_classes, n_components)
            Initial coefficients.
        intercept : ndarray of shape (n_classes,)
            Initial intercepts.
        penalties : ndarray of shape (n_classes,) or None, default=None
            The :math:`\lambda_j`; by default ``ridge`` relative to these codes.
        n_jobs : int or None, default=None
            Number of threads, as in joblib; each takes one class after another.

        Returns
        -------
        coef : ndarray of shape (n_classes, n_components)
            New coefficients, zero for atoms that no sample uses.
        intercept : ndarray of shape (n_classes,)
            New intercepts.  The penalised cost rises for no class.
        """
        _check_arrays(codes, labels, coef, intercept)
        parts: Parts[ClassifierPart] = Parts([LabelledCodes(codes, labels)])
        return self.train_on(parts, loss, coef, intercept, penalties=penalties, n_jobs=n_jobs)

    def train_on(
        self,
        parts: Parts[ClassifierPart],
        loss: Loss,
        coef: Floats,
        intercept: Floats,
        *,
        penalties: Floats | None = None,
        n_jobs: int | None = None,
    ) -> tuple[Floats, Floats]:
        """Do what :meth:`train` does for samples in parts, which may be in several places.

        Each part is a ``LabelledCodes`` (``classifiers/problem.py``) or has the same two methods; only sums over
        parts are collected.  The other arguments are those of :meth:`train`.
        """
        self.check_parameters()
        return train_in_rounds(self, parts, loss, coef, intercept, penalties, n_jobs)


class Newton(ClassifierTrainer):
    """Newton's method for any convex loss, guarded by step halving; :class:`ClassifierTrainer` has the formulae.

    Parameters
    ----------
    ridge, max_rounds, tol, z_max, fit_intercept : float, int, float, float, bool
        As for :class:`ClassifierTrainer`.

    Examples
    --------
    >>> import numpy as np
    >>> from ddlearn import Newton
    >>> Newton().sample_weights(gradient=np.array([-1.0, -1.0]), curvature=np.array([0.5, 0.0]))
    array([0.5 , 0.25])
    """


class SquareLev(ClassifierTrainer):
    """Square leverage for a quadratic loss, with linear least squares as the base regressor.

    SquareLev.R (Duffy and Helmbold, Machine Learning 47, 2002) fits a base regressor to the residuals and adds it with
    the best factor.  A linear regressor fitted to all atoms at once leaves residuals that no linear function can lower:
    **one round reaches ridge least squares**, and the factor is 1.  The mean residual, which the original adds at the
    end, is in the unpenalised intercept.

    Parameters
    ----------
    ridge, max_rounds, tol, z_max, fit_intercept : float, int, float, float, bool
        As for :class:`ClassifierTrainer`.

    Examples
    --------
    >>> from ddlearn import Logistic, Square, SquareLev
    >>> SquareLev().supports(Square()), SquareLev().supports(Logistic())
    (True, False)
    """

    def supports(self, loss: Loss) -> bool:
        return loss.is_quadratic


class AdaBoost(ClassifierTrainer):
    """Gentle AdaBoost for the exponential loss, with linear base learners.

    In a round sample i has the weight :math:`e^{-z_i}`, and the learner is fitted to the labels themselves: the working
    response of every margin is 1 (Friedman, Hastie and Tibshirani, Annals of Statistics 28, 2000, Algorithm 4).
    Discrete AdaBoost would add signs of linear functions, whose sum is not linear.

    Parameters
    ----------
    ridge, max_rounds, tol, z_max, fit_intercept : float, int, float, float, bool
        As for :class:`ClassifierTrainer`.

    Examples
    --------
    >>> import numpy as np
    >>> from ddlearn import AdaBoost, Exponential
    >>> loss, margin = Exponential(), np.array([-1.0, 0.0, 1.0])
    >>> AdaBoost().sample_weights(loss.gradient(margin), loss.curvature(margin)).round(2)
    array([2.72, 1.  , 0.37])
    """

    def supports(self, loss: Loss) -> bool:
        return loss.trainer == "ada_boost"


class LogitBoost(ClassifierTrainer):
    r"""LogitBoost for the logistic loss, with linear base learners.

    In a round sample i has the weight :math:`p_i (1 - p_i)` and the response :math:`1/p_i`, where :math:`p_i` is
    the probability of its label; on the scale :math:`\ln(1 + e^{-z})` of the paper a learner is added whole, not by
    half.  Responses stop at ``z_max``, for which the original (Friedman, Hastie and Tibshirani, Annals of Statistics
    28, 2000, Algorithm 3) recommends 2 to 4.  The original keeps the weight of a clipped response; here the weight
    grows, so that their product remains the gradient and rounds converge to logistic regression also where samples are
    misclassified.

    Parameters
    ----------
    ridge, max_rounds, tol, z_max, fit_intercept : float, int, float, float, bool
        As for :class:`ClassifierTrainer`.

    Examples
    --------
    >>> import numpy as np
    >>> from ddlearn import Logistic, LogitBoost
    >>> loss, margin = Logistic(), np.array([-9.0, 0.0, 9.0])
    >>> LogitBoost().sample_weights(loss.gradient(margin), loss.curvature(margin)).round(2)
    array([0.25, 0.25, 0.  ])
    """

    def supports(self, loss: Loss) -> bool:
        return loss.trainer == "logit_boost"


class LinearSVM(ClassifierTrainer):
    r"""Linear support vector machine for the smooth hinges, by Newton's method in the primal.

    In Chapelle's form (Neural Computation 19, 2007), :math:`\frac{\lambda}{2}\|w\|^2 + \sum_i \Omega(z_i)`; samples
    beyond the hinge have weight zero.

    Parameters
    ----------
    ridge : float, default=0.2
        As for :class:`ClassifierTrainer`, but larger: a hinge asks for a margin of 1 and no more, and the penalty
        makes the classifier a support vector machine.
    max_rounds, tol, z_max, fit_intercept : int, float, float, bool
        As for :class:`ClassifierTrainer`.

    Examples
    --------
    >>> import numpy as np
    >>> from ddlearn import LinearSVM, SmoothHinge
    >>> loss, margin = SmoothHinge(), np.array([-5.0, 1.0, 5.0])
    >>> LinearSVM().sample_weights(loss.gradient(margin), loss.curvature(margin))
    array([0.25, 1.  , 0.  ])
    """

    def __init__(
        self,
        ridge: float = 0.2,
        max_rounds: int = 50,
        tol: float = 1e-4,
        z_max: float = 4.0,
        *,
        fit_intercept: bool = True,
    ):
        super().__init__(ridge, max_rounds, tol, z_max, fit_intercept=fit_intercept)

    def supports(self, loss: Loss) -> bool:
        return loss.trainer == "linear_svm"


CLASSIFIER_TRAINERS: Registry[ClassifierTrainer] = Registry(
    "classifier trainer",
    ClassifierTrainer,
    {
        "square_lev": SquareLev,
        "ada_boost": AdaBoost,
        "logit_boost": LogitBoost,
        "linear_svm": LinearSVM,
        "newton": Newton,
    },
)


def resolve_trainer(trainer: str | ClassifierTrainer, loss: str | Loss) -> ClassifierTrainer:
    """Return the trainer registered under a name, or the object itself, if it supports the loss.

    "auto" is the trainer that the loss names, or "square_lev" for a quadratic loss.

    Examples
    --------
    >>> from ddlearn.classifiers import resolve_trainer
    >>> resolve_trainer("auto", "exponential")
    AdaBoost()
    """
    loss = loss if isinstance(loss, Loss) else LOSSES.resolve(loss)
    if isinstance(trainer, str) and trainer == "auto":
        trainer = "square_lev" if loss.is_quadratic else loss.trainer
    trainer = CLASSIFIER_TRAINERS.resolve(trainer)
    if not trainer.supports(loss):
        usable = [name for name, registered in CLASSIFIER_TRAINERS.items() if registered().supports(loss)]
        raise ValueError(f"{trainer!r} does not support the loss {loss!r}; use 'auto' or one of {usable} instead.")
    return trainer


def has_intercept(trainer: ClassifierTrainer) -> bool:
    """Whether classifiers have an intercept; a trainer of one's own need not say so."""
    return getattr(trainer, "fit_intercept", True)
