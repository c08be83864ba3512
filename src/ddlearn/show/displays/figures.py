"""What all figures share: axes, sizes of letters, colours, and names as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# In points. Half of the smallest can still be read on a screen.
TITLE_SIZE, LABEL_SIZE, TICK_SIZE, SMALL_SIZE = 14, 12, 11, 9
# Okabe and Ito's colours, which the colour-blind can tell apart, for all that is not a class.
BLACK, ORANGE, SKY, GREEN, BLUE, RED, PURPLE = (
    "#000000",
    "#E69F00",
    "#56B4E9",
    "#009E73",
    "#0072B2",
    "#D55E00",
    "#CC79A7",
)
GREY = "#888888"
_LUMINANCE = np.array([0.2126, 0.7152, 0.0722])  # what red, green and blue add to brightness
_DARK = 0.5  # brightness below which letters are white
_LONGEST_NAME = 24  # letters of a name that are shown


def import_pyplot() -> Any:
    """Return matplotlib.pyplot, or say where to get it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError('Figures need matplotlib: pip install "ddlearn[plot]".') from error
    return plt


def open_axes(ax: Axes | None, width: float, height: float) -> Axes:
    """Return the axes that were given, or those of a new figure of that size in inches."""
    if ax is not None:
        return ax
    return import_pyplot().subplots(figsize=(width, height), layout="constrained")[1]


def measure_axes(ax: Axes) -> tuple[float, float]:
    """Return the width and height of axes in inches."""
    extent = ax.get_window_extent()
    dpi = ax.get_figure(root=True).dpi  # type: ignore[union-attr]
    return extent.width / dpi, extent.height / dpi


def find_shrinkage(ax: Axes | None, width: float, height: float) -> float:
    """Return what letters are multiplied by, so that they fit where a drawing of that size is given less room."""
    if ax is None:
        return 1.0
    own_width, own_height = measure_axes(ax)
    return min(1.0, own_width / width, own_height / height)


def divide_axes(ax: Axes | None, n_rows: int, n_columns: int, width: float, height: float) -> NDArray[Any]:
    """Return a grid of axes in the place of the one that was given, or in a new figure."""
    if ax is None:
        return import_pyplot().subplots(n_rows, n_columns, figsize=(width, height), layout="constrained")[1]
    place = ax.get_subplotspec()
    if place is None:
        raise ValueError("ax has no place in a grid that could be divided: pass axes that plt.subplots made.")
    ax.set_axis_off()
    return np.asarray(place.subgridspec(n_rows, n_columns, hspace=0.5, wspace=0.4).subplots())


def to_label(name: Any) -> str:
    """Return the name of a class as matplotlib shows it letter by letter: a dollar sign begins no formula."""
    text = " ".join(str(name).split())
    if len(text) > _LONGEST_NAME:
        text = text[: _LONGEST_NAME - 1] + "…"
    return text.replace("$", r"\$")


def format_number(value: float, largest: float) -> str:
    """Return a number with its sign, as exact as the largest beside it deserves."""
    styles = {10: "+.2f", 100: "+.1f", 1_000_000: "+,.0f"}
    style = next((style for limit, style in styles.items() if largest < limit), "+.1e")
    return format(value, style).replace("-", "\N{MINUS SIGN}")


def choose_ink(rgba: Any) -> Any:
    """Return the colour of letters on cells of these colours: white on dark, black on light."""
    return np.where(np.asarray(rgba)[..., :3] @ _LUMINANCE < _DARK, "white", "black")


def measure_text(text: str, size: float) -> float:
    """Return about how wide a text is, in inches."""
    return 0.62 * size / 72 * len(text)
