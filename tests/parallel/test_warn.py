"""Warnings name the line of the user, whatever lies between it and the line that found the reason."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest
from conftest import make_pursuit
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from ddlearn import DDLClassifier, Robustness
from ddlearn.parallel import warn_user

X = np.random.default_rng(0).random((60, 4))
Y = np.arange(60) % 2
OUTLYING = np.where(np.arange(240).reshape(60, 4) == 8, 1e9, X)
EMPTY = np.full((1, 4), np.nan)


def make(**parameters):
    return make_pursuit(**{"n_components": 5, "max_iter": 1, "random_state": 0} | parameters)


FITTED = make(robustness=Robustness(missing="mask")).fit(X, Y)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: make(description="standard").fit(OUTLYING, Y), "in row 2, feature 0, while nine of ten"),
        (lambda: make(n_components=1500).fit(X, Y), "more than 20 atoms for each"),
        (lambda: make().fit(X, np.where(Y, Y, np.arange(60) % 3 - 1)), "y contains -1"),
        (lambda: FITTED.predict(EMPTY), "all features are missing"),
        (lambda: FITTED.explain(EMPTY), "all features are missing"),
        (lambda: make_pipeline(FunctionTransformer(), FITTED).predict_proba(EMPTY), "all features are missing"),
        (lambda: make_pipeline(make(description="standard")).fit(OUTLYING, Y), "in row 2, feature 0"),
        (lambda: cross_val_score(make(description="standard"), OUTLYING, Y, cv=2, n_jobs=1), "feature 0, while nine"),
    ],
    ids=["outlier", "atoms", "marks", "predict", "explain", "pipeline", "fit_pipeline", "cross_validation"],
)
def test_a_warning_names_the_line_that_called_the_library(call, message):
    with pytest.warns(UserWarning, match=message) as caught:
        call()
    assert {warning.filename for warning in caught} == {__file__}


def test_a_function_of_the_user_that_is_called_by_the_library_is_a_line_of_the_user():
    class Loud(FunctionTransformer):
        def transform(self, X):
            warn_user("loud", RuntimeWarning)
            return super().transform(X)

    with pytest.warns(RuntimeWarning, match="loud") as caught:
        DDLClassifier(4, description=Loud(), refine=None, max_iter=0).fit(X, Y)
    assert caught[0].filename == __file__


def test_decorators_lie_inside():
    @contextmanager
    def open_something():
        yield

    @open_something()
    def work():
        warn_user("within")

    with pytest.warns(UserWarning, match="within") as caught:
        work()
    assert caught[0].filename == __file__
