"""The page of performance is made from results, slower rows first."""

from __future__ import annotations

import json

import pytest
from benchmarks.page import PAGE, PARTS, STAGES, find_slower, write_page

MACHINE = {
    "cpu": "a cpu",
    "cores": 2,
    "date": "2026-01-01T00:00:00",
    "commit": "0123456789abcdef",
    "has_uncommitted_changes": False,
    "python": "3.13.0",
    "versions": {"ddlearn": "0", "numpy": "2.0"},
    "minutes": 2.0,
    "others_cores": 0.1,
    "is_full": False,
}


def _cell(problem, ratio):
    pair = {"ours": 1.0, "spams": 2.0}
    return {
        "problem": problem,
        "dtype": "float64",
        "ratio": ratio,
        "ratio_to_unsolved": 2.0,
        **dict.fromkeys(("microseconds", "gap", "nonzeros"), pair),
    }


@pytest.fixture
def results():
    times = {"import_seconds": 1.0, "predict_seconds": 0.1, "call_seconds": 0.2}
    verdict = {
        "target": "ddlearn ORMP faster than spams.omp",
        "size": "usps-300-3",
        "dtype": "float64",
        "ratio": 0.8,
        "bound": 2.5,
        "verdict": "missed",
        "is_speedup": True,
        "others_cores": None,
    }
    epoch = {"what": "usps, K=300", "distorts": True, "wanted": 10, "seconds": 1.0, "ratio": 9.0, "parts": {"a": 1.0}}
    fit = {"what": "usps, default", "wanted": None, "fit_over_svc": 3.5, "predict_faster_than_svc": 2.0}
    latency = {
        "pursuit": {"predict": 50.0, "product_and_kernel": 30.0},
        "elastic_net": {"one": 3.0, "one_in_batch": 1.0, "one_in_batch_with_views": 5.0},
    }
    names = ("product", "ddlearn (square)", "ddlearn (logistic)", "D-KSVD (dictlearn)")
    iterations = {name: {"iteration": float(1 + position)} for position, name in enumerate(names)}
    return {
        "stages": dict.fromkeys(STAGES, MACHINE),
        "coding": {"ratios": [verdict], "first_calls": {"float64": times}},
        "elastic_net": [_cell("fast", 3.0), _cell("slow", 0.5), _cell("unsolved", None)],
        "refinement": {"epochs": [epoch], "fits": [fit | {"error": 0.04, "svc_error": 0.05}]},
        "latency": {"float64": latency},
        "fit": {"sizes": {"usps-300-3": iterations | {"memory": {"memory": 0.1, "data_bytes": 1e6}}}},
    }


def test_all_markers_of_the_page_are_filled(tmp_path, results):
    for name, content in results.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    page = tmp_path / "performance.md"
    page.write_text(PAGE.read_text())
    write_page(page, tmp_path)
    filled = page.read_text()
    for word in ("commit 0123456789", "<= 10 met", "<= 2 missed", "a cpu", "3.5", "4.00 %"):
        assert word in filled
    assert filled.count("<!-- measured: end -->") == len(PARTS)
    assert filled.index("| slow") < filled.index("| fast")


def test_slower_rows_name_the_peer(results):
    slower = {(what, peer): ratio for ratio, what, peer in find_slower(results) if ratio > 1}
    assert slower == {
        ("code: slow, float64", "spams.lasso, same gap"): 2.0,
        ("code: usps-300-3, float64", "spams.omp"): 1.25,
        ("fit: usps, default", "SVC(C=10)"): 3.5,
    }
