"""The color of each class, the same in every figure and report."""

from __future__ import annotations

# Paul Tol's muted scheme, safe for color-blind readers; the last color is darker than his, to be visible on white.
CLASS_COLORS = (
    *("#CC6677", "#332288", "#DDCC77", "#117733", "#88CCEE"),
    *("#882255", "#44AA99", "#999933", "#AA4499", "#BBBBBB"),
)


def get_class_color(position: int) -> str:
    """Return the color of the class at a position of ``classes_``; colors repeat from the eleventh class on."""
    return CLASS_COLORS[position % len(CLASS_COLORS)]
