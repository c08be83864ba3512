"""The model of a command: made and fitted, or loaded, and given the samples that it expects."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import parse_number
from .source import Source, read_source
from .terminal import Terminal

if TYPE_CHECKING:
    from ..estimators.classifier import DDLClassifier
    from ..fitting.loop import FinishedLoop, FitProgress
    from ..fitting.refinement import RefinementProgress
    from .reading import Samples

_ROWS_AT_ONCE = 4096  # between two steps of the progress bar of a prediction

# What commands ask for.
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A file that fit has written.")]
Jobs = Annotated[int, typer.Option("--jobs", "--n-jobs", help="Number of threads; -1 is all cores.")]


def make_model(settings: dict[str, Any], samples: Samples, preset: str | None = None) -> DDLClassifier:
    """Make a classifier for samples: the shape of images, and the type of the marker of no label, are theirs."""
    from ..estimators.classifier import DDLClassifier

    if samples.image_shape is not None and len(samples.image_shape) == 2:  # colour has three numbers a pixel
        settings = {"image_shape": samples.image_shape} | settings
    marker = settings.get("unlabeled")
    if isinstance(marker, str) and samples.labels is not None and samples.labels.dtype.kind in "iu":
        settings = settings | {"unlabeled": int(parse_number(marker))}
    return DDLClassifier(**settings) if preset is None else DDLClassifier.from_preset(preset, **settings)


def fit_model(
    terminal: Terminal, model: DDLClassifier, X: Any, y: Any, checkpoint: Path | None = None, resume: bool = False
) -> float:
    """Fit under a progress bar; return the seconds it took."""
    begin = perf_counter()
    with terminal.progress(*_FitProgress.columns) as bar:
        callbacks: list[Any] = [_FitProgress(bar)]
        if checkpoint is not None:
            from ..files.checkpoint import Checkpoint

            callbacks.append(Checkpoint(checkpoint, resume=resume))
        model.set_callbacks(*callbacks).fit(X, y)
    return perf_counter() - begin


class _FitProgress:
    """A scikit-learn callback that moves a progress bar for the iterations, and one for the epochs of refinement."""

    columns = ("{task.completed}/{task.total}", "{task.fields[result]}")

    def __init__(self, bar: Any):
        self.bar = bar

    def setup(self, estimator: Any, context: Any) -> None:
        """Nothing to set up."""

    def on_fit_task_begin(self, estimator: Any, context: Any, *, metadata: dict[str, Any] | None) -> None:
        """Ask to be told of iterations and epochs; the fit makes no model for that, as it would for a callback."""
        if metadata is None:  # an iteration begins
            return
        fitting = self.bar.add_task("fitting", total=estimator.max_iter, result="")
        metadata["loop"].keepers.append(partial(self._show_iteration, fitting))
        if estimator.refine is not None:
            n_epochs = getattr(estimator.refine, "epochs", estimator.refine)
            refining = self.bar.add_task("refining", total=n_epochs, result="")
            metadata["loop"].refinement_keepers.append(partial(self._show_epoch, refining))

    def _show_iteration(self, task: Any, progress: FitProgress) -> None:
        """Show the objective and the error on label-free codes, which is the one that new samples will have."""
        record = progress.history[-1]
        result = f"objective {record.objective:,.0f}  error {record.label_free_error:.2%}"
        self.bar.update(task, completed=record.iteration, result=result)

    def _show_epoch(self, task: Any, _: FinishedLoop, progress: RefinementProgress, is_last: bool) -> None:
        """Show the training cost, and the error on the samples held out."""
        record = progress.history[-1]
        result = f"cost {record.training_cost:.3g}"
        if not math.isnan(record.validation_error):
            result += f"  held-out error {record.validation_error:.2%}"
        self.bar.update(task, completed=record.epoch, result=result)

    def on_fit_task_end(self, estimator: Any, context: Any) -> None:
        """Do nothing: the fit has told."""

    def teardown(self, estimator: Any, context: Any) -> None:
        """Nothing to take down."""


def name_features(model: DDLClassifier, names: list[str] | None) -> None:
    """Keep names as scikit-learn does for a data frame, without the copy of all data that a data frame would be."""
    import numpy as np

    if names is not None:
        model.feature_names_in_ = np.array(names, dtype=object)


def load_model(path: Path, jobs: int) -> DDLClassifier:
    """Load a classifier that commands can use."""
    from ..files.models import load

    model = load(path)
    if not hasattr(model, "components_") or getattr(model, "is_multilabel_", True):
        raise ValueError(
            f"{path} holds no classifier with one label a sample: use it from Python, where ddlearn.load reads it."
        )
    return model.set_params(n_jobs=jobs)


def read_for_model(terminal: Terminal, model: DDLClassifier, source: Source) -> Samples:
    """Read samples as the model expects them: images of its size, columns in its order."""
    if source.image_size is None:
        size, colour = _guess_images(model, source.colour)
        source = replace(source, image_size=size, colour=colour)
    samples = read_source(terminal, source, model.n_features_in_)
    expected = getattr(model, "feature_names_in_", None)
    if samples.feature_names is None or expected is None or samples.feature_names == list(expected):
        return samples
    return samples._replace(X=samples.X[:, _order_columns(source.data, samples.feature_names, list(expected))])


def _guess_images(model: DDLClassifier, colour: bool) -> tuple[tuple[int, int] | None, bool]:
    """Return the size of the model's images; the estimator keeps it for grey images only, and others are square."""
    if model.image_shape is not None:
        height, width = model.image_shape
        return (height, width), False
    side = math.isqrt(model.n_features_in_ // 3)
    return ((side, side), True) if 3 * side**2 == model.n_features_in_ else (None, colour)


def _order_columns(data: str, names: list[str], expected: list[str]) -> list[int]:
    from .reading import DataError

    missing, unknown = (
        [name for name in some if name not in others] for some, others in ((expected, names), (names, expected))
    )
    if missing or unknown:
        lists = [
            f"{word} {', '.join(map(repr, some[:5]))}{', ...' if len(some) > 5 else ''}"
            for word, some in (("without", missing), ("with", unknown))
            if some
        ]
        raise DataError(f"{data} has other columns than the model was fitted to: {' and '.join(lists)}.")
    if len(set(names)) < len(names):
        raise DataError(f"{data} has columns of the same name, and in another order than the model was fitted to.")
    return [names.index(name) for name in expected]


def predict_best(terminal: Terminal, model: DDLClassifier, X: Any) -> tuple[Any, Any]:
    """Return the best class of each row, by its position, and its probability, under a progress bar.

    Only some rows are worked on at a time, and only one part of data in parts is in memory.
    """
    import numpy as np

    from .reading.parts import iterate_blocks

    with terminal.progress("{task.completed:,}/{task.total:,}") as bar:
        task = bar.add_task("predicting", total=len(X))
        positions, probabilities = [], []
        for block in iterate_blocks(X):
            for start in range(0, len(block), _ROWS_AT_ONCE):
                found = model.predict_proba(block[start : start + _ROWS_AT_ONCE])
                positions.append(found.argmax(axis=1))
                probabilities.append(found.max(axis=1))
                bar.advance(task, len(found))
        return np.concatenate(positions), np.concatenate(probabilities)
