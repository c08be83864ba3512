r"""Costs of samples that are gone, as one parabola per class (as in online Newton methods).

With :math:`v_j` a class's coefficients and intercept, the costs of a batch are expanded where its training ended,

.. math:: q_j(v) = c_j - r_j^T v + \tfrac12 v^T H_j v ,

and the parabolas of all batches add up; a factor below one forgets.  For a quadratic loss they are the costs
themselves, and all classes share one Hessian.  The parabolas are one more part beside those of the samples of the
current batch: trainers ask them for the same sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..model.codes import Floats
from ..model.losses import Loss
from ..parallel import Parts
from .problem import (
    ClassifierPart,
    CodeSummary,
    Expansion,
    ExpansionRequest,
    WantedHessians,
    mean_curvature,
    scale_ridge,
    summarise_and_expand,
)
from .trainer import ClassifierTrainer


@dataclass(frozen=True)
class CostParabolas:
    """The parabolas of all classes, and the summary of the samples."""

    squared_norms: Floats  # (n_classes, n_components) of the atoms' coefficients, over samples labelled for the class
    n_of_label: Floats  # (2, n_classes) number of labels -1, and +1
    constants: Floats  # (n_classes,) c, the costs at zero
    linear: Floats  # (n_classes, n_components + 1) r
    hessians: Floats  # (1 or n_classes, n_components + 1, n_components + 1) lower triangles of H; one may be shared

    @classmethod
    def nothing(cls, n_classes: int, n_components: int, loss: Loss) -> CostParabolas:
        """Return the parabolas of no samples."""
        return cls(
            np.zeros((n_classes, n_components)),
            np.zeros((2, n_classes)),
            np.zeros(n_classes),
            np.zeros((n_classes, n_components + 1)),
            np.zeros((1 if loss.is_quadratic else n_classes, n_components + 1, n_components + 1)),
        )

    @classmethod
    def of_classifiers(
        cls, classifiers: Floats, costs: Floats, n_of_label: Floats, squared_norm: float, loss: Loss, ridge: float
    ) -> CostParabolas:
        """Return parabolas that keep classifiers where they are, if only they and their costs are known.

        All atoms are assumed to have been used alike, with coefficients of this sum of squares.  The slopes are those
        that balance the penalties of such codes.
        """
        n_classes, n_places = classifiers.shape
        nothing = cls.nothing(n_classes, n_places - 1, loss)
        n_labelled = n_of_label.sum(axis=0)
        diagonal = np.full((len(nothing.hessians), n_places), squared_norm)
        diagonal[:, -1] = n_labelled[: len(diagonal)]
        hessians = mean_curvature(loss) * diagonal[:, :, None] * np.eye(n_places)
        summary = CodeSummary(np.full((n_classes, n_places - 1), squared_norm), n_of_label, 0)
        slopes = -scale_ridge(ridge, loss, summary.squared_norms)[:, None] * classifiers
        slopes[:, -1] = 0
        here = Expansion(costs, slopes, hessians)
        return nothing.add(summary, here, classifiers)

    def add(self, summary: CodeSummary, expansion: Expansion, classifiers: Floats) -> CostParabolas:
        """Add costs that were expanded at these classifiers."""
        curved = _multiply(expansion.hessians, classifiers)
        here = np.vecdot(classifiers, curved / 2 - expansion.gradients)
        return CostParabolas(
            self.squared_norms + summary.squared_norms,
            self.n_of_label + summary.n_of_label,
            self.constants + expansion.costs + here,
            self.linear + curved - expansion.gradients,
            self.hessians + expansion.hessians,
        )

    def forget(self, factor: float) -> CostParabolas:
        """Multiply the weight of all samples by a factor."""
        return CostParabolas(*(factor * getattr(self, name) for name in self.__dataclass_fields__))

    def forget_atoms(self, atoms: NDArray[np.intp]) -> CostParabolas:
        """Return the parabolas as if no sample had used these atoms."""
        squared_norms, linear, hessians = self.squared_norms.copy(), self.linear.copy(), self.hessians.copy()
        squared_norms[:, atoms] = linear[:, atoms] = hessians[:, atoms] = hessians[:, :, atoms] = 0
        return replace(self, squared_norms=squared_norms, linear=linear, hessians=hessians)

    def summarise(self, n_components: int) -> CodeSummary:
        """Return the summary of the samples."""
        return CodeSummary(self.squared_norms, self.n_of_label, 0)

    def expand(self, request: ExpansionRequest) -> Expansion:
        """Expand the parabolas, which is exact."""
        classes, vectors = list(request.classes), request.classifiers
        linear = self.linear[classes]
        curved = _multiply(self.hessians if len(self.hessians) == 1 else self.hessians[classes], vectors)
        costs = self.constants[classes] + np.vecdot(vectors, curved / 2 - linear)
        hessians = np.broadcast_to(self.hessians, (len(self.linear), *self.hessians.shape[1:]))[classes]
        wanted = {"each": hessians, "mean": self.hessians.mean(axis=0, keepdims=True), "none": hessians[:0]}
        return Expansion(costs, curved - linear, wanted[request.hessians])


def _multiply(hessians: Floats, vectors: Floats) -> Floats:
    """Return the products of symmetric matrices, given by their lower triangles, with one vector each."""
    lower = hessians[0] if len(hessians) == 1 else hessians
    rows = vectors if lower.ndim == 2 else vectors[:, None, :]
    products = (rows @ lower + rows @ lower.mT).reshape(vectors.shape)
    return products - np.diagonal(lower, axis1=-2, axis2=-1) * vectors


def train_with_memory(
    trainer: ClassifierTrainer,
    memory: CostParabolas,
    parts: Sequence[ClassifierPart],
    loss: Loss,
    coef: Floats,
    intercept: Floats,
    *,
    penalties: Floats,
    n_jobs: int | None,
) -> tuple[Floats, Floats, CostParabolas]:
    """Train on the samples of ``parts`` and on the parabolas of earlier ones; return the parabolas of all, too.

    Other arguments are those of :meth:`ClassifierTrainer.train`.  A sample is labelled for all classes or none.
    """
    everything: Parts[ClassifierPart] = Parts([memory, *parts])
    coef, intercept = trainer.train_on(everything, loss, coef, intercept, penalties=penalties, n_jobs=n_jobs)
    is_common = len(memory.hessians) == 1
    wanted: WantedHessians = "mean" if is_common else "each"
    classifiers = np.column_stack([coef, intercept]).astype(np.float64)
    sample_weights = None if is_common else trainer.sample_weights
    # With the surrogate: where a hinge is straight it has no curvature, and a well classified sample would leave no
    # trace in the parabolas.
    curvature = loss.surrogate_curvature
    request = ExpansionRequest(loss, curvature, sample_weights, range(len(coef)), classifiers, wanted, n_jobs)
    summary, expansion = Parts(parts).add_up(summarise_and_expand, request)
    return coef, intercept, memory.add(summary, expansion, classifiers)
