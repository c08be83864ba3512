"""Draw ``docs/images/cli_fit.svg`` and ``cli_evaluate.svg``: what two commands show in a terminal.

Run ``DDLEARN_DATA=folder python docs/make_screenshots.py`` in an environment with ``ddlearn[cli]``.  The commands are
really run.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import tempfile
from contextlib import chdir
from pathlib import Path

from rich.console import Console

from ddlearn.cli import app, running, terminal

IMAGES = Path(__file__).parent.resolve() / "images"
COMMANDS = {
    "cli_fit.svg": "ddlearn fit usps:train",
    "cli_evaluate.svg": "ddlearn evaluate usps.safetensors usps:test",
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
    """Draw both, in an empty folder."""
    if "DDLEARN_DATA" in os.environ:
        os.environ["DDLEARN_DATA"] = str(Path(os.environ["DDLEARN_DATA"]).resolve())
    running.Terminal = Recorder  # type: ignore[misc]
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        for name, command in COMMANDS.items():
            draw(command, IMAGES / name)


if __name__ == "__main__":
    main()
