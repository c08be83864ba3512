"""The table of errors: what is measured once is kept, and the summary is what it says."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.offline_sets import SETS
from benchmarks.out_of_the_box import (
    CONTENDERS,
    LINEAR,
    OURS,
    Summary,
    format_costs,
    format_linear,
    format_page,
    format_summary,
    measure_missing,
)


def make_results(ours: float, linear: float, others: float) -> dict:
    errors = dict.fromkeys(CONTENDERS, others) | {OURS: ours, LINEAR: linear}
    times = {"fit_seconds": 1.0, "predict_seconds": 0.1, "n_tested": 50, "bytes": 2_500_000}
    return {name: [{"error": error + shift} | times for shift in (-0.01, 0.01)] for name, error in errors.items()}


def test_results_are_measured_once():
    results: dict = {}
    measured = list(measure_missing(["iris"], [LINEAR], results))
    assert measured == [("iris", LINEAR)] * SETS["iris"].n_splits
    assert all(result["error"] < 0.2 for result in results["iris"][LINEAR])
    del results["iris"][LINEAR][3:]
    assert len(list(measure_missing(["iris"], [LINEAR], results))) == SETS["iris"].n_splits - 3
    assert not list(measure_missing(["iris"], [LINEAR], results))


def test_splits_are_the_same_each_time_and_share_no_sample():
    offline_set = SETS["blobs"]
    for one, two in zip(offline_set.split(), offline_set.split(), strict=True):
        assert all(np.array_equal(array, again) for array, again in zip(one, two, strict=True))
        assert len(one.y_train) == offline_set.n_train
        assert not set(map(tuple, one.X_train)) & set(map(tuple, one.X_test))


def test_sets_of_each_kind_are_on_both_sides():
    roles = {
        kind: {other.role for other in SETS.values() if other.kind == kind} for kind in ("table", "signal", "image")
    }
    assert all(of_kind - {"scaled"} == {"choose", "report"} for of_kind in roles.values())


def test_scaled_sets_are_the_others_split_alike():
    raw, scaled = (next(SETS[name].split()) for name in ("wine", "wine, scaled"))
    np.testing.assert_array_equal(raw.y_test, scaled.y_test)
    np.testing.assert_allclose(np.concatenate([scaled.X_train, scaled.X_test]).std(axis=0), 1)


def test_ratios_and_ranks_follow_from_the_errors():
    results = {"iris": make_results(0.02, 0.04, 0.08), "digits": make_results(0.10, 0.04, 0.08)}
    summary = Summary.of(results, ["iris", "digits", "wine"])
    assert summary.sets == ["iris", "digits"]
    np.testing.assert_allclose(summary.ratios_to_best_peer(), [0.025 / 0.045, 0.105 / 0.045])
    np.testing.assert_allclose(summary.ratios_to_linear(), [0.01 / 0.04, 0.09 / 0.04])
    ranks = summary.mean_ranks()
    assert ranks[summary.ours] == pytest.approx((1 + len(CONTENDERS)) / 2)
    assert ranks.sum() == pytest.approx(sum(range(1, len(CONTENDERS) + 1)))
    assert f"{np.sqrt(0.025 * 0.105) / 0.045:.3f}" in format_summary(results, "choose")


def test_costs_are_those_of_one_sample_and_one_model():
    table = format_costs({"iris": make_results(0.02, 0.04, 0.08)}, ["iris"])
    (row,) = [line for line in table.splitlines() if f"| {OURS} " in line]
    assert [cell.strip() for cell in row.split("|")][1:-1] == ["iris", OURS, "2.00", "1", "2", "2.5"]


def test_errors_on_linear_sets_are_compared_split_by_split():
    table = format_linear({"wine": make_results(0.06, 0.03, 0.08)})  # others have not been measured
    (row,) = [line for line in table.splitlines() if line.startswith("| wine")]
    cells = [cell.strip() for cell in row.split("|")][1:-1]
    assert cells == ["wine", "6.00 ± 1.00", "3.00 ± 1.00", "3.00 ± 0.00"]  # as far apart in both splits


def test_the_page_names_the_best_peer_of_each_set_to_report():
    page = format_page({"iris": make_results(0.02, 0.04, 0.08), "wine": make_results(0.06, 0.03, 0.08)})
    (row,) = [line for line in page.splitlines() if line.startswith("| wine")]
    cells = [cell.strip() for cell in row.split("|")][1:-1]
    assert cells == ["wine", "100", "6.0 ± 1.0", f"3.0, {LINEAR}", "3.0", f"{0.065 / 0.035:.2f}", "1.0"]
    assert not [line for line in page.splitlines() if line.startswith("| iris")]  # settings were chosen on it
