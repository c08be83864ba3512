"""How far is a stream from a fit? ``python -m benchmarks.streaming`` tries it on USPS and MNIST.

``--choose`` compares values of ``forgetting`` on training images alone, a part of which is held out: that is how the
default was chosen.  Without it, the errors are those of the test images.  Finished cells are kept in
``results/streaming.json``; ``--data`` and ``--seeds`` do a part of the work.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from benchsets import load_mnist, load_usps
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize

from ddlearn import DDLClassifier, MiniBatchDDLClassifier

RESULTS = Path(__file__).parent / "results" / "streaming.json"
LOADERS = {"usps": load_usps, "mnist": load_mnist}
N_COMPONENTS = 300
PASSES = (1, 2, 5)
BATCH_SIZES = (500, 1000, 5000)
CHOICES = (0.0, 1.0, 2.0, 3.0, 5.0)
N_VALIDATION = 2000
MOST_FOR_CHOICE = 22000  # training images that a choice is made on


class Split(NamedTuple):
    """What is learned from, and what is judged."""

    X: NDArray[np.floating]
    y: NDArray[np.integer]
    X_judged: NDArray[np.floating]
    y_judged: NDArray[np.integer]

    def measure_error(self, model: DDLClassifier) -> float:
        """Return the error on what is judged."""
        return 1 - model.score(self.X_judged, self.y_judged)


def read_images(name: str, subset: str) -> tuple[NDArray[np.floating], NDArray[np.integer]]:
    """Return images of unit norm and their classes."""
    X, y = LOADERS[name](subset=subset, return_X_y=True)
    return normalize(X), y


def read_test(name: str) -> Split:
    """Return all training images, and the test images."""
    return Split(*read_images(name, "train"), *read_images(name, "test"))


def read_validation(name: str) -> Split:
    """Return training images, and others that are held out."""
    X, y = read_images(name, "train")
    if len(X) > MOST_FOR_CHOICE:
        X, _, y, _ = train_test_split(X, y, train_size=MOST_FOR_CHOICE, stratify=y, random_state=0)
    X, X_judged, y, y_judged = train_test_split(X, y, test_size=N_VALIDATION, stratify=y, random_state=1)
    return Split(X, y, X_judged, y_judged)


def make_model(seed: int, **parameters: object) -> DDLClassifier:
    """Return a model of the size that is compared."""
    # With the weight that was the default when the tables were made.
    return DDLClassifier(
        N_COMPONENTS, description=None, classification_weight=1.0, n_jobs=-1, random_state=seed, **parameters
    )


def measure_fit(split: Split, seed: int, **parameters: object) -> list[tuple[float, float]]:
    """Return the error of a fit, and its seconds."""
    start = time.perf_counter()
    model = make_model(seed, **parameters).fit(split.X, split.y)
    seconds = time.perf_counter() - start
    return [(split.measure_error(model), seconds)]


def measure_stream(split: Split, seed: int, batch_size: int, **options: float) -> list[tuple[float, float]]:
    """Return the error of a stream after each number of passes, and the seconds until then; each pass is shuffled."""
    model = MiniBatchDDLClassifier(N_COMPONENTS, description=None, n_jobs=-1, random_state=seed, **options)
    seconds, measured = 0.0, []
    classes, rng = np.unique(split.y), np.random.default_rng(seed)
    for n_passes in range(1, PASSES[-1] + 1):
        order = rng.permutation(len(split.y))
        start = time.perf_counter()
        for first in range(0, len(order), batch_size):
            batch = order[first : first + batch_size]
            model.partial_fit(split.X[batch], split.y[batch], classes=classes)
        seconds += time.perf_counter() - start
        if n_passes in PASSES:
            measured.append((split.measure_error(model), seconds))
    return measured


Row = tuple[str, Callable[[Split, int], list[tuple[float, float]]]]


def list_test_rows() -> Iterator[Row]:
    """Yield fits, and streams of several batch sizes."""
    yield "fit", measure_fit
    yield (
        'fit, `dictionary_update="block_coordinate"`',
        lambda *args: measure_fit(*args, dictionary_update="block_coordinate"),
    )
    for size in BATCH_SIZES:
        yield f"batches of {size}", lambda *args, size=size: measure_stream(*args, size)


def list_choice_rows() -> Iterator[Row]:
    """Yield fits, one of them as long as anyone would wait, and streams that forget more or less."""
    yield "fit", measure_fit
    yield "fit, `max_iter=60, tol=0`", lambda *args: measure_fit(*args, max_iter=60, tol=0)
    for size in (500, 2000):
        for rho in CHOICES:
            yield (
                f"batches of {size}, `forgetting={rho:g}`",
                lambda *args, size=size, rho=rho: measure_stream(*args, size, forgetting=rho),
            )


def read_results() -> dict[str, list[tuple[float, float]]]:
    """Return finished cells."""
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def keep_result(key: str, measured: list[tuple[float, float]]) -> None:
    """Add a cell to the file, which another run may have added to as well."""
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(read_results() | {key: measured}, indent=1))


def format_cells(cells: list[list[tuple[float, float]]]) -> str:
    """Return errors as mean and standard error over the seeds, and the median of the last seconds."""
    errors = 100 * np.array([[error for error, _ in cell] for cell in cells])
    spread = errors.std(axis=0, ddof=1) / np.sqrt(len(cells)) if len(cells) > 1 else np.zeros(errors.shape[1])
    numbers = [f"{mean:.2f} ± {each:.2f}" for mean, each in zip(errors.mean(axis=0), spread, strict=True)]
    numbers += ["" for _ in range(len(PASSES) - len(numbers))]
    return " | ".join([*numbers, f"{np.median([cell[-1][1] for cell in cells]):.0f}"])


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--choose", action="store_true", help="compare values of forgetting, on training images alone")
    parser.add_argument("--data", nargs="+", choices=LOADERS, default=list(LOADERS))
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    read, rows = (read_validation, list_choice_rows) if options.choose else (read_test, list_test_rows)
    print(f"| | | {' | '.join(f'passes: {n}' for n in PASSES)} | seconds |")
    print(f"| --- | --- |{' --- |' * (len(PASSES) + 1)}")
    for name in options.data:
        split = read(name)
        for label, measure in rows():
            keys = [
                f"{'validation' if options.choose else 'test'} {name} {label} {seed}" for seed in range(options.seeds)
            ]
            for seed, key in enumerate(keys):
                if key not in read_results():
                    keep_result(key, measure(split, seed))
            print(f"| {name} | {label} | {format_cells([read_results()[key] for key in keys])} |", flush=True)


if __name__ == "__main__":
    main()
