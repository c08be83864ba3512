"""Tables go between the markers of a page, again and again."""

from __future__ import annotations

import pytest
from benchmarks.report import put_between_markers

END = "<!-- measured: end -->"


def test_only_the_text_after_the_named_marker_is_replaced(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n<!-- measured: one -->\nold\n{END}\nbetween\n<!-- measured: two -->\nkept\n{END}\n")
    for _ in range(2):
        put_between_markers(page, r"new \1", "one")
        assert page.read_text() == (
            f"before\n<!-- measured: one -->\n\nnew \\1\n\n{END}\nbetween\n<!-- measured: two -->\nkept\n{END}\n"
        )


@pytest.mark.parametrize("text", ["nothing", "<!-- measured: one -->", f"<!-- measured: one --> {END}" * 2])
def test_a_page_without_its_markers_is_refused(tmp_path, text):
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(ValueError, match="measured: one"):
        put_between_markers(page, "new", "one")
