"""The learned scales: how noisy each training sample is, and how costly each class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..colors import get_class_color
from .figures import (
    BLUE,
    LABEL_SIZE,
    ORANGE,
    RED,
    TICK_SIZE,
    TITLE_SIZE,
    open_axes,
    to_label,
)
from .models import unwrap

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LOG_ABOVE = 10.0  # the largest over the smallest from which the axis is logarithmic


def _mark_floor(ax: Axes, floor: float, scales: NDArray[np.float64], owners: str) -> None:
    """Draw the line below which no scale can fall, and tell how many are at it."""
    n_there = int(np.count_nonzero(scales <= floor * (1 + 1e-6)))  # equal, but for float32
    ax.axvline(floor, color=RED, lw=2.5, ls="--", label=f"floor {floor:.3g}, {n_there} {owners} at it")


class NoiseDisplay:
    r"""Histogram of the noise level :math:`\sigma_i` of each training sample.

    Samples far to the right do not fit the dictionary; a bar at the floor holds those that fit as well as the model
    allows.

    Parameters
    ----------
    sigma : array-like of shape (n_samples,)
        The noise levels, positive.
    floor : float or None, default=None
        The smallest level that the fit allowed.

    Attributes
    ----------
    counts_ : ndarray of shape (n_bins,)
        Samples in each bar.
    bin_edges_ : ndarray of shape (n_bins + 1,)
        Where bars begin and end.
    ax_ : matplotlib Axes
        The axes.
    figure_ : matplotlib Figure
        Their figure.

    See Also
    --------
    ClassCostDisplay : The scales of the classes.

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
            raise ValueError("sigma is empty: give the noise level of one sample at least.")
        self.floor = floor

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Axes | None = None) -> NoiseDisplay:
        """Draw the noise levels of a fitted model.

        Parameters
        ----------
        estimator : DDLClassifier or Pipeline
            The model, or a pipeline that ends with it.
        ax : matplotlib Axes or None, default=None
            Where to draw; by default in a new figure.

        Returns
        -------
        NoiseDisplay
            The display.
        """
        model = unwrap(estimator)
        if not hasattr(model, "noise_variance_"):
            raise ValueError(
                "The model holds no noise_variance_, so the noise of its training samples is not known: fit it again, "
                "or load a file that was saved with it."
            )
        return cls(np.sqrt(model.noise_variance_), floor=float(np.sqrt(model.noise_floor_))).plot(ax=ax)

    def plot(self, ax: Axes | None = None) -> NoiseDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw; by default in a new figure.

        Returns
        -------
        NoiseDisplay
            The display itself.
        """
        ax = open_axes(ax, 7, 4.5)
        self.counts_, self.bin_edges_ = self._count()
        ax.stairs(self.counts_, self.bin_edges_, fill=True, color=BLUE, alpha=0.75)
        median = float(np.median(self.sigma))
        ax.axvline(median, color=ORANGE, lw=2.5, label=f"median {median:.3g}")
        if self.floor is not None:
            _mark_floor(ax, self.floor, self.sigma, "samples")
        ax.set_ylim(0, 1.3 * self.counts_.max())  # room for the legend
        if self._is_wide():
            ax.set_xscale("log")
        ax.set_title(f"Noise of {len(self.sigma)} training samples", fontsize=TITLE_SIZE)
        ax.set_xlabel(r"Noise level $\sigma$", fontsize=LABEL_SIZE)
        ax.set_ylabel("Samples", fontsize=LABEL_SIZE)
        ax.tick_params(which="both", labelsize=TICK_SIZE)
        ax.legend(fontsize=TICK_SIZE)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _is_wide(self) -> bool:
        return bool(self.sigma.max() > _LOG_ABOVE * self.sigma.min() > 0)

    def _count(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the bars, of equal width as they are drawn."""
        values = np.log(self.sigma) if self._is_wide() else self.sigma
        edges = np.histogram_bin_edges(values, bins=min(40, 5 + int(np.sqrt(len(values)))))
        counts = np.histogram(values, edges)[0]
        return counts, np.exp(edges) if self._is_wide() else edges


class ClassCostDisplay:
    r"""Bars of the cost scale :math:`\gamma_j` of each class.

    A class with a large scale is hard to tell from the others; evidence for it counts less.

    Parameters
    ----------
    class_cost : array-like of shape (n_classes,)
        The scales.
    classes : array-like of shape (n_classes,)
        The names of the classes.
    floor : float or None, default=None
        The smallest cost that the fit allowed, which is marked.

    Attributes
    ----------
    bars_ : matplotlib BarContainer
        The bars.
    ax_ : matplotlib Axes
        The axes.
    figure_ : matplotlib Figure
        Their figure.

    See Also
    --------
    NoiseDisplay : The scales of the samples.

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
    def from_estimator(cls, estimator: Any, *, ax: Axes | None = None) -> ClassCostDisplay:
        """Draw the class costs of a fitted model.

        Parameters
        ----------
        estimator : DDLClassifier or Pipeline
            The model, or a pipeline that ends with it.
        ax : matplotlib Axes or None, default=None
            Where to draw; by default in a new figure.

        Returns
        -------
        ClassCostDisplay
            The display.
        """
        model = unwrap(estimator)
        return cls(model.class_cost_, model.classes_, floor=model.cost_floor_).plot(ax=ax)

    def plot(self, ax: Axes | None = None) -> ClassCostDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw; by default in a new figure.

        Returns
        -------
        ClassCostDisplay
            The display itself.
        """
        n_classes = len(self.classes)
        ax = open_axes(ax, 7, max(2.2, 1.3 + 0.3 * n_classes))
        positions = np.arange(n_classes)
        colors = [get_class_color(position) for position in range(n_classes)]
        self.bars_ = ax.barh(positions, self.class_cost, color=colors)
        ax.bar_label(self.bars_, fmt="%.3g", padding=3, fontsize=TICK_SIZE)
        if self.floor is not None:
            _mark_floor(ax, self.floor, self.class_cost, "classes")
            ax.legend(fontsize=TICK_SIZE)
        ax.set_yticks(positions, [to_label(name) for name in self.classes], fontsize=TICK_SIZE)
        ax.set_ylim(n_classes - 0.4, -0.6)  # the first class on top
        ax.margins(x=0.15)  # room for the numbers
        ax.ticklabel_format(axis="x", style="sci", scilimits=(-3, 4), useMathText=True)
        ax.set_title("Cost scale of each class", fontsize=TITLE_SIZE)
        ax.set_xlabel(r"Class cost $\gamma$ (larger: harder to tell)", fontsize=LABEL_SIZE)
        ax.tick_params(labelsize=TICK_SIZE)
        self.ax_, self.figure_ = ax, ax.figure
        return self
