"""What each setting is worth: the defaults with one of them changed at a time, ``python -m benchmarks.settings``.

On splits of scikit-learn's digits, and on the official split of USPS if ``DDLEARN_DATA`` names its folder; one core.
The table of docs/settings.md is made here.  Each result is kept in benchmarks/results/settings.json, so an interrupted
run goes on where it was.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ddlearn import DDLClassifier, Robustness

from .offline_sets import SETS, Split
from .out_of_the_box import RESULTS as OTHER_RESULTS
from .out_of_the_box import compile_kernels, count_bytes
from .problems import find_data_folder
from .report import format_table

Floats = NDArray[np.floating]

RESULTS = OTHER_RESULTS.with_name("settings.json")
N_SPLITS = 3
FITS: dict[str, dict[str, Any]] = {
    "default": {},
    'from_preset("fast")': {"preset": "fast"},
    'from_preset("accurate")': {"preset": "accurate"},
    "n_components=100": {"n_components": 100},
    "n_components=1000": {"n_components": 1000},
    'n_components="auto"': {"n_components": "auto"},
    'loss="logistic"': {"loss": "logistic"},
    'sparse_coder="ormp"': {"sparse_coder": "ormp"},
    'refine="classifiers"': {"refine": "classifiers"},
    "refine=None": {"refine": None},
    "refine=40": {"refine": 40},
    'description="gradients"': {"description": "gradients"},
}
MISSING = 0.3, 0.5  # shares of the values of new samples
MASK = Robustness(missing="mask")


def lose_values(split: Split, share: float) -> Floats:
    """Return the test samples with NaN in random places."""
    is_lost = np.random.default_rng(0).random(split.X_test.shape) < share
    return np.where(is_lost, np.nan, split.X_test).astype(split.X_test.dtype)


def fill(split: Split, samples: Floats) -> Floats:
    """Return samples with the training mean in place of NaN."""
    return np.where(np.isnan(samples), split.X_train.mean(axis=0), samples)


# Settings of new samples, tried on the default model, and what the new samples are.
AFTER_THE_FIT: dict[str, tuple[dict[str, Any], Callable[[Split], Floats]]] = {
    'inference="full"': ({"inference": "full"}, lambda split: split.X_test),
    'alignment="affine"': ({"alignment": "affine"}, lambda split: split.X_test),
    "n_views=8": ({"n_views": 8}, lambda split: split.X_test),
    "robustness=0.15": ({"robustness": 0.15}, lambda split: split.X_test),
}
for share in MISSING:
    AFTER_THE_FIT |= {
        f"{share:.0%} missing, {MASK}": ({"robustness": MASK}, partial(lose_values, share=share)),
        f"{share:.0%} missing, training mean": ({}, lambda split, share=share: fill(split, lose_values(split, share))),
    }


def make_model(seed: int, image_shape: tuple[int, int], *, preset: str | None = None, **changed: Any) -> DDLClassifier:
    """Return the model of one line of the table."""
    common = {"random_state": seed, "image_shape": image_shape} | changed
    return DDLClassifier.from_preset(preset, **common) if preset else DDLClassifier(**common)


def measure_score(model: DDLClassifier, X_test: Floats, y_test: NDArray, fit_seconds: float) -> dict[str, float]:
    """Return the error, the seconds to fit and to predict one sample, and the size of the model file."""
    start = process_time()
    error = 1 - model.score(X_test, y_test)
    seconds = (process_time() - start) / len(y_test)
    return {"error": error, "fit_seconds": fit_seconds, "predict_seconds": seconds, "bytes": count_bytes(model)}


def measure(split: Split, seed: int, known: dict[str, dict[str, float]]) -> None:
    """Add the results of one split that are not known yet."""
    side = round(np.sqrt(split.X_train.shape[1]))
    for name, changed in FITS.items():
        if name in known and not (name == "default" and AFTER_THE_FIT.keys() - known.keys()):
            continue
        start = process_time()
        model = make_model(seed, (side, side), **changed).fit(split.X_train, split.y_train)
        fit_seconds = process_time() - start
        known[name] = measure_score(model, split.X_test, split.y_test, fit_seconds)
        print(name, known[name], flush=True)
        if name == "default":
            defaults = model.get_params()
            for other, (settings, prepare) in AFTER_THE_FIT.items():
                model.set_params(**settings)
                known[other] = measure_score(model, prepare(split), split.y_test, fit_seconds)
                model.set_params(**{key: defaults[key] for key in settings})


def main() -> None:
    """Measure what is missing and print a table."""
    results: dict[str, dict[str, dict[str, float]]] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    RESULTS.parent.mkdir(exist_ok=True)
    sets = ["digits", "usps"] if find_data_folder() else ["digits"]
    compile_kernels()
    with threadpool_limits(1):
        for set_name in sets:
            for seed, split in zip(range(N_SPLITS), SETS[set_name].split(), strict=False):
                measure(split, seed, results.setdefault(f"{set_name} {seed}", {}))
                RESULTS.write_text(json.dumps(results, indent=1))
    header = ["setting", *(f"{name}: {what}" for name in sets for what in ("error, %", "fit, s", "predict, ms", "MB"))]
    rows = []
    for line in [*FITS, *AFTER_THE_FIT]:
        cells = []
        for set_name in sets:
            of_line = [results[key][line] for key in results if key.startswith(set_name)]
            error, fit, predict, size = (
                np.mean([one[what] for one in of_line]) for what in ("error", "fit_seconds", "predict_seconds", "bytes")
            )
            cells += [f"{100 * error:.2f}", f"{fit:.2g}", f"{1000 * predict:.2g}", f"{size / 1e6:.2g}"]
        rows.append([f"`{line}`", *cells])
    print(format_table(header, rows))


if __name__ == "__main__":
    main()
