"""The benchmarks are code too: problems, grader, targets, the cost model and its page, and runs from end to end."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

from ddlearn import ElasticNet, sparse_encode

ROOT = Path(__file__).parents[2]

from benchmarks.contenders import CONTENDERS, Contender  # noqa: E402
from benchmarks.cost_model import TEN_GIGABITS, CostModel, Line, find_limit, fit_costs, project  # noqa: E402
from benchmarks.problems import QUICK_SIZES, SIZES, Problem, grade, make_problem  # noqa: E402
from benchmarks.scaling_cells import cut_evenly, make_chunk  # noqa: E402
from benchmarks.scaling_page import BEGIN, END, put_between_markers  # noqa: E402
from benchmarks.targets import TARGETS, Cell, judge  # noqa: E402
from benchmarks.traffic import Message, Traffic  # noqa: E402

NEED_NO_PEERS = ["product", "omp", "omp_given", "dsc_step_given", "net"]


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


@pytest.mark.parametrize(
    ("our_gap", "verdict"), [(1e-7, "met"), (9e-6, "met"), (2e-5, "solves less")], ids=["smaller", "small", "larger"]
)
def test_with_a_penalty_the_gap_says_who_solves_less(our_gap, verdict):
    measurements = {
        Cell("usps-300-net", "float64", 2, name): {
            "seconds": seconds,
            "grade": {"mean_squared_residual": 0.1, "largest_gap": gap},
            "others_cores": None,
        }
        for name, seconds, gap in (("net", 1.0, our_gap), ("spams_lasso", 1.6, 1e-6))
    }
    (found,) = judge(measurements)
    assert found.verdict == verdict


def test_the_gap_is_zero_at_the_minimum_and_bounds_the_excess():
    problem = make_problem("quick-40-net")
    lasso, ridge = problem.penalty
    coder = ElasticNet(lasso + ridge, l1_ratio=lasso / (lasso + ridge), tol=1e-13)
    codes = sparse_encode(problem.X, problem.dictionary, method=coder)
    assert grade(problem, codes).largest_gap == pytest.approx(0, abs=1e-12)

    def cost(x):
        residual = problem.X - x @ problem.dictionary
        return np.sum(residual**2, axis=1) / 2 + lasso * np.abs(x).sum(axis=1) + ridge / 2 * np.sum(x**2, axis=1)

    worse = 1.1 * codes.toarray()
    assert grade(problem, csr_array(worse)).largest_gap >= np.max(2 * (cost(worse) - cost(codes.toarray()))) > 1e-4


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
    assert [(row["size"], row["contender"]) for row in report["measurements"]] == [
        *(("quick-40-3", name) for name in NEED_NO_PEERS if name != "net"),
        *(("quick-40-net", name) for name in ("product", "net")),
    ]
    for row in report["measurements"]:
        assert row["seconds"] > 0
        assert row["others_cores"] is None or row["others_cores"] >= 0
        assert CONTENDERS[row["contender"]].label in finished.stdout
        if CONTENDERS[row["contender"]].makes_codes:
            assert 0 < row["grade"]["mean_squared_residual"] < 1
            assert (row["grade"]["largest_gap"] is None) == (QUICK_SIZES[row["size"]].penalty is None)
            assert row["grade"]["max_nonzeros"] <= QUICK_SIZES[row["size"]].n_nonzero_coefs
    assert {ratio["target"] for ratio in report["ratios"]} == {
        target.name for target in TARGETS if {target.numerator, target.denominator} <= set(NEED_NO_PEERS)
    }
    assert set(report["first_calls"]["float64"]) == {"import_seconds", "call_seconds"}


# -- scaling -----------------------------------------------------------------------------------------------------------

PLANTED = CostModel(
    seconds_per_row=4e-6,
    worker_seconds_per_part=0.02,
    scheduler_seconds=Line(0.05, 0.008),
    client_seconds=Line(0.03, 0.002),
    broadcast_bytes=6e4,
    summand_bytes=2e5,
    scheduler_bytes=Line(6e5, 2e4),
    scheduler_memory=Line(1e6, 1e5),
)


def _cost(n_rows, n_workers, n_parts, n_iterations):
    """What a cell of the planted model would measure."""
    model = PLANTED
    return {
        "n_rows": n_rows,
        "n_workers": n_workers,
        "n_parts": n_parts,
        "cpu_seconds": {
            "worker": model.seconds_per_row * n_rows + model.worker_seconds_per_part * n_parts,
            "scheduler": model.scheduler_seconds.at(n_parts),
            "client": model.client_seconds.at(n_parts),
        },
        "n_bytes": {
            "client to scheduler": model.broadcast_bytes + 1e3 * n_parts,
            "worker to scheduler": model.summand_bytes + 5e3 * n_parts,
            "scheduler to client": 3.4e5 + 1.4e4 * n_parts,
            "worker to worker": 1e5 * n_parts,
        },
        "scheduler_memory_bytes": n_iterations * model.scheduler_memory.at(n_parts),
    }


def test_the_cost_model_finds_planted_costs():
    cells = [_cost(*cell, n_iterations=5) for cell in [(10_000, 1, 2), (10**6, 2, 16), (10**5, 2, 2), (10**5, 2, 64)]]
    found = fit_costs(cells, n_iterations=5)
    np.testing.assert_allclose(np.hstack(list(found)), np.hstack(list(PLANTED)), rtol=1e-6)


def test_workers_share_rows_and_parts_and_nothing_else():
    alone, many = (project(PLANTED, 10**9, n_workers, 62_500) for n_workers in (1, 100))
    assert alone.total == pytest.approx(sum(alone))
    assert alone.rows == pytest.approx(4000)
    assert (many.rows, many.parts) == pytest.approx((alone.rows / 100, alone.parts / 100))
    assert (many.scheduler, many.client, many.wire) == (alone.scheduler, alone.client, alone.wire)
    assert many.broadcast == pytest.approx(100 * alone.broadcast)
    assert alone.reduction == 0  # nothing has to leave the only worker
    # 160 parts of each worker, and five levels of eight above them.
    assert many.reduction == pytest.approx((160 + 5 * 8) * PLANTED.summand_bytes / TEN_GIGABITS)


def test_scaling_ends_where_workers_wait_as_long_as_they_work():
    limit = find_limit(PLANTED, 10**9, 62_500)
    seconds = project(PLANTED, 10**9, limit, 62_500)
    assert seconds.rows + seconds.parts == pytest.approx(seconds.total / 2, rel=0.1)
    # Larger parts, fewer tasks: the scheduler is asked less often.
    assert find_limit(PLANTED, 10**9, 1_000_000) > 5 * limit


def test_more_workers_than_parts_do_not_help():
    assert project(PLANTED, 1000, 50, 100).rows == project(PLANTED, 1000, 10, 100).rows


@pytest.mark.parametrize(
    ("n_rows", "n_workers", "chunk_rows"), [(10_000, 2, 65536), (10**6, 2, 65536), (999, 3, 256), (40_000, 2, 1681)]
)
def test_every_worker_gets_as_many_chunks_of_whole_tiles(n_rows, n_workers, chunk_rows):
    sizes = cut_evenly(n_rows, n_workers, chunk_rows)
    assert sum(sizes) == n_rows
    assert max(sizes) <= chunk_rows
    assert len(sizes) % n_workers <= 1  # the last chunk may be used up by rounding to tiles
    assert all(size % 256 == 0 for size in sizes[:-1])


def test_chunks_are_planted_and_differ():
    X, y = make_chunk(0, 2000)
    again, other = make_chunk(0, 2000), make_chunk(1, 2000)
    assert np.array_equal(X, again[0])
    assert not np.array_equal(X, other[0])
    assert X.dtype == np.float32
    assert set(y) == set(range(10))


def test_bytes_are_counted_by_their_sender_and_heartbeats_are_not():
    def say(moment, cpu, sender, receiver, n_bytes, n_finished=0, is_idle_talk=False):
        return Message(moment, cpu, sender, receiver, n_bytes, n_finished, is_idle_talk)

    traffic = Traffic(
        {
            ("client", ""): [say(0, 0, "port 1", "scheduler", 7), say(2, 1, "port 1", "scheduler", 100)],
            ("scheduler", "scheduler"): [say(3, 0.5, "scheduler", "port 1", 10), say(3, 0.5, "scheduler", "one", 20)],
            ("worker", "one"): [
                say(1, 1, "port 2", "scheduler", 40, n_finished=3),
                say(1.5, 2, "port 2", "scheduler", 10**6, is_idle_talk=True),
                say(5, 9, "port 2", "scheduler", 10**6),  # too late
            ],
            ("worker", "two"): [say(2, 4, "port 3", "one", 80), say(4, 8, "port 3", "port 2", 80)],
        }
    )
    found = traffic.look_at(1, 5)
    assert found.n_bytes == {
        "client to scheduler": 100,
        "scheduler to client": 10,
        "scheduler to worker": 20,
        "worker to scheduler": 40,
        "worker to worker": 160,
    }
    assert found.n_tasks == 3
    assert found.cpu_seconds["client"] == pytest.approx(0.5)  # half of its time was before
    assert found.cpu_seconds["worker"] == pytest.approx(8 + 4)


def test_tables_go_between_the_markers_of_a_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    for _ in range(2):
        put_between_markers(page, r"new \1")
        assert page.read_text() == f"before\n{BEGIN}\n\nnew \\1\n{END}\nafter\n"
    page.write_text("no place")
    with pytest.raises(ValueError, match="must hold the lines"):
        put_between_markers(page, "new")


@pytest.mark.nightly  # six clusters, one after another
def test_scaling_is_measured_once_and_told(tmp_path):
    pytest.importorskip("distributed")
    page = tmp_path / "page.md"
    page.write_text(f"{BEGIN}\n{END}\n")
    options = ["--sizes", "2000", "4000", "--workers", "1", "2", "--parts", "8"]
    command = [sys.executable, "-m", "benchmarks.scaling", "--results", str(tmp_path), "--page", str(page), *options]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    environment.pop("DDLEARN_DATA", None)
    written = []
    for _ in range(2):
        subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True, timeout=600)
        written.append({path: path.stat().st_mtime_ns for path in tmp_path.glob("*.json")})
    assert written[0] == written[1]
    cells = [json.loads(path.read_text()) for path in written[0]]
    assert len(cells) == 2 * 2 * 2 + 1
    # The same parts, twice the rows: the same bytes, but for what counters and times in messages differ by.
    first, second = (
        cell["result"]["n_bytes"]
        for n_rows in (2000, 4000)
        for cell in cells
        if cell["parameters"] == {"kind": "workers", "n_rows": n_rows, "n_workers": 2}
    )
    for way in ("client to scheduler", "scheduler to client", "worker to worker"):
        assert second[way] == pytest.approx(first[way], rel=0.05)
    assert "2,000" in page.read_text()
    assert (tmp_path / "images" / "scaling.svg").exists()
