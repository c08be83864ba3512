"""Draw ``docs/images/cli_fit.svg`` and ``cli_evaluate.svg``: what two commands show in a terminal.

Run ``DDLEARN_DATA=folder PYTHONPATH=. python docs/make_screenshots.py`` with ``ddlearn[cli]``; the commands
are really run.
"""

from __future__ import annotations

import io
import re
import shlex
import tempfile
from contextlib import chdir
from pathlib import Path

import numpy as np
from benchsets import load_usps
from rich.console import Console

from ddlearn.cli import app, running, terminal

IMAGES = Path(__file__).parent.resolve() / "images"
COMMANDS = {
    "cli_fit.svg": "ddlearn fit usps.npz",
    "cli_evaluate.svg": "ddlearn evaluate usps.safetensors usps_test.npz",
}


class Recorder(terminal.Terminal):
    """A terminal without progress bars, which move."""

    def __init__(self, **options: bool):
        super().__init__(**options)
        self.has_progress = False


def draw(command: str, path: Path) -> None:
    """Run a command and write what it shows as a picture."""
    console = Console(
        record=True,
        width=92,
        force_terminal=True,
        file=io.StringIO(),
        highlight=False,
        emoji=False,
        legacy_windows=False,
    )
    console.print(f"[bold green]$[/] {command}")
    terminal.make_console = lambda *, to_stderr: console
    app(shlex.split(command)[1:], standalone_mode=False)
    picture = console.export_svg(title="ddlearn", unique_id=path.stem)
    # Without the fonts that rich would fetch from the network: any font of equal widths will do.
    path.write_text(re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL), encoding="utf-8")


def main() -> None:
    """Draw both, in a folder with the images."""
    train, test = (load_usps(subset=subset) for subset in ("train", "test"))
    running.Terminal = Recorder  # type: ignore[misc]
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        for file, digits in {"usps.npz": train, "usps_test.npz": test}.items():
            np.savez(file, images=digits.images, y=digits.target)
        for name, command in COMMANDS.items():
            draw(command, IMAGES / name)


if __name__ == "__main__":
    main()
