"""DATA, which most commands take, and the options that say how it is read."""

from __future__ import annotations

import functools
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from .options import offer, parse_size
from .terminal import Terminal

if TYPE_CHECKING:
    from .reading import Samples


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
                    "class, a data set such as usps:train, a Zarr store, or many files as 'parts/*.npy', in quotes.",
                ),
            ],
        ),
        offer(
            "labels",
            Annotated[
                Path | None,
                typer.Option(
                    metavar="FILE",
                    help="A file of labels: .npy, or .csv or .txt with one label a line; 'parts/y-*.npy' for parts.",
                ),
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


def read_source(
    terminal: Terminal, source: Source, n_features: int | None = None, *, n_places: int | None = None
) -> Samples:
    """Read data, in chunks if there are places of a cluster that work on them, and tell which images were left out."""
    from .reading import read_data, read_in_chunks

    read = read_data if n_places is None else functools.partial(read_in_chunks, n_places=n_places)
    with terminal.progress() as bar:
        bar.add_task(f"reading {escape(source.data)}", total=None)
        options = asdict(source)
        samples = read(options.pop("data"), n_features=n_features, **options)
    if samples.broken:
        terminal.note(f"Left out {len(samples.broken)} broken image(s):")
        for name, reason in samples.broken:
            terminal.note(f"  {name} ({reason})")
    return samples


def require_labels(samples: Samples, data: str) -> Any:
    """Return the labels of all samples, or say that some are missing."""
    from .reading import DataError

    if samples.labels is None:
        raise DataError(
            f"{data} has no labels: give them by --labels FILE, or for images in one sub-folder for each class."
        )
    n_empty, first = _find_empty(samples.labels)
    if n_empty:
        raise DataError(
            f"{data}, row {first}: there is no label (nor in {n_empty - 1} other rows); write a word such as "
            "unknown there, and fit with --unlabeled unknown."
        )
    return samples.labels


def _find_empty(labels: Any) -> tuple[int, int]:
    """Return how many labels are empty texts, and the first of their rows."""
    if hasattr(labels, "dask"):
        from .reading.parts import find_empty_labels

        return find_empty_labels(labels)
    empty = [row for row, label in enumerate(labels.tolist()) if label == ""]
    return len(empty), empty[0] if empty else 0


def load_labels(samples: Samples) -> Samples:
    """Return samples whose labels, if they have some, are in memory, which those of data in parts are not."""
    import numpy as np

    from .reading.parts import iterate_blocks

    if samples.labels is None or isinstance(samples.labels, np.ndarray):
        return samples
    labels = np.concatenate(list(iterate_blocks(samples.labels)))
    return samples._replace(labels=labels.astype(str) if labels.dtype.kind == "O" else labels)


def refuse_parts(source: Source, command: str) -> None:
    """Fail for data in parts, where a command needs all samples in memory."""
    from .reading import DataError
    from .reading.parts import is_in_parts

    if is_in_parts(source.data):
        raise DataError(
            f"{source.data}: {command} needs samples in memory: give it one file, such as one of the parts."
        )
