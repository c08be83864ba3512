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
            help="A file (.csv, .parquet, .npz, .npy, .svm), a folder of images, one sub-folder per class, "
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
        """Return the files that will be read, and the folders: nothing may be written to or into them."""
        from .reading.parts import find_files

        files = [file for one in (self.data, self.labels) if one is not None for file in find_files(one)]
        return [*files, *(one for file in files if file.is_dir() for one in file.iterdir() if one.is_dir())]


SOURCE_OPTIONS = {
    name: option.replace(kind=inspect.Parameter.KEYWORD_ONLY)
    for name, option in inspect.signature(Source, eval_str=True).parameters.items()
}


def read_source(terminal: Terminal, source: Source, **of_model: Any) -> Samples:
    """Read data, and print what was skipped."""
    from .reading import read_data

    with terminal.progress() as bar:
        bar.add_task(f"reading {escape(source.data)}", total=None)
        options = asdict(source) | {"ignore": source.ignore or ()}
        samples = read_data(options.pop("data"), **options, **of_model)
    for note in samples.notes:
        terminal.note(note)
    if samples.broken:
        terminal.note(f"Skipped {len(samples.broken)} broken image(s):")
        for name, reason in samples.broken:
            terminal.note(f"  {name} ({reason})")
    return samples
