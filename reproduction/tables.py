"""Tables and figures, written for people and for machines."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from .cells import Record

# Okabe and Ito's colours, which the colour-blind can tell apart.
BLACK, ORANGE, SKY, GREEN, BLUE, RED, PURPLE = (
    "#000000",
    "#E69F00",
    "#56B4E9",
    "#009E73",
    "#0072B2",
    "#D55E00",
    "#CC79A7",
)


def format_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _flatten(value: Any, name: str) -> dict[str, Any]:
    """Return a nested result as one row of a CSV file, the names joined by dots; lists are kept in the JSON file."""
    if isinstance(value, dict):
        parts = (_flatten(item, f"{name}.{key}" if name else str(key)) for key, item in value.items())
        return {key: item for part in parts for key, item in part.items()}
    if name.endswith("interval"):
        return dict(zip((f"{name}.low", f"{name}.high"), value, strict=True))
    return {} if isinstance(value, list) else {name: value}


def write_tables(output: Path, name: str, markdown: str, records: Sequence[Record]) -> None:
    """Write a table to read (.md), the numbers behind it (.csv), and all that is known of them (.json)."""
    (output / f"{name}.md").write_text(markdown)
    lines = ",\n".join(json.dumps(record) for record in records)
    (output / f"{name}.json").write_text(f"[\n{lines}\n]\n")  # a record a line: short, and a change shows where it is
    rows = [
        {"name": record["name"]}
        | _flatten(record["parameters"], "")
        | _flatten(record["result"], "")
        | {"seconds": record["seconds"], "measured": record["measured"]}
        for record in records
    ]
    columns = list(dict.fromkeys(column for row in rows for column in row))
    with (output / f"{name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)


def make_figure(width: float, height: float) -> Any:
    """Return an empty figure of that size in inches."""
    from matplotlib.figure import Figure  # late: only figures need matplotlib

    return Figure((width, height), layout="constrained")


def save_figure(figure: Any, output: Path, name: str) -> None:
    """Write a figure as SVG and PNG."""
    from matplotlib import rc_context

    output.mkdir(parents=True, exist_ok=True)
    with rc_context({"svg.hashsalt": name}):  # the same figure gives the same file
        figure.savefig(output / f"{name}.svg", metadata={"Date": None})
    figure.savefig(output / f"{name}.png", dpi=150)
