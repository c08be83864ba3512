"""The way of a sample through the package is short and straight."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.trace import Visit, count, trace, trace_fit_and_predict
from sklearn.datasets import load_digits

from ddlearn import DDLClassifier

# Most files that a default fit and a prediction visit, and most returns to a file that was left.
# (Algorithm 1 takes three kinds of steps, which have a file of their own, and so do their kernels.)
# (A single block of rows does not go the way of several, so that one sample does not wait for a pool.)
# Description is one more step, and tries two ways on some samples before a fit.
# The default model is refined, and settings are searched for: the search comes back to the coder for each of them, and
# refines the last few for a trial.  Refinement has a file each for the epochs, for a part and for the steps.
# Labels have a file of their own, beside that of the samples.
LIMITS = {"fit": (48, 149), "predict": (16, 5)}


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
