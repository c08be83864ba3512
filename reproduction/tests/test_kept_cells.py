"""Cells that were measured long ago: their records are in the documentation, and no experiment measures them again."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from reproduction import cells, claims, parameters
from reproduction.cells import Cell, Runner
from reproduction.experiments import FULL, PAPER_RUNS, RUNS

DOCS = Path(__file__).parents[2] / "docs" / "archive" / "reproduction"


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A folder with the cells whose records are in the documentation."""
    folder = tmp_path_factory.mktemp("kept")
    (folder / "cells").mkdir()
    for path in DOCS.glob("*.json"):
        for record in json.loads(path.read_text()):
            cell = Cell(record["name"], record["parameters"], dict)
            cells._cell_path(cell, folder / "cells").write_text(json.dumps(record))
    return folder


def list_kept_peers():
    """Return the settings that cross-validation chose for the peers on faces; the cells of that search are not kept."""
    records = json.loads((DOCS / "yaleb.json").read_text())
    settings = {record["parameters"]["method"]: record["parameters"]["settings"] for record in records}
    return {method: [chosen] for method, chosen in settings.items() if "loss" not in chosen}


# (Not what goes beyond the paper: it was measured before refined classifiers got a linear part.)
@pytest.mark.parametrize("name", PAPER_RUNS)
def test_kept_cells_are_known_again_and_give_the_published_tables(kept, name, measure_nothing, no_figures, monkeypatch):
    monkeypatch.setattr(claims, "load_rows", lambda *_: SimpleNamespace(y_train=range(7291)))  # USPS needs a file
    monkeypatch.setattr(parameters, "_draw_dictionary", lambda *_: None)  # its atoms are not kept
    details = {"yaleb": {"peers": list_kept_peers()}}
    RUNS[name](Runner(kept), **FULL[name] | details.get(name, {}))
    for ending in ("md", "csv"):
        assert (kept / f"{name}.{ending}").read_bytes() == (DOCS / f"{name}.{ending}").read_bytes()
