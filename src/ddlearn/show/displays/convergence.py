"""The course of a fit: the objective, its four terms and the training errors per iteration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...fitting.loop import IterationRecord
from .base import Axes, Display, find_model, import_pyplot
from .drawing import BLACK, BLUE, GREEN, LABEL_SIZE, ORANGE, PURPLE, RED, TICK_SIZE

# Fields of the record, with the title and color of their panel.
_TERMS = {
    "objective": ("Objective", BLACK),
    "representation": ("Representation", BLUE),
    "log_noise": (r"Noise ($\ln\,\sigma^2$)", ORANGE),
    "classification": ("Classification", GREEN),
    "log_class_cost": (r"Cost ($\ln\,\gamma$)", PURPLE),
}
_ERRORS = {"training_error": ("with labels", BLUE, "-"), "label_free_error": ("label-free", RED, "--")}
_TITLE_PAD = 18  # points between a panel and its title, room for the exponent of the axis
_MANY_ITERATIONS = 40  # from here on, points are not marked


class ConvergenceDisplay(Display):
    """The objective, its four terms and the training error over the iterations of a fit.

    The terms differ in size and sign, so each has its own panel: representation (residuals over variances), noise
    (logarithms of the variances), classification (losses over class costs) and cost (logarithms of the class costs).
    The objective is their sum and what the priors add.  The last panel shows the error of the training codes, which
    depend on the labels, and the error of codes computed without labels, as for new samples.

    Parameters
    ----------
    history : sequence of IterationRecord
        One record per iteration, such as ``history_`` of a model.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes of shape (2, 3)
        The panels: objective, representation, noise, classification, cost, errors.
    figure_ : matplotlib Figure
        The figure.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from ddlearn import ConvergenceDisplay, DDLClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = DDLClassifier(n_components=50, max_iter=3, random_state=0).fit(X, y)
    >>> display = ConvergenceDisplay.from_estimator(model)
    >>> display.axes_.shape
    (2, 3)
    """

    def __init__(self, history: Sequence[IterationRecord]):
        self.history = list(history)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Axes | None = None) -> ConvergenceDisplay:
        """Draw the course of a fit.

        Parameters
        ----------
        estimator : DDLClassifier or Pipeline
            The fitted model, or a pipeline that ends with it.
        ax : matplotlib Axes or None, default=None
            Axes to draw on, whose area the panels divide; by default those of a new figure.
        """
        return cls(find_model(estimator).history_).plot(ax=ax)

    def _draw(self, ax: Axes | None) -> None:
        self.axes_ = _open_panels(ax)
        *panels, last = self.axes_.flat
        self.figure_ = last.figure
        from matplotlib.ticker import MaxNLocator

        marker = "o" if len(self.history) <= _MANY_ITERATIONS else ""
        style: dict[str, Any] = {"marker": marker, "ms": 4, "lw": 2.2}
        for panel, (name, (title, color)) in zip(panels, _TERMS.items(), strict=True):
            panel.plot(self._read("iteration"), self._read(name), color=color, **style)
            panel.ticklabel_format(axis="y", style="sci", scilimits=(-3, 4), useOffset=False, useMathText=True)
            panel.set_title(title, fontsize=LABEL_SIZE + 1, pad=_TITLE_PAD)
        for name, (label, color, line) in _ERRORS.items():
            last.plot(self._read("iteration"), 100 * self._read(name), color=color, ls=line, label=label, **style)
        last.set_title("Training error (%)", fontsize=LABEL_SIZE + 1, pad=_TITLE_PAD)
        last.legend(fontsize=TICK_SIZE)
        last.set_ylim(bottom=0)
        for panel in self.axes_.flat:
            panel.xaxis.set_major_locator(MaxNLocator(5, integer=True, min_n_ticks=1))
            panel.yaxis.set_major_locator(MaxNLocator(5))
            panel.tick_params(labelsize=TICK_SIZE)
            panel.yaxis.get_offset_text().set_fontsize(TICK_SIZE)
            panel.grid(alpha=0.3)
        for panel in self.axes_[-1]:
            panel.set_xlabel("Iteration", fontsize=LABEL_SIZE)

    def _read(self, name: str) -> Any:
        return np.array([getattr(record, name) for record in self.history], dtype=np.float64)


def _open_panels(ax: Axes | None) -> NDArray[Any]:
    """Return six axes that replace the given ones, or those of a new figure."""
    if ax is None:
        return import_pyplot().subplots(2, 3, figsize=(12, 6.4), layout="constrained")[1]
    place = ax.get_subplotspec()
    if place is None:
        raise ValueError("ax is not part of a grid and cannot be divided: pass axes created by plt.subplots.")
    ax.set_axis_off()
    return np.asarray(place.subgridspec(2, 3, hspace=0.5, wspace=0.4).subplots())
