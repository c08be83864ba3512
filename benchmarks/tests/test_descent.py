"""The benchmark of the descent, on a few rows."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks import descent
from benchmarks.descent import (
    compare_with_enumeration,
    enumerate_hypotheses,
    find_reference,
    make_task,
    measure_descent,
    polish,
)
from sklearn.datasets import load_digits

from ddlearn.coding.discriminative import LABEL_CODINGS
from ddlearn.model.losses import LOSSES


@pytest.fixture(scope="module")
def images():
    X, y = load_digits(return_X_y=True)
    return X[:120] / np.linalg.norm(X[:120], axis=1, keepdims=True), y[:120]


@pytest.fixture
def only_digits(images, monkeypatch):
    monkeypatch.setattr(descent, "load_images", lambda n_rows: (images[0][:n_rows], images[1][:n_rows]))


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_polishing_never_returns_more_than_its_start(images, loss):
    task = make_task(*images, loss, 15, 2)
    start = task.pose(np.arange(120)).place(task.codes).objective
    for row in range(0, 120, 40):
        assert polish(task, row, task.codes.rows(np.array([row]))) <= start[row] * (1 + 1e-12)


def test_the_reference_is_no_more_than_any_start_polished(images):
    task, rows = make_task(*images, "logistic", 15, 2), np.array([3, 70])
    least = find_reference(task, rows, [task.codes], np.random.default_rng(0))
    assert all(
        value <= polish(task, row, task.codes.rows(np.array([row]))) for row, value in zip(rows, least, strict=True)
    )


@pytest.mark.parametrize("loss", ["square", "logistic"])
@pytest.mark.usefixtures("only_digits")
def test_shares_are_of_what_is_reachable(loss):
    name, budget, *cells = measure_descent(loss, 2, 15, 120, 4)
    assert (name, budget) == (loss, "2")
    assert len(cells) == len(LABEL_CODINGS)
    assert all(0 <= float(cell.split(",")[0]) <= 1.01 for cell in cells)
    assert float(cells[0].split(",")[0]) > 0.5


def test_enumeration_is_below_the_descent(images):
    X, _ = images
    task = make_task(*images, "logistic", 12, 2)
    least = enumerate_hypotheses(task.coder, X[:3], np.full(3, 0.01))
    assert least.shape == (3, len(task.coder.model.coef))
    labels = 2 * np.eye(len(least[0])) - 1
    for row, x in enumerate(X[:3]):
        _, record = task.coder.encode(np.tile(x, (len(labels), 1)), labels, np.full(len(labels), 0.01))
        assert (record.objective_after >= least[row] * (1 - 1e-8)).all()


def test_the_full_rule_is_compared_with_enumeration():
    found = compare_with_enumeration("square", "descent", n_samples=3)
    assert abs(found.gap) <= 0.05
    assert found.agreement == 1
    assert 0 <= found.unmoved <= 0.1
