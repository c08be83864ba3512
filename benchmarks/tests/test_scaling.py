"""Description from end to end, on small clusters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.nightly  # eight clusters, one after another
def test_scaling_is_measured_once_and_told(tmp_path):
    pytest.importorskip("distributed")
    page = tmp_path / "page.md"
    page.write_text("<!-- measured: begin -->\n<!-- measured: end -->\n")
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
    assert len(cells) == 2 * 2 * 2 + 1 + 2
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
