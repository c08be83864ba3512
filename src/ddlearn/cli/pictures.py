"""Pictures of models: a sample and its atoms in block characters, and the page for a browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.markup import escape

from .terminal import Terminal

if TYPE_CHECKING:
    from ..estimators.classifier import DDLClassifier
    from .reading import Samples

_PICTURE_SIDE = 16  # pixels of a picture in the terminal, at most
_LARGE_PAGE = 10e6  # bytes from which it takes long to send and to open
_BYTES_AS_TEXT = 16 / 3  # of a number in single precision, as pages hold it
_SHADES = {True: " ░▒▓█", False: " .+#@"}  # by whether the terminal knows Unicode


def draw_reasons(console: Console, model: DDLClassifier, sample: Any, facts: dict[str, Any], shape: Any) -> Any:
    """Return pictures of a sample, of its atoms together, and of each."""
    from rich.columns import Columns

    code = model.components_[facts["atoms"]].T @ facts["coefficients"]
    images = {"sample": sample, "its atoms together": code}
    images |= {
        f"{coefficient:+.2f} x atom {atom}": model.components_[atom]
        for atom, coefficient in zip(facts["atoms"], facts["coefficients"], strict=True)
    }
    return Columns(
        [Group(f"[bold]{name}[/]", _draw(image.reshape(shape), console)) for name, image in images.items()],
        padding=(0, 2),
    )


def _draw(image: Any, console: Console) -> str:
    """Return an image as lines of shades, each pixel two characters wide, since characters are tall."""
    import numpy as np

    if image.ndim == 3:
        image = image.mean(axis=2)
    step = -(-max(image.shape) // _PICTURE_SIDE)
    height, width = (side // step * step for side in image.shape)
    image = image[:height, :width].reshape(height // step, step, width // step, step).mean(axis=(1, 3))
    low, high = np.nanmin(image), np.nanmax(image)
    shades = _SHADES[console.encoding.startswith("utf")]
    levels = np.nan_to_num((image - low) / max(high - low, 1e-12)) * (len(shades) - 1)
    return "\n".join("".join(2 * shades[round(level)] for level in line) for line in levels.tolist())


def write_page(
    terminal: Terminal, model: DDLClassifier, samples: Samples | None, output: Path, title: str, name: str
) -> dict[str, Any]:
    """Write the report, and tell where it is."""
    from ..show.report import write_report

    shown: dict[str, Any] = {}
    if samples is not None:
        shown = {
            "X": samples.X,
            "y": samples.labels,
            "sample_names": samples.sample_names,
            "image_shape": samples.image_shape,
        }
    with terminal.progress() as bar:
        bar.add_task(f"writing {escape(str(output))}", total=None)
        write_report(model, output, **shown, title=title, data_name=name)
    n_bytes = output.stat().st_size
    terminal.report(f"{escape(str(output))} ({n_bytes / 1e6:.1f} MB): open it in a browser.")
    if n_bytes > _LARGE_PAGE:
        n_atoms, n_features = model.components_.shape
        terminal.note(
            f"The page is large since its dictionary of {n_atoms:,} atoms x {n_features:,} features takes "
            f"{n_atoms * n_features * _BYTES_AS_TEXT / 1e6:.1f} MB: fewer atoms or smaller images make it smaller."
        )
    return {"file": output, "bytes": n_bytes}
