r"""The classification costs :math:`\Omega(z)` of the paper (Section 3.1, Fig. 1).

The margin of a sample for one class is :math:`z = l\,(w^T x + b)`.  Discriminative sparse coding needs a cost and its
derivatives :math:`\Omega_1` and :math:`\Omega_2`, element by element.  The ratio :math:`\Omega_1/\Omega_2` of the paper
is never formed: for the logistic cost it overflows where both derivatives are harmless.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from numbers import Real

import numpy as np
from numpy.typing import NDArray

from .strategies import Registry, Strategy

Margins = NDArray[np.floating]
# Smallest sharpness of hinges; costs of a blunter one, or of one as sharp as its inverse, are out of range.
_BLUNTEST = 1e-6


class Loss(Strategy, ABC):
    r"""A convex classification cost :math:`\Omega(z)` and its two derivatives.

    Subclasses implement :meth:`value`, :meth:`gradient` and :meth:`curvature`.  Each maps an array of
    margins to an array of the same shape and dtype, finite for every finite margin.  :func:`ddlearn.check_loss`
    verifies a loss numerically.

    Attributes
    ----------
    is_quadratic : bool
        The cost is a parabola, so one Newton step of discriminative sparse coding is exact.
    trainer : str
        The classifier trainer that "auto" chooses, a key of ``CLASSIFIER_TRAINERS``; "square_lev" if quadratic.

    Examples
    --------
    >>> import numpy as np
    >>> from ddlearn import Loss
    >>> class SquaredHinge(Loss):
    ...     def value(self, margin):
    ...         return np.maximum(1 - margin, 0) ** 2
    ...     def gradient(self, margin):
    ...         return -2 * np.maximum(1 - margin, 0)
    ...     def curvature(self, margin):
    ...         return 2 * (margin < 1).astype(margin.dtype)
    >>> SquaredHinge().value(np.array([-1.0, 0.0, 2.0]))
    array([4., 1., 0.])
    """

    is_quadratic = False
    trainer = "newton"

    @abstractmethod
    def value(self, margin: Margins) -> Margins:
        r"""Return the cost :math:`\Omega(z)`, not negative."""

    @abstractmethod
    def gradient(self, margin: Margins) -> Margins:
        r"""Return the first derivative :math:`\Omega_1(z)`."""

    @abstractmethod
    def curvature(self, margin: Margins) -> Margins:
        r"""Return the second derivative :math:`\Omega_2(z)`, not negative."""

    def surrogate_curvature(self, margin: Margins) -> Margins:
        r"""Return the curvature of the parabola that replaces the cost in one coding step.

        By default :math:`\Omega_2(z)`, as in Newton's method.  A loss whose second derivative vanishes on intervals
        returns an upper bound of it instead, so that the parabola is a majoriser of the cost.
        """
        return self.curvature(margin)


class Square(Loss):
    r"""Square cost, :math:`\Omega(z) = (1 - z)^2`.

    Examples
    --------
    >>> import numpy as np
    >>> Square().value(np.array([-1.0, 0.0, 1.0]))
    array([4., 1., 0.])
    """

    is_quadratic = True
    trainer = "square_lev"

    def value(self, margin: Margins) -> Margins:
        return (1 - margin) ** 2

    def gradient(self, margin: Margins) -> Margins:
        return -2 * (1 - margin)

    def curvature(self, margin: Margins) -> Margins:
        return np.full_like(margin, 2)


class Exponential(Loss):
    r"""Exponential cost of AdaBoost, :math:`\Omega(z) = e^{-z}`.

    Below a margin of -30 the exponential is continued by its second-order Taylor polynomial, so that cost and
    derivatives stay finite, continuous and convex for every margin.  A cost of :math:`e^{30} \approx 10^{13}`
    times that of a sample on the decision boundary has no meaning that the continuation could spoil.

    Examples
    --------
    >>> import numpy as np
    >>> Exponential().value(np.array([0.0, np.log(2.0)]))
    array([1. , 0.5])
    """

    trainer = "ada_boost"
    largest_exponent = 30.0

    def _split(self, margin: Margins) -> tuple[Margins, Margins | None]:
        """Return the exponential, and by how much the exponent is larger than allowed, if it is anywhere."""
        exponent = -margin
        if exponent.max(initial=0) <= self.largest_exponent:  # as nearly always
            return np.exp(exponent), None
        allowed = np.minimum(exponent, self.largest_exponent)
        return np.exp(allowed), exponent - allowed

    def value(self, margin: Margins) -> Margins:
        exponential, excess = self._split(margin)
        return exponential if excess is None else exponential * (1 + excess + excess**2 / 2)

    def gradient(self, margin: Margins) -> Margins:
        exponential, excess = self._split(margin)
        return -exponential if excess is None else -exponential * (1 + excess)

    def curvature(self, margin: Margins) -> Margins:
        return self._split(margin)[0]


# NumPy's exponential is a vector instruction, those of np.logaddexp and scipy's expit are not: three times as fast.
def _softplus(x: Margins) -> Margins:
    """Return ln(1 + e^x)."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _sigmoid(x: Margins) -> Margins:
    """Return 1 / (1 + e^-x)."""
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, small) / (1 + small)


def _sigmoid_slope(x: Margins) -> Margins:
    """Return the derivative of the sigmoid."""
    small = np.exp(-np.abs(x))
    return small / (1 + small) ** 2


class Logistic(Loss):
    r"""Logistic cost of LogitBoost, :math:`\Omega(z) = \ln(1 + e^{-z})`.

    Examples
    --------
    >>> import numpy as np
    >>> Logistic().value(np.array([-1000.0, 1000.0]))
    array([1000.,    0.])
    """

    trainer = "logit_boost"

    def value(self, margin: Margins) -> Margins:
        return _softplus(-margin)

    def gradient(self, margin: Margins) -> Margins:
        return -_sigmoid(-margin)

    def curvature(self, margin: Margins) -> Margins:
        return _sigmoid_slope(margin)


class _Hinge(Loss):
    """A hinge cost whose corner is rounded by as much as its sharpness allows."""

    trainer = "linear_svm"

    def __init__(self, sharpness: float):
        self.sharpness = sharpness

    def check_parameters(self) -> None:
        if not (isinstance(self.sharpness, Real) and 0 < self.sharpness < np.inf):
            raise ValueError(f"sharpness must be a positive number, got {self.sharpness!r}.")
        if not _BLUNTEST <= self.sharpness <= 1 / _BLUNTEST:
            raise ValueError(f"sharpness must be from {_BLUNTEST:g} to {1 / _BLUNTEST:g}, got {self.sharpness!r}.")


class SmoothHinge(_Hinge):
    r"""Hinge cost with a rounded corner: :math:`\max(0, 1 - z)` except for :math:`|1 - z| < 1/\rho`.

    Inside that band it is the parabola :math:`\frac{\rho}{4}(1 - z + 1/\rho)^2`, outside it is the hinge itself;
    the gap to the hinge is at most :math:`1/(4\rho)`.  Its second derivative is zero outside the band, so coding
    uses the bound :math:`\rho/2` everywhere: the same weight for every sample, as the paper says of the hinge.

    Parameters
    ----------
    sharpness : float, default=2.0
        The paper's :math:`\rho`; larger is closer to the hinge.

    See Also
    --------
    SoftplusHinge : The strictly convex form.

    Examples
    --------
    >>> import numpy as np
    >>> SmoothHinge(sharpness=2.0).value(np.array([-1.0, 1.0, 2.0]))
    array([2.   , 0.125, 0.   ])
    """

    def __init__(self, sharpness: float = 2.0):
        super().__init__(sharpness)

    def _depth(self, margin: Margins) -> Margins:
        """How far the margin is inside the band, from 0 at its right end to 2 / sharpness at its left."""
        return np.clip(1 - margin + 1 / self.sharpness, 0, 2 / self.sharpness)

    def value(self, margin: Margins) -> Margins:
        beyond_band = np.maximum(1 - margin - 1 / self.sharpness, 0)
        return self.sharpness / 4 * self._depth(margin) ** 2 + beyond_band

    def gradient(self, margin: Margins) -> Margins:
        return -self.sharpness / 2 * self._depth(margin)

    def curvature(self, margin: Margins) -> Margins:
        inside_band = np.abs(1 - margin) < 1 / self.sharpness
        return self.sharpness / 2 * inside_band.astype(margin.dtype)

    def surrogate_curvature(self, margin: Margins) -> Margins:
        return np.full_like(margin, self.sharpness / 2)


class SoftplusHinge(_Hinge):
    r"""Strictly convex smooth hinge, :math:`\Omega(z) = \ln(1 + e^{\rho(1 - z)})/\rho`.

    Parameters
    ----------
    sharpness : float, default=5.0
        The paper's :math:`\rho`; the gap to the hinge is at most :math:`\ln 2/\rho`.

    See Also
    --------
    SmoothHinge : The form that equals the hinge outside a band.

    Examples
    --------
    >>> import numpy as np
    >>> SoftplusHinge(sharpness=100.0).value(np.array([-1.0, 3.0])).round(6)
    array([2., 0.])
    """

    def __init__(self, sharpness: float = 5.0):
        super().__init__(sharpness)

    def value(self, margin: Margins) -> Margins:
        return _softplus(self.sharpness * (1 - margin)) / self.sharpness

    def gradient(self, margin: Margins) -> Margins:
        return -_sigmoid(self.sharpness * (1 - margin))

    def curvature(self, margin: Margins) -> Margins:
        return self.sharpness * _sigmoid_slope(self.sharpness * (1 - margin))


LOSSES: Registry[Loss] = Registry(
    "loss",
    Loss,
    {
        "square": Square,
        "exponential": Exponential,
        "logistic": Logistic,
        "smooth_hinge": SmoothHinge,
        "softplus_hinge": SoftplusHinge,
    },
)


def compute_evidence(scores: Margins, loss: Loss, class_cost: Margins) -> Margins:
    """Return the evidence for each class: how much less its label +1 costs than -1."""
    return (loss.value(-scores) - loss.value(scores)) / class_cost.astype(scores.dtype, copy=False)
