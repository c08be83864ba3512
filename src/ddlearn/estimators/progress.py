"""What ``verbose`` shows of a fit on stderr: bars by rich, where it is installed and can draw them, otherwise lines."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

from ..fitting.loop import IterationRecord
from ..refinement.refiner import EpochRecord
from ..refinement.search import Row


class FitProgress:
    """Turns what a fit does into stages, steps and a few words, for a subclass to show."""

    n_tried = 0
    lowest = math.inf

    def show(self, stage: str, done: int, total: int | None, words: str) -> None:
        """Show how far a stage is; a stage without a total ends when the next one begins."""

    def on_trial(self, row: Row) -> None:
        """Show a setting that was tried."""
        self.n_tried, self.lowest = self.n_tried + 1, min(self.lowest, row["error"])
        self.show("choosing settings", self.n_tried, None, f"held-out error {self.lowest:.2%}")

    def watch(self, run: Any) -> None:  # a FitRun, whose file imports this one
        """Show the iterations and epochs of a fit."""
        n_epochs = 0 if run.settings.refiner is None else run.settings.refiner.count_epochs()

        def keep(snapshot: Any) -> None:
            if snapshot.refinement is not None:
                epoch = snapshot.refinement.history[-1]
                self.show("refining", epoch.epoch, n_epochs, _describe_epoch(epoch))
                return
            last = snapshot.state.history[-1]
            self.show("fitting", last.iteration, run.settings.loop.max_iter, describe_iteration(last))

        run.keepers.append(keep)


def say(text: str) -> None:
    """Print a line on stderr."""
    print(f"[ddlearn] {text}", file=sys.stderr, flush=True)


def describe_iteration(record: IterationRecord) -> str:
    """Return what an iteration, or a batch of a stream, has reached; the error is that of codes without labels."""
    return f"objective {record.objective:,.0f}, error {record.label_free_error:.2%}"


def _describe_epoch(epoch: EpochRecord) -> str:
    if math.isnan(epoch.validation_error):
        return f"cost {epoch.training_cost:.3g}, error {epoch.training_error:.2%} while learning"
    return f"cost {epoch.training_cost:.3g}, held-out error {epoch.validation_error:.2%}"


class _Bars(FitProgress):
    def __init__(self, bars: Any):
        self.bars = bars
        self.tasks: dict[str, Any] = {}

    def show(self, stage: str, done: int, total: int | None, words: str) -> None:
        if stage not in self.tasks:
            for task in self.tasks.values():
                self.bars.update(task, total=self.bars.tasks[task].completed)  # it may have ended early
            self.tasks[stage] = self.bars.add_task(stage, total=total, words="")
        self.bars.update(self.tasks[stage], completed=done, words=words)


class _Lines(FitProgress):
    stage = ""
    words = ""
    begin = 0.0

    def show(self, stage: str, done: int, total: int | None, words: str) -> None:
        if stage != self.stage:
            if self.words:
                say(self.words)
            self.stage, self.words, self.begin = stage, "", perf_counter()
            if total is None:
                say(f"{stage} ...")
        if total is None:  # there may be dozens, of which the last is enough
            self.words = f"{stage}: {done} tried, {words}"
            return
        seconds = (perf_counter() - self.begin) / max(done - 1, 1) * (total - done)  # the clock began after the first
        left = f", {seconds:.0f} s left" if done > 1 and done < total else ""
        say(f"{stage} {done}/{total}: {words}{left}")


@contextmanager
def show_progress() -> Iterator[FitProgress]:
    """Yield what shows the progress of a fit."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    except ModuleNotFoundError:
        yield _Lines()
        return
    console = Console(stderr=True)
    if not (console.is_terminal or console.is_jupyter):
        yield _Lines()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[words]}"),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=console, speed_estimate_period=3600) as bars:  # an iteration may take minutes
        yield _Bars(bars)
