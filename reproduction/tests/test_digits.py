"""Digits out of place, on synthetic images."""

from __future__ import annotations

import numpy as np
import pytest
from reproduction.cells import Runner
from reproduction.digits import DIGIT_SETTINGS, run_alignment


def test_digits_share_fits_and_their_table_holds_what_the_cells_hold(tmp_path, calls):
    pytest.importorskip("matplotlib", reason="draws a figure")
    records = run_alignment(Runner(tmp_path), seeds=(0, 1))
    fits = [(call["random_state"], call.get("align_training", False)) for what, call in calls if what == "fit"]
    assert fits == [(0, False), (0, True), (1, False), (1, True)]
    defaults = {"inference": "fast", "alignment": None, "align_training": False}
    predictions = [defaults | call for what, call in calls if what == "predict"]
    for record, call in zip(records, predictions, strict=True):
        assert {name: record["parameters"][name] for name in defaults} == {name: call[name] for name in defaults}
    markdown = (tmp_path / "alignment.md").read_text()
    for first, second in zip(records[:9], records[9:], strict=True):
        errors = [100 * (1 - record["result"]["accuracy"]) for record in (first, second)]
        assert f"{np.mean(errors):.2f} ± {np.std(errors):.2f}" in markdown
    assert (tmp_path / "alignment.png").read_bytes().startswith(b"\x89PNG")
    n_calls = len(calls)
    assert run_alignment(Runner(tmp_path), seeds=(0, 1)) == records
    assert len(calls) == n_calls


def test_the_real_classifier_aligns(tmp_path, synthetic, no_figures):
    assert len(run_alignment(Runner(tmp_path), seeds=(0,))) == len(DIGIT_SETTINGS)
