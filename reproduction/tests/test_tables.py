"""Tables hold the results in three forms."""

from __future__ import annotations

import csv
import json

from reproduction.tables import write_tables


def test_nested_results_become_columns_with_dotted_names(tmp_path):
    result = {"error": 0.5, "test": {"fast": {"error": 0.25, "interval": [0.1, 0.4]}, "full": {"error": 0.125}}}
    result["objective"] = [3.0, 2.0, 1.0]
    record = {"name": "a", "parameters": {"settings": {"loss": "square"}}, "seconds": 1.5, "measured": "now"}
    write_tables(tmp_path, "both", "text", [record | {"result": result}, record | {"result": {"best": 3}}])
    with (tmp_path / "both.csv").open() as file:
        rows = list(csv.DictReader(file))
    common = {"name": "a", "settings.loss": "square", "seconds": "1.5", "measured": "now"}
    ends = {"test.fast.interval.low": "0.1", "test.fast.interval.high": "0.4"}
    assert rows == [
        common | {"error": "0.5", "test.fast.error": "0.25", "test.full.error": "0.125", "best": ""} | ends,
        common | {"error": "", "test.fast.error": "", "test.full.error": "", "best": "3"} | dict.fromkeys(ends, ""),
    ]
    kept = json.loads((tmp_path / "both.json").read_text())
    assert kept[0]["result"] == result  # lists are there
    assert (tmp_path / "both.md").read_text() == "text"
