"""Tables go into a page between its markers."""

from __future__ import annotations

import pytest
from benchmarks.scaling_page import BEGIN, END, put_between_markers


def test_tables_go_between_the_markers_of_a_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    for _ in range(2):
        put_between_markers(page, r"new \1")
        assert page.read_text() == f"before\n{BEGIN}\n\nnew \\1\n{END}\nafter\n"
    page.write_text("no place")
    with pytest.raises(ValueError, match="must hold the lines"):
        put_between_markers(page, "new")
