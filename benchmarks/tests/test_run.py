"""A run from end to end, on tiny problems."""

from __future__ import annotations

import json
import os
import sys

import pytest
from benchmarks.contenders import CONTENDERS
from benchmarks.problems import DATA_VARIABLE, QUICK_SIZES
from benchmarks.run import main
from benchmarks.targets import TARGETS


@pytest.mark.parametrize(
    "contenders",
    [["net"], pytest.param(["product", "omp", "omp_given", "dsc_step_given", "net"], marks=pytest.mark.nightly)],
    ids=len,
)
def test_a_quick_run_writes_what_the_tables_show(tmp_path, monkeypatch, capsys, contenders):
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))  # of the processes it starts
    main(["--quick", "--results", str(tmp_path), "--contenders", *contenders])
    shown = capsys.readouterr().out
    report = json.loads((tmp_path / "coding.json").read_text())
    assert report["data"] == "synthetic"
    assert {"cpu", "cores", "versions", "date", "commit"} <= set(report["machine"])
    assert report["skipped"] == {}
    assert report["failures"] == []
    assert [(row["size"], row["contender"]) for row in report["measurements"]] == [
        *(("quick-40-3", name) for name in contenders if name != "net"),
        *(("quick-40-net", name) for name in ("product", "net") if name in contenders),
    ]
    for row in report["measurements"]:
        assert row["seconds"] > 0
        assert row["others_cores"] is None or row["others_cores"] >= 0
        assert CONTENDERS[row["contender"]].label in shown
        if CONTENDERS[row["contender"]].makes_codes:
            assert 0 < row["grade"]["mean_squared_residual"] < 1
            assert (row["grade"]["largest_gap"] is None) == (QUICK_SIZES[row["size"]].penalty is None)
            assert row["grade"]["max_nonzeros"] <= QUICK_SIZES[row["size"]].n_nonzero_coefs
    assert {ratio["target"] for ratio in report["ratios"]} == {
        target.name for target in TARGETS if {target.numerator, target.denominator} <= set(contenders)
    }
    assert set(report["first_calls"]["float64"]) == {"import_seconds", "predict_seconds", "call_seconds"}
