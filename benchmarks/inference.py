"""What the treatment of new samples costs, against plain coding: ``python -m benchmarks.inference``.

Targets: full inference of ten hypotheses within 12 times the fast rule for every loss, alignment in three rounds
within 15 times plain coding.  The models are those of the paper: joint learning with codes of T atoms, ten iterations,
no refinement.  All are measured in one process, one after the other in several rounds, of which the best counts: CPU
time, of one thread.
"""

from __future__ import annotations

from copy import copy
from time import process_time

import numpy as np
from benchsets import load_usps
from sklearn.preprocessing import normalize

from ddlearn import Alignment, DDLClassifier, FullInference, Robustness
from ddlearn.model.losses import LOSSES

N_REPEATS = 15
SIZES = {"K=300, T=3": (300, 3), "K=500, T=5": (500, 5)}
JOINT = {"description": None, "sparse_coder": "ormp", "refine": None, "max_iter": 10, "random_state": 0}
TRANSFORMS = ("translation", "euclidean", "similarity", "affine")
WAYS: dict[str, dict] = {
    "fast": {},
    "full, 10 hypotheses (target 12)": {"inference": "full"},
    "full, 3 candidates": {"inference": FullInference(3)},
    **{f"{name}, 3 rounds (target 15)": {"alignment": Alignment(name)} for name in TRANSFORMS},
    "errors in a fifth, alternating": {"robustness": 0.2},
    "errors in a fifth, greedy": {"robustness": Robustness(0.2, error_search="greedy")},
}


def measure(model: DDLClassifier, X: np.ndarray) -> float:
    start = process_time()
    model.predict(X)
    return process_time() - start


def compare_rules() -> None:
    """Print what the full rule costs with each loss, and what it brings."""
    X, y = load_usps(subset="train", return_X_y=True)
    X_test, y_test = load_usps(subset="test", return_X_y=True)
    X, X_test = (normalize(samples.astype(np.float64)) for samples in (X, X_test))
    print("| K=300, T=3, f64 | full over fast | error, fast (%) | error, full (%) |\n| --- | --- | --- | --- |")
    for loss in LOSSES:
        fast = DDLClassifier(300, n_nonzero_coefs=3, loss=loss, **JOINT).fit(X, y)
        full = copy(fast).set_params(inference="full")
        seconds = np.array([[measure(model, X_test) for model in (fast, full)] for _ in range(N_REPEATS)]).min(axis=0)
        errors = [100 * (1 - model.score(X_test, y_test)) for model in (fast, full)]
        print(f"| {loss} | {seconds[1] / seconds[0]:.1f} | {errors[0]:.2f} | {errors[1]:.2f} |", flush=True)


def main() -> None:
    compare_rules()
    print(
        "| times the fast rule | " + " | ".join(f"{size} {dtype}" for size in SIZES for dtype in ("f64", "f32")) + " |"
    )
    print("| --- |" + " --- |" * 2 * len(SIZES))
    ratios: dict[str, list[str]] = {name: [] for name in WAYS}
    for n_components, n_nonzero_coefs in SIZES.values():
        for dtype in (np.float64, np.float32):
            X, y = load_usps(subset="train", return_X_y=True)
            X_test = normalize(load_usps(subset="test", return_X_y=True)[0].astype(dtype))
            model = DDLClassifier(n_components, n_nonzero_coefs=n_nonzero_coefs, image_shape=(16, 16), **JOINT)
            model.fit(normalize(X.astype(dtype)), y)
            models = {name: copy(model).set_params(**way) for name, way in WAYS.items()}
            seconds = dict.fromkeys(WAYS, np.inf)
            for _ in range(N_REPEATS):
                for name, changed in models.items():
                    seconds[name] = min(seconds[name], measure(changed, X_test))
            for name, value in seconds.items():
                ratios[name].append(f"{value / seconds['fast']:.1f}" if name != "fast" else f"{1e3 * value:.1f} ms")
    for name, row in ratios.items():
        print(f"| {name} | " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
