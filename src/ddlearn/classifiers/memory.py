r"""What trainers remember of samples that are gone: a parabola for each class (as in online Newton methods).

With :math:`v_j` a class's coefficients and intercept, the costs of a batch are expanded where its training ended,

.. math:: q_j(v) = c_j - r_j^T v + \tfrac12 v^T H_j v ,

and the parabolas of all batches add up; a factor below one forgets.  For a quadratic loss they are the costs
themselves, and one Hessian serves all classes.  A memory stands among the parts of the samples that are there: trainers
ask it for the same sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..losses import Loss
from ..parallel import LocalParts
from .problem import (
    Array,
    Expansion,
    ExpansionRequest,
    HasLabelledCodes,
    Survey,
    expand_part,
    mean_curvature,
    survey_and_expand,
    survey_part,
    weigh_by_curvature,
)
from .trainer import ClassifierTrainer


@dataclass(frozen=True)
class RememberedCosts:
    """The parabolas of all classes, and what a survey of the samples would have found.

    Parameters
    ----------
    squared_norms : ndarray of shape (n_classes, n_components)
        Of the atoms' coefficients, over the samples that are labelled for a class.
    n_of_label : ndarray of shape (2, n_classes)
        How often each class's label was -1, and +1.
    constants : ndarray of shape (n_classes,)
        The costs at zero.
    linear : ndarray of shape (n_classes, n_components + 1)
        What pulls coefficients and intercepts away from zero.
    hessians : ndarray of shape (1 or n_classes, n_components + 1, n_components + 1)
        Lower triangles; a single one is that of all classes.

    Examples
    --------
    >>> from ddlearn import Square
    >>> RememberedCosts.nothing(3, 5, Square()).hessians.shape
    (1, 6, 6)
    """

    squared_norms: Array
    n_of_label: Array
    constants: Array
    linear: Array
    hessians: Array

    @classmethod
    def nothing(cls, n_classes: int, n_components: int, loss: Loss) -> RememberedCosts:
        """Return the memory of no samples."""
        n_hessians = 1 if getattr(loss, "is_quadratic", False) else n_classes
        return cls(
            np.zeros((n_classes, n_components)),
            np.zeros((2, n_classes)),
            np.zeros(n_classes),
            np.zeros((n_classes, n_components + 1)),
            np.zeros((n_hessians, n_components + 1, n_components + 1)),
        )

    @classmethod
    def of_classifiers(
        cls, classifiers: Array, costs: Array, n_of_label: Array, squared_norm: float, loss: Loss
    ) -> RememberedCosts:
        """Return a memory that holds classifiers where they are, when nothing but they and their costs is known.

        Each atom is taken to have been used alike, with coefficients of this sum of squares.
        """
        n_classes, n_places = classifiers.shape
        nothing = cls.nothing(n_classes, n_places - 1, loss)
        n_labelled = n_of_label.sum(axis=0)
        diagonal = np.full((len(nothing.hessians), n_places), squared_norm)
        diagonal[:, -1] = n_labelled[: len(diagonal)]
        hessians = mean_curvature(loss) * diagonal[:, :, None] * np.eye(n_places)
        here = Expansion(costs, np.zeros_like(classifiers), hessians)
        survey = Survey(np.full((n_classes, n_places - 1), squared_norm), n_of_label, 0)
        return nothing.add(survey, here, classifiers)

    def add(self, survey: Survey, expansion: Expansion, classifiers: Array) -> RememberedCosts:
        """Remember costs that were expanded at these classifiers."""
        curved = _multiply(expansion.hessians, classifiers)
        here = np.vecdot(classifiers, curved / 2 - expansion.gradients)
        return RememberedCosts(
            self.squared_norms + survey.squared_norms,
            self.n_of_label + survey.n_of_label,
            self.constants + expansion.costs + here,
            self.linear + curved - expansion.gradients,
            self.hessians + expansion.hessians,
        )

    def forget(self, factor: float) -> RememberedCosts:
        """Return a memory in which all samples count less."""
        return RememberedCosts(*(factor * getattr(self, name) for name in self.__dataclass_fields__))

    def forget_atoms(self, atoms: NDArray[np.intp]) -> RememberedCosts:
        """Return a memory as if no sample had used these atoms."""
        squared_norms, linear, hessians = self.squared_norms.copy(), self.linear.copy(), self.hessians.copy()
        squared_norms[:, atoms] = linear[:, atoms] = hessians[:, atoms] = hessians[:, :, atoms] = 0
        return replace(self, squared_norms=squared_norms, linear=linear, hessians=hessians)

    def take_hessians(self, classes: Sequence[int]) -> Array:
        """Return those of some classes, or the one that they share."""
        return self.hessians if len(self.hessians) == 1 else self.hessians[classes]


def _multiply(hessians: Array, vectors: Array) -> Array:
    """Return the products of symmetric matrices, of which lower triangles are given, with one vector each."""
    lower = hessians[0] if len(hessians) == 1 else hessians
    rows = vectors if lower.ndim == 2 else vectors[:, None, :]
    products = (rows @ lower + rows @ lower.mT).reshape(vectors.shape)
    return products - np.diagonal(lower, axis1=-2, axis2=-1) * vectors


@survey_part.register
def _survey_memory(memory: RememberedCosts, n_components: int) -> Survey:
    return Survey(memory.squared_norms, memory.n_of_label, 0)


@expand_part.register
def _expand_memory(memory: RememberedCosts, request: ExpansionRequest) -> Expansion:
    classes, vectors = list(request.classes), request.classifiers
    linear = memory.linear[classes]
    curved = _multiply(memory.take_hessians(classes), vectors)
    costs = memory.constants[classes] + np.vecdot(vectors, curved / 2 - linear)
    hessians = np.broadcast_to(memory.hessians, (len(memory.linear), *memory.hessians.shape[1:]))
    return Expansion(costs, curved - linear, hessians[np.array(classes)[np.array(request.hessians)]])


@dataclass(frozen=True)
class _SurrogateLoss:
    """A loss with the curvature of the parabolas that stand in for it.

    A hinge has no curvature where a sample is classified well: all that such a sample has taught would be lost.
    """

    loss: Loss

    def value(self, margin: Array) -> Array:
        return self.loss.value(margin)

    def gradient(self, margin: Array) -> Array:
        return self.loss.gradient(margin)

    def curvature(self, margin: Array) -> Array:
        return getattr(self.loss, "surrogate_curvature", self.loss.curvature)(margin)


def train_with_memory(
    trainer: ClassifierTrainer,
    memory: RememberedCosts,
    parts: Sequence[HasLabelledCodes],
    loss: Loss,
    coef: Array,
    intercept: Array,
    *,
    fit_intercept: bool,
    n_jobs: int | None,
) -> tuple[Array, Array, RememberedCosts]:
    """Improve classifiers on samples that are here and on what is remembered of others; then remember these too.

    Parameters
    ----------
    trainer : ClassifierTrainer
        How.
    memory : RememberedCosts
        Of the samples that are gone.
    parts : sequence
        Samples that are here, each part with ``codes`` and ``labels``; a sample is labelled for all classes or none.
    loss : Loss
        The cost of a margin.
    coef : ndarray of shape (n_classes, n_components)
        Where to start.
    intercept : ndarray of shape (n_classes,)
        Where to start.
    fit_intercept : bool
        Without it the intercepts stay as they are.
    n_jobs : int or None
        How many threads.

    Returns
    -------
    coef : ndarray of shape (n_classes, n_components)
        New coefficients.
    intercept : ndarray of shape (n_classes,)
        New intercepts.
    memory : RememberedCosts
        Of all samples.
    """
    everything: LocalParts[Any] = LocalParts([memory, *parts])
    coef, intercept = trainer.train_on(everything, loss, coef, intercept, fit_intercept=fit_intercept, n_jobs=n_jobs)
    n_classes, n_components = coef.shape
    is_common = len(memory.hessians) == 1
    wanted = [not is_common or j == 0 for j in range(n_classes)]
    classifiers = np.column_stack([coef, intercept]).astype(np.float64)
    weigh = weigh_by_curvature if is_common else trainer.weigh
    parabolas: Any = _SurrogateLoss(loss)
    request = ExpansionRequest(parabolas, weigh, range(n_classes), classifiers, wanted, n_jobs)
    survey, expansion = LocalParts(parts).add_up(survey_and_expand, n_components, request)
    return coef, intercept, memory.add(survey, expansion, classifiers)
