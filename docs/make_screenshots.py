"""Draw ``docs/images/cli_fit.svg`` and ``cli_evaluate.svg``: what two commands show in a terminal.

Run ``DDLEARN_DATA=folder python docs/make_screenshots.py`` in an environment with ``ddlearn[cli]``.  The commands are
really run; of the progress bar, which moves, one moment is kept, even where the fit is too quick to show it.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from ddlearn.cli import app, running, terminal

IMAGES = Path(__file__).parent.resolve() / "images"
COMMANDS = {
    "cli_fit.svg": "ddlearn fit usps:train -o usps.safetensors --seed 0",
    "cli_evaluate.svg": "ddlearn evaluate usps.safetensors usps:test",
}
MOMENT = 5  # the iteration after which the progress bar is kept


class Recorder(terminal.Terminal):
    """A terminal that keeps one moment of a progress bar instead of moving it."""

    @contextmanager
    def progress(self, *columns: str) -> Iterator[Any]:
        """Yield a bar that is not shown, and print it once."""
        self.has_progress = False
        with super().progress(*columns) as bar:
            move = bar.update

            def move_and_keep(task: Any, **values: Any) -> None:
                move(task, **values)
                if values.get("completed") == MOMENT:
                    self.err.print(bar.make_tasks_table(bar.tasks))

            bar.update = move_and_keep
            yield bar


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
