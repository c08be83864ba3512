"""The colour of each class, the same in every figure and on every page."""

from __future__ import annotations

# Paul Tol's muted scheme, which people with any kind of colour blindness can tell apart; the last is darker than his,
# to be seen on white.
CLASS_COLORS = (
    "#CC6677",
    "#332288",
    "#DDCC77",
    "#117733",
    "#88CCEE",
    "#882255",
    "#44AA99",
    "#999933",
    "#AA4499",
    "#BBBBBB",
)


def get_class_color(position: int) -> str:
    """Return the colour of the class at a position of ``classes_``; from the eleventh class on they repeat."""
    return CLASS_COLORS[position % len(CLASS_COLORS)]
