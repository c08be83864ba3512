"""The command ``python -m reproduction``: options, progress, and errors in one line."""

from __future__ import annotations

import json
import logging

import pytest
from reproduction import __main__ as command
from reproduction import experiments
from reproduction.experiments import RUNS

pytest.importorskip("matplotlib", reason="draws figures")


@pytest.fixture(autouse=True)
def keep_logging(monkeypatch):
    """Leave the loggers as they were."""
    monkeypatch.setattr(logging, "basicConfig", lambda **options: None)
    level = logging.getLogger("reproduction").level
    yield
    logging.getLogger("reproduction").setLevel(level)


def test_tables_are_written_and_progress_is_shown(tmp_path, capsys, caplog):
    assert command.main(["losses", "-o", str(tmp_path), "--jobs", "1"]) == 0
    assert capsys.readouterr().out == f"4 cells, 0.0 minutes of work; see {tmp_path}.\n"
    assert caplog.messages[-1].startswith("[4/4] losses-smooth-hinge: ")
    assert "min left" in caplog.messages[-1]
    assert (tmp_path / "losses.md").read_text().startswith("# ")


def test_a_quick_run_of_some_parts_has_a_folder_of_its_own(tmp_path, capsys):
    options = ["--quick", "--jobs", "1", "--only", "digits:knn", "--only", "digits:ddl"]
    assert command.main(["beyond", "-o", str(tmp_path), *options]) == 0
    assert capsys.readouterr().out.startswith("2 cells, ")
    records = json.loads((tmp_path / "quick" / "beyond.json").read_text())
    assert [record["parameters"]["method"] for record in records] == ["ddl", "knn"]


def test_an_error_is_one_line_unless_its_origin_is_wanted(tmp_path, capsys):
    arguments = ["losses", "-o", str(tmp_path), "--only", "usps"]
    assert command.main(arguments) == 1
    assert capsys.readouterr().err == "Error: 'losses' has no parts to be run alone; those that have: beyond.\n"
    with pytest.raises(ValueError, match="has no parts"):
        command.main([*arguments, "--debug"])
    assert not list(tmp_path.iterdir())


def test_an_interrupted_run_says_how_to_go_on(tmp_path, capsys, monkeypatch):
    def interrupt(runner):
        raise KeyboardInterrupt

    monkeypatch.setitem(experiments.RUNS, "losses", interrupt)
    assert command.main(["losses", "-o", str(tmp_path)]) == 130
    assert "the same command goes on" in capsys.readouterr().err


def test_the_command_offers_every_experiment(capsys):
    with pytest.raises(SystemExit):
        command.main(["everything"])
    message = capsys.readouterr().err
    assert all(repr(name) in message for name in (*RUNS, "all"))
