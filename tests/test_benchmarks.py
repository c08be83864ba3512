"""The benchmark is code too: its problems, its grader, its targets, and one run from end to end."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # benchmarks are part of the checkout, not of the installed package

from benchmarks.contenders import CONTENDERS, Contender  # noqa: E402
from benchmarks.problems import QUICK_SIZES, SIZES, Problem, grade, make_problem  # noqa: E402
from benchmarks.targets import TARGETS, Cell, judge  # noqa: E402

NEED_NO_PEERS = ["product", "omp", "omp_given", "dsc_step_given"]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_grader_agrees_with_a_dense_computation(dtype):
    rng = np.random.default_rng(0)
    codes = csr_array(random_array((5000, 7), density=0.3, rng=rng, dtype=np.float64))
    codes.data[::5] = 0  # a stored zero is no nonzero
    X, dictionary = rng.standard_normal((5000, 4)).astype(dtype), rng.standard_normal((7, 4)).astype(dtype)
    found = grade(Problem(X, dictionary, 7), codes)
    dense = codes.toarray()
    residual = X.astype(np.float64) - dense @ dictionary.astype(np.float64)
    assert found.mean_squared_residual == pytest.approx(np.mean(np.sum(residual**2, axis=1)), rel=1e-12)
    assert found.mean_nonzeros == pytest.approx(np.mean(np.count_nonzero(dense, axis=1)))
    assert found.max_nonzeros == np.count_nonzero(dense, axis=1).max()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", ["usps-300-3", "yale-600-5", *QUICK_SIZES])
def test_synthetic_problems_have_the_stated_shapes_and_unit_rows(name, dtype):
    size = (SIZES | QUICK_SIZES)[name]
    problem = make_problem(name, dtype)
    assert problem.X.shape == (size.n_samples, size.n_features)
    assert problem.dictionary.shape == (size.n_components, size.n_features)
    assert problem.n_nonzero_coefs == size.n_nonzero_coefs
    for rows in (problem.X, problem.dictionary):
        assert rows.dtype == dtype
        assert rows.flags.c_contiguous
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-5)
    assert (problem.X >= 0).all()


def test_a_problem_is_the_same_every_time():
    first, second = make_problem("quick-40-3"), make_problem("quick-40-3")
    assert np.array_equal(first.X, second.X)
    assert np.array_equal(first.dictionary, second.dictionary)


def test_a_missing_peer_says_so():
    absent = Contender("somebody", prepare=None, needs="a_package_that_nobody_has")
    assert "a_package_that_nobody_has is not installed" in absent.why_not()


def test_targets_name_contenders():
    assert {name for target in TARGETS for name in (target.numerator, target.denominator)} <= set(CONTENDERS)


@pytest.mark.parametrize(
    ("spams_seconds", "our_residual", "verdict"),
    [(2.5, 0.1, "met"), (2.4, 0.1, "missed"), (9.0, 0.2, "solves less")],
)
def test_a_target_is_met_only_by_the_same_work_in_less_time(spams_seconds, our_residual, verdict):
    measurements = {
        Cell("usps-300-3", "float64", 2, "ormp"): _measured(1.0, our_residual),
        Cell("usps-300-3", "float64", 2, "spams"): _measured(spams_seconds, 0.1),
        Cell("usps-300-3", "float64", 1, "spams"): _measured(99.0, 0.1),  # targets are for two threads
    }
    (found,) = judge(measurements)
    assert found.verdict == verdict
    assert found.ratio == spams_seconds


def _measured(seconds, residual):
    return {"seconds": seconds, "grade": {"mean_squared_residual": residual}, "others_cores": None}


def test_a_quick_run_writes_what_the_tables_show(tmp_path):
    command = [sys.executable, "-m", "benchmarks.run", "--quick", "--results", str(tmp_path), "--contenders"]
    finished = subprocess.run(
        [*command, *NEED_NO_PEERS],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    report = json.loads((tmp_path / "coding.json").read_text())
    assert report["data"] == "synthetic"
    assert {"cpu", "cores", "versions", "date", "commit"} <= set(report["machine"])
    assert report["skipped"] == {}
    assert report["failures"] == []
    assert [row["contender"] for row in report["measurements"]] == NEED_NO_PEERS
    for row in report["measurements"]:
        assert row["seconds"] > 0
        assert row["others_cores"] is None or row["others_cores"] >= 0
        assert CONTENDERS[row["contender"]].label in finished.stdout
        if CONTENDERS[row["contender"]].makes_codes:
            assert 0 < row["grade"]["mean_squared_residual"] < 1
            assert row["grade"]["max_nonzeros"] <= QUICK_SIZES[row["size"]].n_nonzero_coefs
    assert {ratio["target"] for ratio in report["ratios"]} == {
        target.name for target in TARGETS if {target.numerator, target.denominator} <= set(NEED_NO_PEERS)
    }
    assert set(report["first_calls"]["float64"]) == {"import_seconds", "call_seconds"}
