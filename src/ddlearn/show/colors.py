"""The color of each class, the same in every figure and report."""

from __future__ import annotations

from colorsys import hls_to_rgb

# Paul Tol's muted scheme, safe for color-blind readers; the last color is darker than his, to be visible on white.
CLASS_COLORS = (
    *("#CC6677", "#332288", "#DDCC77", "#117733", "#88CCEE"),
    *("#882255", "#44AA99", "#999933", "#AA4499", "#BBBBBB"),
)
_GOLDEN_SHARE = 0.618034  # of the circle: hues in these steps never meet, and neighbours are far apart
_LIGHTNESSES = (0.38, 0.66, 0.52)
_SATURATIONS = (0.75, 0.5)


def get_class_color(position: int) -> str:
    """Return the color of the class at a position of ``classes_``.

    No two of a few hundred classes have the same, but beyond the tenth only names tell them apart for sure.
    """
    if position < len(CLASS_COLORS):
        return CLASS_COLORS[position]
    lightness, saturation = _LIGHTNESSES[position % 3], _SATURATIONS[position % 2]
    red, green, blue = hls_to_rgb(position * _GOLDEN_SHARE % 1, lightness, saturation)
    return f"#{round(255 * red):02X}{round(255 * green):02X}{round(255 * blue):02X}"
