"""Text, colors, and pictures of single samples and atoms, as all displays draw them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
else:  # matplotlib is optional, and imported only to draw
    Axes = Any

Floats = NDArray[np.floating]
ImageShape = tuple[int, ...]

# Font sizes in points; the smallest is still legible on a screen at half size.
TITLE_SIZE, LABEL_SIZE, TICK_SIZE, SMALL_SIZE = 14, 12, 11, 9
# Okabe and Ito's palette, safe for color-blind readers, for everything that is not a class.
BLACK, ORANGE, GREEN = "#000000", "#E69F00", "#009E73"
BLUE, RED, PURPLE, GREY = "#0072B2", "#D55E00", "#CC79A7", "#888888"
_LUMINANCE = np.array([0.2126, 0.7152, 0.0722])  # of red, green and blue
_DARK = 0.5  # luminance below which text is white
_LONGEST_NAME = 24  # characters of a class name that are shown
_CURVE_RATIO = 0.6  # height over width of a curve
_INSET = 0.05  # margin between a curve and its frame, as a fraction of the box


def measure_axes(ax: Axes) -> tuple[float, float]:
    """Return the width and height of axes in inches."""
    extent = ax.get_window_extent()
    dpi = ax.get_figure(root=True).dpi  # type: ignore[union-attr]
    return extent.width / dpi, extent.height / dpi


def to_label(name: Any) -> str:
    """Return a class name that matplotlib draws literally: shortened, and without formulas between dollar signs."""
    text = " ".join(str(name).split())
    if len(text) > _LONGEST_NAME:
        text = text[: _LONGEST_NAME - 1] + "…"
    return text.replace("$", r"\$")


def measure_text(text: str, size: float) -> float:
    """Return the approximate width of a text in inches."""
    return 0.62 * size / 72 * len(text)


def choose_ink(rgba: Any) -> Any:
    """Return the text color on cells of these colors: white on dark, black on light."""
    return np.where(np.asarray(rgba)[..., :3] @ _LUMINANCE < _DARK, "white", "black")


def height_ratio(image_shape: ImageShape | None) -> float:
    """Return height over width of a picture."""
    return _CURVE_RATIO if image_shape is None else image_shape[0] / image_shape[1]


class Scale(NamedTuple):
    """The values drawn as black and white, or as the bottom and top of a curve."""

    low: float
    high: float

    @classmethod
    def around_zero(cls, values: Floats, quantile: float = 0.995) -> Scale:
        """Return a scale centered on zero that covers this quantile of the absolute values."""
        limit = float(np.nanquantile(np.abs(values), quantile)) or 1.0
        return cls(-limit, limit)

    @classmethod
    def across(cls, *arrays: Floats) -> Scale:
        """Return a scale from the smallest to the largest value."""
        values = np.concatenate([array.ravel() for array in arrays])
        low, high = float(np.nanmin(values)), float(np.nanmax(values))
        return cls(low, high) if high > low else cls(low - 0.5, low + 0.5)

    def normalize(self, values: Floats) -> Floats:
        """Map values to [0, 1]."""
        return np.clip((values - self.low) / (self.high - self.low), 0, 1)


class Box(NamedTuple):
    """A rectangle of the axes, whose y points down."""

    left: float
    top: float
    width: float
    height: float

    def fit(self, image_shape: ImageShape | None) -> Box:
        """Return the largest centered box of a picture's proportions."""
        ratio = height_ratio(image_shape)
        width = min(self.width, self.height / ratio)
        height = width * ratio
        return Box(self.left + (self.width - width) / 2, self.top + (self.height - height) / 2, width, height)

    def outline(self, ax: Axes, color: str, line_width: float) -> None:
        """Draw the frame of the box."""
        right, bottom = self.left + self.width, self.top + self.height
        corners = ([self.left, right, right, self.left, self.left], [self.top, self.top, bottom, bottom, self.top])
        ax.plot(*corners, color=color, lw=line_width, solid_joinstyle="miter")

    def draw(self, ax: Axes, values: Floats, image_shape: ImageShape | None, scale: Scale) -> None:
        """Draw a sample or atom in the box, as an image or, without an image shape, as a curve."""
        levels = scale.normalize(np.asarray(values, dtype=np.float64))
        right, bottom = self.left + self.width, self.top + self.height
        if image_shape is not None:
            if len(image_shape) == 3:
                levels = np.nan_to_num(levels, nan=1.0)  # imshow leaves missing pixels blank in gray images only
            style: Any = {"cmap": "gray", "vmin": 0, "vmax": 1, "aspect": "auto", "interpolation": "nearest"}
            ax.imshow(levels.reshape(image_shape), extent=(self.left, right, bottom, self.top), **style)
            return
        x = self.left + self.width * np.linspace(_INSET, 1 - _INSET, len(levels))
        for heights, color, width in ((scale.normalize(np.zeros_like(levels)), GREY, 0.6), (levels, BLUE, 1.2)):
            ax.plot(x, bottom - self.height * (_INSET + (1 - 2 * _INSET) * heights), color=color, lw=width)
        self.outline(ax, "#CCCCCC", 0.6)
