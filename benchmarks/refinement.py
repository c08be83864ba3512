"""How long does an epoch of refinement take? ``python -m benchmarks.refinement`` tries USPS and MNIST on two threads.

The fit before it is short, and the first epoch, in which kernels are compiled or read, does not count.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

from reproduction.images import DATASETS, load_rows

from ddlearn import DDLClassifier, ElasticNet, Jitter, Refiner

N_EPOCHS = 4
N_JOBS = 2


class Problem(NamedTuple):
    """A training set, a size, and the seconds that an epoch may take."""

    dataset: str
    n_components: int
    most_seconds: float


PROBLEMS = (Problem("usps", 300, 2.0), Problem("mnist", 400, 15.0))


def measure_epoch(problem: Problem) -> float:
    """Return the seconds of the fastest epoch, with distorted images of unit norm in float32."""
    data = load_rows(problem.dataset, 0)
    model = DDLClassifier(
        problem.n_components,
        sparse_coder=ElasticNet(0.1, l1_ratio=0.5),
        max_iter=1,
        refine=Refiner(N_EPOCHS, validation_fraction=0.0, jitter=Jitter(0.7, linear=0.84, elastic=0.3)),
        image_shape=DATASETS[problem.dataset].image_shape,
        n_jobs=N_JOBS,
        random_state=0,
    ).fit(data.X_train, data.y_train)
    return min(record.seconds for record in model.refinement_[2:])


def main() -> None:
    """Print the seconds of an epoch."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    for problem in PROBLEMS:
        seconds = measure_epoch(problem)
        limit = f"limit {problem.most_seconds:g}"
        print(f"{problem.dataset}, K = {problem.n_components}: {seconds:.2f} s an epoch on {N_JOBS} threads ({limit})")


if __name__ == "__main__":
    main()
