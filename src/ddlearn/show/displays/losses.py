"""Classification losses over the margin, as in Figure 1 of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle

import numpy as np

from ...model.losses import LOSSES, Loss, resolve_loss
from .base import Axes, Display
from .drawing import BLACK, BLUE, GREEN, ORANGE, PURPLE, RED, SKY, TICK_SIZE, to_label

_STYLES = ((BLUE, "-"), (RED, "--"), (GREEN, "-."), (ORANGE, "-"), (PURPLE, (0, (3, 2))), (SKY, "-"))
_HIGHEST = 5.0  # upper end of the axis; losses grow without bound


class LossDisplay(Display):
    r"""Curves of classification losses :math:`\Omega(z)` for margins from -2 to 3, with the 0-1 loss.

    Parameters
    ----------
    losses : str, Loss, sequence of them, or None, default=None
        Registered names or objects, each at most once; by default all of ``LOSSES``.

    Attributes
    ----------
    margins : ndarray of shape (n_margins,)
        Margins z.
    values : dict of str to ndarray of shape (n_margins,)
        The loss at each margin, by the name of the loss.
    ax_, figure_ : matplotlib Axes and Figure
        Where the display was drawn.

    Examples
    --------
    >>> from ddlearn import LossDisplay, SmoothHinge
    >>> display = LossDisplay(["square", SmoothHinge(sharpness=8.0)]).plot()
    >>> sorted(display.values)
    ['SmoothHinge(sharpness=8.0)', 'square']
    """

    def __init__(self, losses: str | Loss | Sequence[str | Loss] | None = None):
        losses = list(LOSSES) if losses is None else [losses] if isinstance(losses, str | Loss) else losses
        self.margins = np.linspace(-2, 3, 501)
        self.values: dict[str, np.ndarray] = {}
        for loss in losses:
            name = loss.replace("_", " ") if isinstance(loss, str) else str(loss)
            if name in self.values:
                raise ValueError(f"losses contains {name!r} more than once: pass each loss once.")
            self.values[name] = resolve_loss(loss).value(self.margins)

    def _draw(self, ax: Axes | None) -> None:
        ax = self._open_axes(ax, 7, 4.8)
        for (name, values), (color, line) in zip(self.values.items(), cycle(_STYLES), strict=False):
            ax.plot(self.margins, values, color=color, ls=line, lw=2.5, label=to_label(name))
        mistakes = (self.margins < 0).astype(float)
        ax.plot(self.margins, mistakes, color=BLACK, ls="--", lw=1.5, label="0-1 loss", drawstyle="steps-post")
        ax.set(xlim=(self.margins[0], self.margins[-1]), ylim=(-0.08, _HIGHEST))
        self._label_axes("Classification losses", "Margin $z$", r"Loss $\Omega(z)$")
        ax.grid(alpha=0.3)
        ax.legend(fontsize=TICK_SIZE)
