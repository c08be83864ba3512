"""DATA, which most commands take, and the options that say how it is read."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from .options import offer, parse_size
from .terminal import Terminal

if TYPE_CHECKING:
    from ..reading import Samples


@dataclass(frozen=True)
class Source:
    """DATA, and how it shall be read."""

    data: str
    labels: Path | None
    label_column: str | None
    image_size: tuple[int, int] | None
    colour: bool
    strict: bool


SOURCE_OPTIONS = {
    option.name: option
    for option in (
        offer(
            "data",
            Annotated[
                str,
                typer.Argument(
                    metavar="DATA",
                    help="A file (.npz, .npy, .csv, .parquet, .svm), a folder of images with a sub-folder for each "
                    "class, or a data set such as usps:train.",
                ),
            ],
        ),
        offer(
            "labels",
            Annotated[
                Path | None,
                typer.Option(metavar="FILE", help="A file of labels: .npy, or .csv or .txt with one label a line."),
            ],
            None,
        ),
        offer(
            "label_column",
            Annotated[
                str | None,
                typer.Option(
                    metavar="COLUMN",
                    help="The column of a table with the labels: its name, its number from 0, or last. By default the "
                    "one named label, class, target or y, or else the last.",
                ),
            ],
            None,
        ),
        offer(
            "image_size",
            Annotated[
                Any,
                typer.Option(
                    metavar="HxW",
                    parser=parse_size,
                    help="Scale and crop images to this height and width. By default the size that all images have, "
                    "or 32x32 if they differ; for a model, the size it was fitted to.",
                ),
            ],
            None,
        ),
        offer("colour", Annotated[bool, typer.Option("--colour", help="Read images in colour, not in grey.")], False),
        offer(
            "strict",
            Annotated[bool, typer.Option("--strict", help="Fail if an image is broken, instead of leaving it out.")],
            False,
        ),
    )
}


def read_source(terminal: Terminal, source: Source, n_features: int | None = None) -> Samples:
    """Read data, and tell which images were left out."""
    from ..reading import read_data

    with terminal.progress() as bar:
        bar.add_task(f"reading {escape(source.data)}", total=None)
        options = asdict(source)
        samples = read_data(options.pop("data"), n_features=n_features, **options)
    if samples.broken:
        terminal.note(f"Left out {len(samples.broken)} broken image(s):")
        for name, reason in samples.broken:
            terminal.note(f"  {name} ({reason})")
    return samples


def require_labels(samples: Samples, data: str) -> Any:
    """Return the labels of all samples, or say that some are missing."""
    from ..reading import DataError

    if samples.labels is None:
        raise DataError(
            f"{data} has no labels: give them by --labels FILE, or for images in one sub-folder for each class."
        )
    empty = [row for row, label in enumerate(samples.labels.tolist()) if label == ""]
    if empty:
        raise DataError(
            f"{data}, row {empty[0]}: there is no label (nor in {len(empty) - 1} other rows); write a word such as "
            "unknown there, and fit with --unlabeled unknown."
        )
    return samples.labels
