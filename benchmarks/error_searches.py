"""Which way of finding gross errors is better: ``python -m benchmarks.error_searches``.

On training faces only: a model learns from lighting subset 1 of Extended Yale B and recognises every third image of
subset 2, disturbed, at 48 x 42 pixels.
"""

from __future__ import annotations

from copy import copy
from time import perf_counter

import numpy as np
from benchsets import load_yaleb
from reproduction.disturbances import Condition
from sklearn.preprocessing import normalize

from ddlearn import AlternatingErrors, DDLClassifier, GreedyErrors, Robustness

SIZE = (48, 42)
CONDITIONS = [
    Condition("none", 0.0),
    *(Condition("occlusion", level) for level in (0.3, 0.4, 0.5)),
    *(Condition("corruption", level) for level in (0.5, 0.7, 0.8)),
]
SEARCHES = [
    *(AlternatingErrors(trim=trim) for trim in (1.0, 1.5, 2.5)),
    *(GreedyErrors(threshold=threshold) for threshold in (3.0, 10.0, 30.0)),
]
BUDGET = 0.5


def main() -> None:
    lights = {"train_lights": (1,), "test_lights": (2,)}
    X, y = load_yaleb(size=SIZE, split="lighting", subset="train", **lights, return_X_y=True)
    X_test, y_test = (a[::3] for a in load_yaleb(size=SIZE, split="lighting", subset="test", **lights, return_X_y=True))
    fitted = DDLClassifier(200, description=None, n_nonzero_coefs=20, random_state=0, n_jobs=-1).fit(normalize(X), y)
    disturbed = [
        normalize(condition.apply(X_test.reshape(-1, *SIZE)).reshape(len(X_test), -1)) for condition in CONDITIONS
    ]
    titles = [f"{condition.kind} {condition.level:.0%}" for condition in CONDITIONS]
    print(f"| correct of {len(y_test)} (%) | " + " | ".join(titles) + " | ms an image |")
    print("| --- |" + " --- |" * (len(titles) + 1))
    for search in (None, *SEARCHES):
        robustness = None if search is None else Robustness(BUDGET, error_search=search)
        model = copy(fitted).set_params(robustness=robustness)
        model.predict(disturbed[0][:2])
        start = perf_counter()
        correct = [100 * np.mean(model.predict(X) == y_test) for X in disturbed]
        milliseconds = 1e3 * (perf_counter() - start) / len(y_test) / len(disturbed)
        print(
            f"| {search or 'no budget'} | "
            + " | ".join(f"{share:.1f}" for share in correct)
            + f" | {milliseconds:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
