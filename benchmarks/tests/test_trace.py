"""The way of a sample through the package is short and straight."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from benchmarks.trace import Visit, count, trace, trace_fit_and_predict
from sklearn.datasets import load_digits

import ddlearn
from ddlearn import DDLClassifier

# Most files that a default fit and a prediction visit, and most returns to a file that was left.
# The default model is refined and its settings are searched for, so a fit has three loops: the search, Algorithm 2 with
# three kinds of steps, and the epochs.  Each calls coders, classifiers and costs, which have files of their own, as do
# their kernels.  Most returns are to a loop after a step, to the maps and sums over parts, and to the samples.
# A single block of rows does not go the way of several, so that one sample does not wait for a pool.
LIMITS = {"fit": (45, 136), "predict": (14, 3)}
MOST_LINES = 23_900  # of the package


def test_come_backs_are_returns_to_a_file_that_was_left():
    way = [Visit(file, str(position)) for position, file in enumerate("aabacb")]
    assert count(way) == (3, 6, 4, 2)


@pytest.fixture(scope="module")
def ways():
    return trace_fit_and_predict()


@pytest.mark.parametrize("name", LIMITS)
def test_a_default_model_stays_within_the_limits(ways, name):
    counts = count(ways[name])
    most_files, most_come_backs = LIMITS[name]
    assert 0 < counts.n_files <= most_files
    assert counts.n_come_backs <= most_come_backs


def test_a_second_prediction_goes_the_way_of_the_first_without_what_was_kept():
    X, y = load_digits(return_X_y=True)
    model = DDLClassifier(n_components=12, n_nonzero_coefs=3, max_iter=2, random_state=0).fit(X[:60], y[:60])
    evidence = []
    first, second = (trace(lambda: evidence.append(model.decision_function(X[:1]))) for _ in range(2))
    assert second == [visit for visit in first if visit in second]
    assert np.array_equal(*evidence)


def test_the_package_does_not_grow():
    files = Path(ddlearn.__file__).parent.rglob("*.py")
    assert sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files) <= MOST_LINES
