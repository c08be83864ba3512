"""Digits out of place: what alignment and full inference change on USPS: ``python -m reproduction alignment``."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .cells import (
    Cell,
    Record,
    Runner,
    slug,
)
from .images import (
    USPS_SHAPE,
    Floats,
    load_digits,
    spread,
    to_rows,
)
from .measuring import Fits, judge_model
from .models import apply_variant, make_former_model
from .tables import (
    ORANGE,
    SKY,
    format_table,
    make_figure,
    save_figure,
    write_tables,
)

USPS_ALIGNMENT = "affine"
ALIGNMENTS = ("translation", "euclidean", "similarity", "affine")


class DigitSetting(NamedTuple):
    """A row of the table of digits."""

    inference: str
    alignment: str | None
    align_training: bool

    def describe(self) -> str:
        """Return the row's title."""
        if self.alignment is None:
            return f"{self.inference}, no alignment"
        when = "in training and test" if self.align_training else "at test time"
        return f"{self.inference}, {self.alignment} {when}"

    def split(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what is set before the fit and what after it, so that rows share a fit where they can."""
        if self.alignment is None:
            return {}, {"inference": self.inference}
        alignment = {"alignment": self.alignment, "image_shape": USPS_SHAPE}
        if self.align_training:
            return alignment | {"align_training": True}, {"inference": self.inference}
        return {}, alignment | {"inference": self.inference}


DEFAULT_DIGITS = DigitSetting("fast", None, False)
DIGIT_SETTINGS = (
    DEFAULT_DIGITS,
    *(DigitSetting("fast", alignment, False) for alignment in ALIGNMENTS),
    DigitSetting("fast", USPS_ALIGNMENT, True),
    DigitSetting("full", None, False),
    DigitSetting("full", USPS_ALIGNMENT, False),
    DigitSetting("full", USPS_ALIGNMENT, True),
)


def run_alignment(
    runner: Runner, *, seeds: Sequence[int] = range(5), max_train: int | None = None, max_test: int | None = None
) -> list[Record]:
    """Measure what alignment and full inference change on USPS digits, with a model of otherwise default settings."""
    runner = runner.use_threads()
    digits = load_digits()
    trained, tested = spread(len(digits.y_train), max_train), spread(len(digits.y_test), max_test)
    fits = Fits(to_rows(digits.X_train[trained]), digits.y_train[trained], runner.n_jobs)
    X_test, y_test = to_rows(digits.X_test[tested]), digits.y_test[tested]

    def make_cell(setting: DigitSetting, seed: int) -> Cell:
        fit_settings, test_settings = setting.split()

        def measure() -> dict[str, Any]:
            model, fit_seconds = fits.get(make_former_model, fit_settings | {"random_state": seed})
            result = judge_model(apply_variant(copy(model), fit_settings, test_settings), X_test, y_test)
            return result | {"fit_seconds": fit_seconds}

        parameters = setting._asdict() | {"seed": seed, "n_train": len(trained), "n_test": len(tested)}
        return Cell(slug(f"alignment {setting.describe()} {seed}"), parameters, measure)

    cells = [make_cell(setting, seed) for seed in seeds for setting in DIGIT_SETTINGS]
    records = runner.run(cells)
    write_tables(runner.output, "alignment", _format_digits(records), records)
    _draw_digit_errors(runner.output, records)
    return records


def _collect(records: Sequence[Record]) -> dict[DigitSetting, list[dict[str, Any]]]:
    """Return the results of each setting, one a seed."""
    results: dict[DigitSetting, list[dict[str, Any]]] = {}
    for record in records:
        setting = DigitSetting(*(record["parameters"][field] for field in DigitSetting._fields))
        results.setdefault(setting, []).append(record["result"])
    return results


def _list_errors(results: Sequence[dict[str, Any]]) -> Floats:
    """Return errors in per cent."""
    return np.array([100 * (1 - result["accuracy"]) for result in results])


def _format_digits(records: Sequence[Record]) -> str:
    """Return the table of the digits as Markdown; the first setting is what the others are compared with."""
    parameters = records[0]["parameters"]
    results = _collect(records)
    reference = results[DEFAULT_DIGITS]
    reference_error = _list_errors(reference).mean()
    header = ["inference, alignment", "error (%)", "change", "mended / broken", "seconds to fit", "seconds to predict"]
    rows = []
    for setting, of_seeds in results.items():
        errors = _list_errors(of_seeds)
        pairs = list(zip(reference, of_seeds, strict=True))
        n_mended = np.mean([len(set(before["wrong"]) - set(after["wrong"])) for before, after in pairs])
        n_broken = np.mean([len(set(after["wrong"]) - set(before["wrong"])) for before, after in pairs])
        rows.append(
            [
                setting.describe(),
                f"{errors.mean():.2f} ± {errors.std():.2f}",
                f"{errors.mean() / reference_error - 1:+.0%}" if reference_error else "",
                f"{n_mended:.0f} / {n_broken:.0f}",
                f"{np.median([result['fit_seconds'] for result in of_seeds]):.1f}",
                f"{np.median([result['predict_seconds'] for result in of_seeds]):.2f}",
            ]
        )
    return (
        f"# Digits and alignment\n\nUSPS, {parameters['n_train']} training and {parameters['n_test']} test images of "
        f"unit norm; mean and standard deviation over {len(reference)} seeds, median times. Change and the numbers of "
        "images mended and broken are relative to the first row, the defaults. Transform and damping were chosen by "
        "cross-validation on the training images (python -m benchmarks.test_time); while the code was being written, "
        "test errors of some settings were seen too.\n\n" + format_table(header, rows)
    )


def _draw_digit_errors(output: Path, records: Sequence[Record]) -> None:
    """Draw the error of each setting as a bar, and as a dot for each seed."""
    figure = make_figure(8, 5)
    axes = figure.subplots()
    results = _collect(records)
    positions = -np.arange(len(results))
    for position, (setting, of_seeds) in zip(positions, results.items(), strict=True):
        errors = _list_errors(of_seeds)
        axes.barh(position, errors.mean(), color=SKY if setting.inference == "fast" else ORANGE)
        axes.plot(errors, np.full(len(errors), position), "k.", ms=7, alpha=0.6)
        axes.text(0.1, position, f"{errors.mean():.2f}", va="center", fontsize=12, fontweight="bold")
    axes.set_yticks(positions, [setting.describe() for setting in results], fontsize=12)
    axes.set_xlabel("Test error (%)", fontsize=14)
    axes.tick_params(axis="x", labelsize=12)
    save_figure(figure, output, "alignment")
