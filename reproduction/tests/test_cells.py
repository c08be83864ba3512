"""Cells are measured once, whatever interrupts the run, by one process or several."""

from __future__ import annotations

import json
import logging
import time
from functools import partial

import pytest
from reproduction import cells
from reproduction.cells import Cell, run_cells


def make_cells(values, measured):
    """Return cells whose result is their value; `measured` gets the values that were really measured."""

    def make(value):
        def measure():
            if value == "kill":
                raise KeyboardInterrupt
            measured.append(value)
            return {"value": value}

        return Cell(f"cell-{value}", {"value": value}, measure)

    return [make(value) for value in values]


def test_a_second_run_measures_nothing(tmp_path):
    measured = []
    first = run_cells(make_cells([1, 2, 3], measured), tmp_path)
    assert run_cells(make_cells([1, 2, 3], measured), tmp_path) == first
    assert measured == [1, 2, 3]
    assert [record["result"]["value"] for record in first] == [1, 2, 3]
    assert first[0].keys() >= {"parameters", "seconds", "versions", "measured"}


def test_a_killed_run_keeps_all_that_was_finished(tmp_path):
    measured = []
    with pytest.raises(KeyboardInterrupt):
        run_cells(make_cells([1, 2, "kill", 3], measured), tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
    run_cells(make_cells([1, 2, 3], measured), tmp_path)
    assert measured == [1, 2, 3]


def test_a_run_killed_while_it_writes_leaves_no_half_cell(tmp_path, monkeypatch):
    def fail(source, target):
        raise KeyboardInterrupt

    measured = []
    with monkeypatch.context() as patch:
        patch.setattr("ddlearn.files.store.os.replace", fail)
        with pytest.raises(KeyboardInterrupt):
            run_cells(make_cells([1], measured), tmp_path)
    assert run_cells(make_cells([1], measured), tmp_path)[0]["result"] == {"value": 1}
    assert measured == [1, 1]


def test_other_parameters_are_measured_again_and_old_ones_are_kept(tmp_path):
    measured = []
    cell = make_cells([1], measured)[0]
    changed = cell._replace(parameters={"value": 1, "tol": 0.1})
    for each in (cell, changed, cell, changed):
        run_cells([each], tmp_path)
    assert measured == [1, 1]


def test_progress_tells_the_time_left(tmp_path, caplog):
    caplog.set_level(logging.INFO, "reproduction")
    run_cells(make_cells([1, 2], []), tmp_path)
    lines = caplog.messages
    assert len(lines) == 2
    assert lines[0].startswith("[1/2] cell-1: ")
    assert "min left" in lines[0]


def measure_square(log, folder, value):
    """Note that a cell is measured; "bad" fails the first time, when all others have been."""
    log.mkdir(exist_ok=True)
    n_before = len(list(log.glob(f"{value}-*")))
    (log / f"{value}-{n_before}").touch()
    if value == "bad" and n_before == 0:
        for _ in range(200):
            if len(list(folder.glob("cell-*.json"))) == 3:
                raise ValueError("once")
            time.sleep(0.05)
    return {"value": value, "nested": {"twice": 2 * value}}


def make_picklable_cells(values, tmp_path):
    """Return cells that other processes can measure; the longer a value's name, the sooner it is over."""
    return [
        Cell(
            f"cell-{value}",
            {"value": value},
            partial(measure_square, tmp_path / "log", tmp_path / "cells", value),
            1 / len(str(value)),
        )
        for value in values
    ]


def run_picklable_cells(values, tmp_path, n_processes):
    """Run the cells, and return their records and how often each value was measured so far."""
    records = run_cells(make_picklable_cells(values, tmp_path), tmp_path / "cells", n_processes=n_processes)
    measured = sorted(path.name.split("-")[0] for path in (tmp_path / "log").iterdir())
    return records, measured


def test_cells_measured_by_two_processes_are_those_of_one(tmp_path):
    values = [1, 22, 333, 1]  # one of them twice
    found = []
    for n_processes in (1, 2):
        folder = tmp_path / str(n_processes)
        folder.mkdir()
        records, measured = run_picklable_cells(values, folder, n_processes)
        assert measured == ["1", "22", "333"]
        assert [record["result"]["value"] for record in records] == values
        files = sorted((folder / "cells").iterdir())
        assert [path.suffix for path in files] == [".json"] * 3  # no half a file beside them
        assert [json.loads(path.read_text()) for path in files] == records[:3]
        found.append([{k: v for k, v in record.items() if k not in ("seconds", "measured")} for record in records])
        assert run_picklable_cells(values, folder, n_processes) == (records, measured)
    assert found[0] == found[1]


@pytest.mark.parametrize("n_processes", [1, 2])
def test_a_run_that_failed_goes_on_with_what_is_left(tmp_path, n_processes):
    values = [1, 2, 3, "bad"]
    with pytest.raises(ValueError, match="once"):
        run_picklable_cells(values, tmp_path, n_processes)
    records, measured = run_picklable_cells(values, tmp_path, n_processes)
    assert [record["result"]["value"] for record in records] == values
    assert measured == ["1", "2", "3", "bad", "bad"]


def test_long_cells_are_begun_first_where_there_are_several_processes(tmp_path, monkeypatch):
    begun = []

    def map_in_order(work, items, *, n_processes):
        begun.append([cell.parameters["value"] for cell in items])
        assert n_processes == 4
        return ((position, work(item)) for position, item in enumerate(items))

    monkeypatch.setattr(cells, "map_processes", map_in_order)
    records, _ = run_picklable_cells([333, 1, 22], tmp_path, 4)
    assert begun == [[1, 22, 333]]
    assert [record["result"]["value"] for record in records] == [333, 1, 22]
