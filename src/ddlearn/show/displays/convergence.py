"""How a fit went: the objective, its four terms, and the errors, iteration by iteration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...fitting.loop import IterationRecord
from .figures import (
    BLACK,
    BLUE,
    GREEN,
    LABEL_SIZE,
    ORANGE,
    PURPLE,
    RED,
    TICK_SIZE,
    divide_axes,
)
from .models import unwrap

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The panels of the terms: names as in the record, what they are, and a colour.
_TERMS = {
    "objective": ("Objective", BLACK),
    "representation": ("Representation", BLUE),
    "noise": (r"Noise ($\ln\,\sigma^2$)", ORANGE),
    "classification": ("Classification", GREEN),
    "cost": (r"Cost ($\ln\,\gamma$)", PURPLE),
}
_ERRORS = {"training_error": ("with labels", BLUE, "-"), "label_free_error": ("label-free", RED, "--")}
_ABOVE = 18  # points between a panel and its title, where the power of ten stands
_MANY_ITERATIONS = 40  # from here on points are not marked


class ConvergenceDisplay:
    """The objective, its four terms and the training error over the iterations of a fit.

    The terms differ in size and sign, so each has a panel and a scale of its own: representation (residuals over
    variances), noise (logarithms of the variances), classification (costs over class costs) and cost (logarithms of the
    class costs).  The objective is their sum.  The last panel has the error of the
    codes that saw the labels, and of codes made as those of new samples are.

    Parameters
    ----------
    history : sequence of IterationRecord
        What each iteration did: ``history_`` of a model.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes of shape (2, 3)
        The panels: objective, representation, noise, classification, cost, errors.
    figure_ : matplotlib Figure
        Their figure.

    See Also
    --------
    IterationRecord : The numbers that are drawn, and more.

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
        """Draw the history of a fitted model.

        Parameters
        ----------
        estimator : DDLClassifier or Pipeline
            The model, or a pipeline that ends with it.
        ax : matplotlib Axes or None, default=None
            Its place is divided into the panels; by default they make a new figure.

        Returns
        -------
        ConvergenceDisplay
            The display.
        """
        return cls(unwrap(estimator).history_).plot(ax=ax)

    def plot(self, ax: Axes | None = None) -> ConvergenceDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Its place is divided into the panels; by default they make a new figure.

        Returns
        -------
        ConvergenceDisplay
            The display itself.
        """
        self.axes_ = divide_axes(ax, 2, 3, 12, 6.4)
        *panels, last = self.axes_.flat
        marker = "o" if len(self.history) <= _MANY_ITERATIONS else ""
        for panel, (name, (title, color)) in zip(panels, _TERMS.items(), strict=True):
            panel.plot(self._read("iteration"), self._read(name), color=color, marker=marker, ms=4, lw=2.2)
            panel.ticklabel_format(axis="y", style="sci", scilimits=(-3, 4), useOffset=False, useMathText=True)
            panel.set_title(title, fontsize=LABEL_SIZE + 1, pad=_ABOVE)
        for name, (label, color, line) in _ERRORS.items():
            errors = 100 * self._read(name)
            last.plot(self._read("iteration"), errors, color=color, ls=line, marker=marker, ms=4, lw=2.2, label=label)
        last.set_title("Training error (%)", fontsize=LABEL_SIZE + 1, pad=_ABOVE)
        last.legend(fontsize=TICK_SIZE)
        last.set_ylim(bottom=0)
        self._finish_panels()
        self.figure_ = last.figure
        return self

    def _read(self, name: str) -> Any:
        return np.array([getattr(record, name) for record in self.history], dtype=np.float64)

    def _finish_panels(self) -> None:
        from matplotlib.ticker import MaxNLocator

        for panel in self.axes_.flat:
            panel.xaxis.set_major_locator(MaxNLocator(5, integer=True, min_n_ticks=1))
            panel.yaxis.set_major_locator(MaxNLocator(5))
            panel.tick_params(labelsize=TICK_SIZE)
            panel.yaxis.get_offset_text().set_fontsize(TICK_SIZE)
            panel.grid(alpha=0.3)
        for panel in self.axes_[-1]:
            panel.set_xlabel("Iteration", fontsize=LABEL_SIZE)
