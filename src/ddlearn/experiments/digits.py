"""Digits out of place: what alignment and full inference change on USPS: ``python -m ddlearn.experiments usps``."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..estimator import DDLClassifier
from .cells import Cell, Record, run_cells, slug
from .images import SEED, USPS_SHAPE, load_digits, spread, to_rows
from .measuring import Fits, judge_model
from .tables import ORANGE, SKY, format_table, make_figure, save_figure, write_tables

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


def run_usps(
    output: str | Path, *, max_train: int | None = None, max_test: int | None = None, n_jobs: int | None = None
) -> list[Record]:
    """Measure what alignment and full inference change on USPS digits, with a model of otherwise default settings.

    Parameters
    ----------
    output : str or Path
        Folder for tables, figures and finished cells.
    max_train : int or None, default=None
        Training images at most.
    max_test : int or None, default=None
        Test images at most.
    n_jobs : int or None, default=None
        Number of threads, after joblib's conventions.

    Returns
    -------
    list of dict
        The records of all cells.
    """
    output = Path(output)
    digits = load_digits()
    trained, tested = spread(len(digits.y_train), max_train), spread(len(digits.y_test), max_test)
    fits = Fits(to_rows(digits.X_train[trained]), digits.y_train[trained], n_jobs)
    X_test, y_test = to_rows(digits.X_test[tested]), digits.y_test[tested]

    def make_cell(setting: DigitSetting) -> Cell:
        fit_settings, test_settings = setting.split()

        def measure() -> dict[str, Any]:
            model, fit_seconds = fits.get(DDLClassifier, fit_settings | {"random_state": SEED})
            result = judge_model(copy(model).set_params(**test_settings), X_test, y_test)
            return result | {"fit_seconds": fit_seconds}

        parameters = setting._asdict() | {"seed": SEED, "n_train": len(trained), "n_test": len(tested)}
        return Cell(slug(f"usps {setting.describe()}"), parameters, measure)

    records = run_cells([make_cell(setting) for setting in DIGIT_SETTINGS], output / "cells", n_jobs=n_jobs)
    write_tables(output, "usps", _format_digits(records), records)
    _draw_digit_errors(output, records)
    return records


def _describe_digits(record: Record) -> str:
    return DigitSetting(*(record["parameters"][field] for field in DigitSetting._fields)).describe()


def _format_digits(records: Sequence[Record]) -> str:
    """Return the table of the digits as Markdown; the first record is what the others are compared with."""
    parameters = records[0]["parameters"]
    header = ["inference, alignment", "error (%)", "change", "mended / broken", "seconds to fit", "seconds to predict"]
    reference = records[0]["result"]
    rows = []
    for record in records:
        result = record["result"]
        error, reference_error = 1 - result["accuracy"], 1 - reference["accuracy"]
        n_mended = len(set(reference["wrong"]) - set(result["wrong"]))
        n_broken = len(set(result["wrong"]) - set(reference["wrong"]))
        low, high = (100 * (1 - end) for end in reversed(result["interval"]))
        rows.append(
            [
                _describe_digits(record),
                f"{100 * error:.2f} ({low:.2f} to {high:.2f})",
                f"{error / reference_error - 1:+.0%}" if reference_error else "",
                f"{n_mended} / {n_broken}",
                f"{result['fit_seconds']:.1f}",
                f"{result['predict_seconds']:.2f}",
            ]
        )
    return (
        f"# Digits and alignment\n\nUSPS, {parameters['n_train']} training and {parameters['n_test']} test images of "
        "unit norm, with the Wilson interval of 95 %. Change and the numbers of images mended and broken are relative "
        "to the first row, the defaults. All settings were fixed beforehand, by cross-validation on the training "
        "images; the test images were used once for each row.\n\n" + format_table(header, rows)
    )


def _draw_digit_errors(output: Path, records: Sequence[Record]) -> None:
    """Draw the error of each setting as a bar."""
    figure = make_figure(8, 5)
    axes = figure.subplots()
    positions = -np.arange(len(records))
    errors = np.array([100 * (1 - record["result"]["accuracy"]) for record in records])
    ends = 100 * (1 - np.array([record["result"]["interval"][::-1] for record in records]).T)
    colours = [SKY if record["parameters"]["inference"] == "fast" else ORANGE for record in records]
    axes.barh(positions, errors, color=colours, xerr=np.abs(ends - errors), ecolor="0.3", capsize=3)
    for position, error in zip(positions, errors, strict=True):
        axes.text(0.1, position, f"{error:.2f}", va="center", fontsize=12, fontweight="bold")
    axes.set_yticks(positions, [_describe_digits(record) for record in records], fontsize=12)
    axes.set_xlabel("Test error (%)", fontsize=14)
    axes.tick_params(axis="x", labelsize=12)
    save_figure(figure, output, "usps")
