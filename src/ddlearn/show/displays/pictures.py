"""Single atoms and samples, drawn as an image or a curve into a box of axes whose y runs downwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .figures import BLUE, GREY
from .models import ImageShape

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.floating]
_CURVE_RATIO = 0.6  # height over width of a curve's box
_INSET = 0.05  # share of a box that a curve keeps from its frame


class Box(NamedTuple):
    """A rectangle of the axes."""

    left: float
    top: float
    width: float
    height: float

    def fit(self, ratio: float) -> Box:
        """Return the largest box in the middle of this one with that height over width."""
        width = min(self.width, self.height / ratio)
        height = width * ratio
        return Box(self.left + (self.width - width) / 2, self.top + (self.height - height) / 2, width, height)


class Scale(NamedTuple):
    """The values that are black and white, or the bottom and top of a curve."""

    low: float
    high: float

    @classmethod
    def around_zero(cls, values: Floats, quantile: float = 0.995) -> Scale:
        """Return a scale with zero in the middle, which all but the most extreme values fit into."""
        limit = float(np.nanquantile(np.abs(values), quantile)) or 1.0
        return cls(-limit, limit)

    @classmethod
    def across(cls, *arrays: Floats) -> Scale:
        """Return a scale from the smallest to the largest value."""
        values = np.concatenate([array.ravel() for array in arrays])
        low, high = float(np.nanmin(values)), float(np.nanmax(values))
        return cls(low, high) if high > low else cls(low - 0.5, low + 0.5)

    @property
    def span(self) -> float:
        """How far the ends are apart."""
        return self.high - self.low

    def to_share(self, values: Floats) -> Floats:
        """Return where values lie between the ends, from 0 to 1."""
        return np.clip((values - self.low) / self.span, 0, 1)


def height_ratio(image_shape: ImageShape | None) -> float:
    """Return the height over the width of a picture."""
    return _CURVE_RATIO if image_shape is None else image_shape[0] / image_shape[1]


def draw_picture(ax: Axes, values: Floats, image_shape: ImageShape | None, box: Box, scale: Scale) -> None:
    """Draw one sample or atom into a box."""
    shares = scale.to_share(np.asarray(values, dtype=np.float64))
    right, bottom = box.left + box.width, box.top + box.height
    if image_shape is not None:
        if len(image_shape) == 3:
            shares = np.nan_to_num(shares, nan=1.0)  # what is missing is blank, which grey images are by themselves
        ax.imshow(
            shares.reshape(image_shape),
            extent=(box.left, right, bottom, box.top),
            cmap="gray",
            vmin=0,
            vmax=1,
            aspect="auto",
            interpolation="nearest",
        )
        return
    x = box.left + box.width * np.linspace(_INSET, 1 - _INSET, len(shares))
    for share, color, width in ((scale.to_share(np.zeros_like(shares)), GREY, 0.6), (shares, BLUE, 1.2)):
        ax.plot(x, bottom - box.height * (_INSET + (1 - 2 * _INSET) * share), color=color, lw=width)
    outline(ax, box, "#CCCCCC", 0.6)


def outline(ax: Axes, box: Box, color: str, width: float) -> None:
    """Draw a frame around a box."""
    right, bottom = box.left + box.width, box.top + box.height
    corners = ([box.left, right, right, box.left, box.left], [box.top, box.top, bottom, bottom, box.top])
    ax.plot(*corners, color=color, lw=width, solid_joinstyle="miter")


def frame_canvas(ax: Axes, width: float, height: float) -> None:
    """Make the axes a sheet of that size without ticks, y downwards."""
    ax.set(xlim=(0, width), ylim=(height, 0), aspect="equal")
    ax.set_axis_off()
