"""Pictures of single images, drawn from synthetic ones."""

from __future__ import annotations

import pytest
from reproduction import pictures
from reproduction.cells import Runner
from reproduction.pictures import draw_pictures

pytest.importorskip("matplotlib", reason="draws figures")


@pytest.mark.parametrize("is_real", [False, True])
def test_pictures_are_drawn(tmp_path, is_real, request, monkeypatch):
    request.getfixturevalue("synthetic" if is_real else "calls")
    monkeypatch.setattr(pictures, "FACE_MODEL", {"n_components": 16, "n_nonzero_coefs": 4, "random_state": 0})
    if is_real:  # the drawing takes longer than the models
        monkeypatch.setattr(pictures, "save_figure", lambda *arguments: None)
    assert draw_pictures(Runner(tmp_path)) == []
    for name in () if is_real else ("occluded_faces", "misaligned_digits"):
        assert (tmp_path / f"{name}.svg").stat().st_size > 1000
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
