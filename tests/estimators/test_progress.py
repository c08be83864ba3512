"""What verbose shows: the stages of a fit with their numbers, by lines or by bars, and nothing else changes."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest
from conftest import make_pursuit, make_refiner, make_stream
from modes import draw_samples

from ddlearn import DDLClassifier

REFINED = {"n_components": 9, "sparse_coder": "ormp", "n_nonzero_coefs": 2, "max_iter": 2, "tol": 0.0}


def test_lines_tell_every_stage(capsys):
    X, y = draw_samples()
    refiner = make_refiner(3, validation_fraction=0.2, linear_decay=None)
    model = DDLClassifier(**REFINED, refine=refiner, random_state=0, verbose=1).fit(X, y)
    lines = capsys.readouterr().err.splitlines()
    assert all(line.startswith("[ddlearn] ") for line in lines)
    lines = [line.removeprefix("[ddlearn] ") for line in lines]
    assert lines[0] == "choosing settings ..."
    errors = model.search_["error"]
    assert lines[1] == f"choosing settings: {len(errors)} tried, held-out error {min(errors):.2%}"
    objectives = [f"{record.objective:,.0f}" for record in model.history_[1:]]
    assert [re.match(r"fitting (./2): objective (\S+), error", line).groups() for line in lines[2:4]] == [
        ("1/2", objectives[0]),
        ("2/2", objectives[1]),
    ]
    last = model.refinement_[-1]
    assert lines[-1] == f"refining 3/3: cost {last.training_cost:.3g}, held-out error {last.validation_error:.2%}"
    assert "s left" in lines[-2]


def test_progress_changes_nothing_and_is_silent_by_default(capsys):
    X, y = draw_samples()
    silent = make_pursuit(9, max_iter=2, random_state=0).fit(X, y)
    assert capsys.readouterr().err == ""
    shown = make_pursuit(9, max_iter=2, random_state=0, verbose=1).fit(X, y)
    assert "fitting 2/2" in capsys.readouterr().err
    np.testing.assert_array_equal(shown.components_, silent.components_)


def test_batches_are_told(capsys):
    X, y = draw_samples()
    model = make_stream(9, random_state=0, verbose=1).partial_fit(X[:60], y[:60], classes=[0, 1, 2])
    error = model.history_[-1].label_free_error
    told = capsys.readouterr().err
    assert told.startswith("[ddlearn] 60 samples: objective ")
    assert f"error {error:.2%} before the last batch" in told


@pytest.mark.parametrize("has_rich", [True, False])
def test_bars_need_rich_and_a_terminal(capsys, monkeypatch, has_rich):
    X, y = draw_samples()
    monkeypatch.setenv("FORCE_COLOR", "1")  # a terminal, for rich
    monkeypatch.setenv("COLUMNS", "120")
    if not has_rich:
        monkeypatch.setitem(sys.modules, "rich.console", None)
        monkeypatch.setitem(sys.modules, "rich.progress", None)
    make_pursuit(9, max_iter=2, random_state=0, verbose=1).fit(X, y)
    shown = capsys.readouterr().err
    assert ("━" in shown) == has_rich
    assert "[ddlearn]" not in shown if has_rich else "[ddlearn] fitting 2/2" in shown
