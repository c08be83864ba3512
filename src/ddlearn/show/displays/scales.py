"""The learned scales: the noise level of each training sample and the cost of each class."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...estimators.classifier import DDLClassifier
from ..colors import get_class_color
from .base import Axes, ModelDisplay
from .drawing import BLUE, ORANGE, RED, TICK_SIZE, to_label

_LOG_ABOVE = 10.0  # ratio of largest to smallest level above which the axis is logarithmic


def _mark_floor(ax: Axes, floor: float, scales: NDArray[np.float64], owners: str) -> None:
    """Draw the lower bound of the scales, and count those that reach it."""
    n_there = int(np.count_nonzero(scales <= floor * (1 + 1e-6)))  # equal up to float32 rounding
    ax.axvline(floor, color=RED, lw=2.5, ls="--", label=f"floor {floor:.3g} ({n_there} {owners})")


class NoiseDisplay(ModelDisplay):
    r"""Histogram of the noise level :math:`\sigma_i` of each training sample.

    Samples far to the right are poorly represented by the dictionary; a bar at the floor contains those represented as
    well as the model allows.

    Parameters
    ----------
    sigma : array-like of shape (n_samples,)
        The noise levels, positive.
    floor : float or None, default=None
        The smallest level that the fit allowed.

    Attributes
    ----------
    counts_ : ndarray of shape (n_bins,)
        Number of samples per bar.
    bin_edges_ : ndarray of shape (n_bins + 1,)
        Edges of the bars.
    ax_, figure_ : matplotlib Axes and Figure
        Where the display was drawn.

    Examples
    --------
    >>> from ddlearn import NoiseDisplay
    >>> display = NoiseDisplay([0.1, 0.2, 0.2, 0.4], floor=0.1).plot()
    >>> int(display.counts_.sum())
    4
    """

    def __init__(self, sigma: ArrayLike, *, floor: float | None = None):
        self.sigma = np.asarray(sigma, dtype=np.float64)
        if not self.sigma.size:
            raise ValueError("sigma is empty: pass the noise level of at least one sample.")
        self.floor = floor

    @classmethod
    def _from_model(cls, model: DDLClassifier) -> Self:
        if not hasattr(model, "noise_variance_"):
            raise ValueError(
                "The model has no noise_variance_, the noise of its training samples: fit it again, or load a file "
                "that was saved with it."
            )
        return cls(np.sqrt(model.noise_variance_), floor=float(np.sqrt(model.priors_.noise_floor)) or None)

    def _draw(self, ax: Axes | None) -> None:
        ax = self._open_axes(ax, 7, 4.5)
        is_wide = bool(self.sigma.max() > _LOG_ABOVE * self.sigma.min() > 0)
        values = np.log(self.sigma) if is_wide else self.sigma  # bars are equally wide as drawn
        self.counts_, edges = np.histogram(values, bins=min(40, 5 + int(np.sqrt(len(values)))))
        self.bin_edges_ = np.exp(edges) if is_wide else edges
        ax.stairs(self.counts_, self.bin_edges_, fill=True, color=BLUE, alpha=0.75)
        median = float(np.median(self.sigma))
        ax.axvline(median, color=ORANGE, lw=2.5, label=f"median {median:.3g}")
        if self.floor is not None:
            _mark_floor(ax, self.floor, self.sigma, "samples")
        ax.set_ylim(0, 1.3 * self.counts_.max())  # room for the legend
        if is_wide:
            ax.set_xscale("log")
        self._label_axes(f"Noise of {len(self.sigma)} training samples", r"Noise level $\sigma$", "Samples")
        ax.legend(fontsize=TICK_SIZE)


class ClassCostDisplay(ModelDisplay):
    r"""Bars of the cost scale :math:`\gamma_j` of each class.

    A class with a large scale is hard to separate from the others, and evidence for it counts less.

    Parameters
    ----------
    class_cost : array-like of shape (n_classes,)
        The scales.
    classes : array-like of shape (n_classes,)
        The names of the classes.
    floor : float or None, default=None
        The smallest cost that the fit allowed.

    Attributes
    ----------
    bars_ : matplotlib BarContainer
        The bars.
    ax_, figure_ : matplotlib Axes and Figure
        Where the display was drawn.

    Examples
    --------
    >>> from ddlearn import ClassCostDisplay
    >>> display = ClassCostDisplay([0.2, 0.5], ["cat", "dog"]).plot()
    >>> [float(bar.get_width()) for bar in display.bars_]
    [0.2, 0.5]
    """

    def __init__(self, class_cost: ArrayLike, classes: ArrayLike, floor: float | None = None):
        self.class_cost = np.asarray(class_cost, dtype=np.float64)
        self.classes = np.asarray(classes)
        self.floor = floor

    @classmethod
    def _from_model(cls, model: DDLClassifier) -> Self:
        return cls(model.class_cost_, model.classes_, floor=model.priors_.cost_floor or None)

    def _draw(self, ax: Axes | None) -> None:
        n_classes = len(self.classes)
        ax = self._open_axes(ax, 7, max(2.2, 1.3 + 0.3 * n_classes))
        colors = [get_class_color(position) for position in range(n_classes)]
        self.bars_ = ax.barh(range(n_classes), self.class_cost, color=colors)
        ax.bar_label(self.bars_, fmt="%.3g", padding=3, fontsize=TICK_SIZE)
        if self.floor is not None:
            _mark_floor(ax, self.floor, self.class_cost, "classes")
            ax.legend(fontsize=TICK_SIZE)
        ax.set_yticks(range(n_classes), [to_label(name) for name in self.classes])
        ax.set_ylim(n_classes - 0.4, -0.6)  # the first class on top
        ax.margins(x=0.15)  # room for the numbers
        ax.ticklabel_format(axis="x", style="sci", scilimits=(-3, 4), useMathText=True)
        self._label_axes("Cost scale of each class", r"Class cost $\gamma$ (larger: harder to separate)")
