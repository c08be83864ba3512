"""Figure 1 of the paper: the four classification costs, and what they make of a classifier's weight."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from ddlearn import Loss
from ddlearn.model.losses import LOSSES as REGISTERED

from .cells import (
    Cell,
    Record,
    Runner,
    slug,
)
from .tables import (
    BLACK,
    format_table,
    make_figure,
    save_figure,
    write_tables,
)
from .trials import LOSS_COLOURS, LOSS_TITLES, LOSSES

MARGINS = (-2.0, 0.0, 1.0, 2.0)  # where the table looks
PAPER_STATEMENTS = {
    "square": "independent of the cost",
    "exponential": "linear in the cost",
    "logistic": "rises with moderate costs, falls with high ones",
    "smooth_hinge": "independent of the cost",
}
_LINES = dict(zip(LOSSES, ("-", "--", "-.", "-"), strict=True))
_EXACT = 1e-9  # numbers that differ by less are equal


def run_losses(runner: Runner) -> list[Record]:
    """Draw the costs and their curvatures, and check what the paper says of them."""
    cells = [
        Cell(slug(f"losses {loss}"), {"loss": loss, "margins": list(MARGINS)}, partial(measure_loss, loss))
        for loss in LOSSES
    ]
    records = runner.run(cells)
    write_tables(runner.output, "losses", _format(records), records)
    _draw(runner.output)
    return records


def measure_loss(name: str) -> dict[str, Any]:
    """Return a loss and its derivatives at some margins, and how its curvature depends on its value."""
    loss = REGISTERED.resolve(name)
    margins = np.array(MARGINS)
    methods = {"value": loss.value, "slope": loss.gradient, "curvature": loss.curvature}
    points = {
        title: {f"{margin:g}": float(number) + 0.0 for margin, number in zip(MARGINS, method(margins), strict=True)}
        for title, method in methods.items()
    }
    return points | {"relation": relate_curvature(loss)}


def relate_curvature(loss: Loss) -> dict[str, Any]:
    """Return how the curvature of a loss depends on its value, found by looking at many margins.

    The kind is "constant", "proportional" to the value, a "band" of margins with curvature, or a "peak" from which the
    curvature falls to both sides.  Beside it are the numbers that describe it, and the curvature that coding works with
    if that one is constant, else None.
    """
    margins = np.linspace(-8, 8, 16001)
    value, curvature, surrogate = loss.value(margins), loss.curvature(margins), loss.surrogate_curvature(margins)
    relation: dict[str, Any] = {"coding_curvature": float(surrogate[0]) if np.ptp(surrogate) < _EXACT else None}
    if np.ptp(curvature) < _EXACT:
        return relation | {"kind": "constant", "curvature": float(curvature[0])}
    factor = curvature[0] / value[0]
    if np.all(np.abs(curvature - factor * value) <= _EXACT * value):
        return relation | {"kind": "proportional", "factor": float(factor)}
    inside = curvature > 0
    if not inside.all():
        return relation | {
            "kind": "band",
            "curvature": float(curvature.max()),
            "margins": [float(margins[inside].min()), float(margins[inside].max())],
            "costs": [float(value[inside].min()), float(value[inside].max())],
        }
    peak = minimize_scalar(lambda margin: -float(loss.curvature(np.array(margin))), bounds=(-8, 7)).x
    rises_before = np.all(np.diff(curvature[margins <= peak]) > 0)
    falls_after = np.all(np.diff(curvature[margins > peak]) < 0)
    return relation | {
        "kind": "peak" if rises_before and falls_after else "none",
        "margin": float(peak),
        "cost": float(loss.value(np.array(peak))),
        "curvature": float(loss.curvature(np.array(peak))),
    }


def _describe(relation: dict[str, Any]) -> str:
    """Say how curvature depends on the value."""
    kind = relation["kind"]
    if kind == "constant":
        return f"independent: the curvature is {relation['curvature']:g} at every cost"
    if kind == "proportional":
        return f"linear: the curvature is {relation['factor']:.3f} times the cost"
    if kind == "band":
        (left, right), (least, most) = relation["margins"], relation["costs"]
        text = (
            f"not independent: the curvature is {relation['curvature']:g} for margins between {left:.2f} and "
            f"{right:.2f}, where the cost is between {least:.2f} and {most:.2f}, and 0 elsewhere"
        )
        if relation["coding_curvature"] is not None:
            text += (
                f"; coding works with the bound {relation['coding_curvature']:g} at every cost, which is independent"
            )
        return text
    if kind == "peak":
        return (
            f"rises up to a cost of {relation['cost']:.4f} (ln 2 = {np.log(2):.4f}), where the curvature is "
            f"{relation['curvature']:.3f}, and falls beyond"
        )
    return "none of the forms that the paper speaks of"


def _format(records: Sequence[Record]) -> str:
    """Return the losses at some margins, and the statements of the paper, as Markdown."""
    points = [
        [LOSS_TITLES[record["parameters"]["loss"]], title, *(f"{number:.4g}" for number in result[title].values())]
        for record in records
        for result in [record["result"]]
        for title in ("value", "slope", "curvature")
    ]
    statements = [
        [LOSS_TITLES[loss], PAPER_STATEMENTS[loss], _describe(record["result"]["relation"])]
        for record in records
        for loss in [record["parameters"]["loss"]]
    ]
    return "\n".join(
        [
            "# The four classification costs (Fig. 1)\n\nThe cost of a margin z, its slope and its curvature, which is "
            "the weight of a classifier in discriminative coding. HINGE is the smooth hinge.\n",
            format_table(["loss", "", *(f"z = {margin:g}" for margin in MARGINS)], points),
            "## How curvature depends on the cost\n",
            format_table(["loss", "the paper says", "what is true"], statements),
        ]
    )


def _draw(output: Path) -> None:
    """Draw the costs over the margin, and their curvatures over the cost."""
    figure = make_figure(11, 4.8)
    left, right = figure.subplots(1, 2)
    shown, wide = np.linspace(-2, 3, 1001), np.linspace(-6, 12, 18001)
    for name in LOSSES:
        loss = REGISTERED.resolve(name)
        style = {"color": LOSS_COLOURS[name], "ls": _LINES[name], "lw": 2.5}
        left.plot(shown, loss.value(shown), **style, label=LOSS_TITLES[name])
        right.plot(loss.value(wide), loss.curvature(wide), **style)
    left.plot(shown, np.maximum(1 - shown, 0), color=BLACK, ls=":", lw=1.5, label="hinge itself")
    hinge = REGISTERED.resolve("smooth_hinge")
    label = "HINGE in coding (bound)"
    right.plot(
        hinge.value(wide),
        hinge.surrogate_curvature(wide),
        color=LOSS_COLOURS["smooth_hinge"],
        ls=":",
        lw=2,
        label=label,
    )
    left.set(xlim=(-2, 3), ylim=(-0.06, 5))
    left.set_xlabel("Margin z", fontsize=14)
    left.set_ylabel("Cost Ω(z)", fontsize=14)
    left.set_title("Classification costs", fontsize=15)
    right.set(xlim=(-0.04, 3), ylim=(-0.04, 3))
    right.set_xlabel("Cost Ω(z)", fontsize=14)
    right.set_ylabel("Curvature Ω₂(z)", fontsize=14)
    right.set_title("Classifier weights", fontsize=15)
    for axes in (left, right):
        axes.tick_params(labelsize=12)
        axes.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=6, fontsize=12)
    save_figure(figure, output, "losses")
