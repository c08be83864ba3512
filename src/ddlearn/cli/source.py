"""DATA, which most commands take, and the options for reading it."""

from __future__ import annotations

import inspect
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import FLAG, parse_size
from .terminal import Terminal, escape

if TYPE_CHECKING:
    from .reading import Samples


@dataclass(frozen=True)
class Source:
    """DATA and how to read it; its fields are the options of the commands."""

    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A file (.csv, .parquet, .npz, .npy, .svm, .zarr), a folder of images, one sub-folder per class, "
            "digits (of scikit-learn), or many files as 'parts/*.npy', in quotes.",
        ),
    ]
    labels: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A file of labels: .npy, or .csv or .txt with one per line.",
        ),
    ] = None
    label_column: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="The label column of a table: name, number or last. By default that of the model, or one named label, "
            "class, target or y, or the last.",
        ),
    ] = None
    ignore: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="A column of a table to leave out: name or number; can be repeated."),
    ] = None
    image_size: Annotated[
        Any,
        typer.Option(
            metavar="HxW",
            parser=parse_size,
            help="Size of images: by default that of the model, or of the images, or 32x32 if sizes differ.",
        ),
    ] = None
    colour: Annotated[bool, typer.Option("--colour", metavar=FLAG, help="Read images in colour.")] = False
    strict: Annotated[
        bool,
        typer.Option("--strict", metavar=FLAG, hidden=True, help="Fail if an image is broken, instead of skipping it."),
    ] = False

    def list_files(self) -> list[Path]:
        """Return the files that will be read, of which none may be written to."""
        from .reading.parts import find_parts, is_in_parts

        given = [Path(one) for one in (self.data, self.labels) if one is not None]
        return [file for one in given for file in (find_parts(one) if is_in_parts(one) else [one])]


SOURCE_OPTIONS = {
    name: option.replace(kind=inspect.Parameter.KEYWORD_ONLY)
    for name, option in inspect.signature(Source, eval_str=True).parameters.items()
}


def read_source(terminal: Terminal, source: Source, *, n_chunks: int | None = None, **of_model: Any) -> Samples:
    """Read data, as Dask arrays if a number of chunks is given, and tell what was skipped."""
    from .reading import read_data

    with terminal.progress() as bar:
        bar.add_task(f"reading {escape(source.data)}", total=None)
        options = asdict(source) | {"ignore": source.ignore or ()}
        samples = read_data(options.pop("data"), n_chunks=n_chunks, **options, **of_model)
    for note in samples.notes:
        terminal.note(note)
    if samples.broken:
        terminal.note(f"Skipped {len(samples.broken)} broken image(s):")
        for name, reason in samples.broken:
            terminal.note(f"  {name} ({reason})")
    return samples


def require_labels(samples: Samples, data: str) -> Any:
    """Return the labels, or raise an error if there are none or some are empty."""
    from .reading.parts import find_empty_labels
    from .reading.samples import DataError

    if samples.labels is None:
        raise DataError(
            f"{data} has no labels: give the column of a table by --label-column NAME, a file by --labels FILE, or "
            "images in one sub-folder per class."
        )
    n_empty, first = find_empty_labels(samples.labels)
    if n_empty:
        others = f", as in {n_empty - 1} other rows" if n_empty > 1 else ""
        raise DataError(
            f"{data}, row {first}: there is no label{others}. Write a word such as unknown there, and fit with "
            "--unlabeled unknown."
        )
    return samples.labels


def refuse_parts(source: Source, command: str) -> None:
    """Fail for data in parts if a command needs all samples in memory."""
    from .reading.parts import is_in_parts
    from .reading.samples import DataError

    if is_in_parts(source.data):
        raise DataError(
            f"{source.data}: {command} needs samples in memory: give it one file, such as one of the parts."
        )
