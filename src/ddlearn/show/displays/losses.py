"""Classification costs over the margin, as in Figure 1 of the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from ...losses import LOSSES, Loss, resolve_loss
from .figures import (
    BLACK,
    BLUE,
    GREEN,
    LABEL_SIZE,
    ORANGE,
    PURPLE,
    RED,
    SKY,
    TICK_SIZE,
    TITLE_SIZE,
    open_axes,
    to_label,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STYLES = ((BLUE, "-"), (RED, "--"), (GREEN, "-."), (ORANGE, "-"), (PURPLE, (0, (3, 2))), (SKY, "-"))
_HIGHEST = 5.0  # where the drawing ends; costs grow without bound


class LossDisplay:
    r"""Curves of classification costs :math:`\Omega(z)` over the margin, beside the 0-1 loss.

    Parameters
    ----------
    margins : array-like of shape (n_margins,)
        Margins z.
    values : mapping of str to array-like of shape (n_margins,)
        The cost at each margin, under the name of the loss.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes.
    figure_ : matplotlib Figure
        Their figure.

    Examples
    --------
    >>> from ddlearn import LossDisplay, SmoothHinge
    >>> display = LossDisplay.from_losses(["square", SmoothHinge(sharpness=8.0)])
    >>> sorted(display.values)
    ['SmoothHinge(sharpness=8.0)', 'square']
    """

    def __init__(self, margins: ArrayLike, values: Mapping[str, ArrayLike]):
        self.margins = np.asarray(margins, dtype=np.float64)
        self.values = {name: np.asarray(costs, dtype=np.float64) for name, costs in values.items()}

    @classmethod
    def from_losses(
        cls, losses: str | Loss | Sequence[str | Loss] | None = None, *, ax: Axes | None = None
    ) -> LossDisplay:
        """Draw losses for margins from -2 to 3.

        Parameters
        ----------
        losses : str, Loss, sequence of them, or None, default=None
            Registered names or objects, each once; by default all of ``LOSSES``.
        ax : matplotlib Axes or None, default=None
            Where to draw; by default in a new figure.

        Returns
        -------
        LossDisplay
            The display.
        """
        if losses is None:
            losses = list(LOSSES)
        elif isinstance(losses, str | Loss):
            losses = [losses]
        margins = np.linspace(-2, 3, 501)
        names = [loss.replace("_", " ") if isinstance(loss, str) else str(loss) for loss in losses]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"losses holds {twice!r} more than once: give each loss once.")
        costs = [resolve_loss(loss).value(margins) for loss in losses]
        return cls(margins, dict(zip(names, costs, strict=True))).plot(ax=ax)

    def plot(self, ax: Axes | None = None) -> LossDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw; by default in a new figure.

        Returns
        -------
        LossDisplay
            The display itself.
        """
        ax = open_axes(ax, 7, 4.8)
        for (name, costs), (color, line) in zip(self.values.items(), cycle(_STYLES), strict=False):
            ax.plot(self.margins, costs, color=color, ls=line, lw=2.5, label=to_label(name))
        mistakes = (self.margins < 0).astype(float)
        ax.plot(self.margins, mistakes, color=BLACK, ls="--", lw=1.5, label="0-1 loss", drawstyle="steps-post")
        ax.set(xlim=(self.margins[0], self.margins[-1]), ylim=(-0.08, _HIGHEST))
        ax.set_title("Classification costs", fontsize=TITLE_SIZE)
        ax.set_xlabel("Margin $z$", fontsize=LABEL_SIZE)
        ax.set_ylabel(r"Cost $\Omega(z)$", fontsize=LABEL_SIZE)
        ax.tick_params(labelsize=TICK_SIZE)
        ax.grid(alpha=0.3)
        ax.legend(fontsize=TICK_SIZE)
        self.ax_, self.figure_ = ax, ax.figure
        return self
