"""Pictures of single images, drawn from synthetic ones."""

from __future__ import annotations

import pytest
from reproduction import pictures
from reproduction.cells import Runner
from reproduction.pictures import draw_learned_sketches, draw_pictures

pytest.importorskip("matplotlib", reason="draws figures")


@pytest.mark.parametrize("is_real", [False, True])
def test_pictures_are_drawn(tmp_path, is_real, request, monkeypatch):
    request.getfixturevalue("synthetic" if is_real else "calls")
    monkeypatch.setattr(pictures, "FACE_MODEL", {"n_components": 16, "n_nonzero_coefs": 4, "random_state": 0})
    if is_real:  # the drawing takes longer than the models
        monkeypatch.setattr(pictures, "save_figure", lambda *arguments: None)
    monkeypatch.setattr(pictures, "draw_learned_sketches", lambda runner: None)  # below
    assert draw_pictures(Runner(tmp_path)) == []
    for name in () if is_real else ("occluded_faces", "misaligned_digits"):
        assert (tmp_path / f"{name}.svg").stat().st_size > 1000
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_each_class_has_a_column_of_sketches(tmp_path, monkeypatch):
    small = {"n_components": 20, "max_iter": 1, "description": "gradients", "image_shape": (8, 8), "refine": None}
    monkeypatch.setitem(pictures.BEYOND_SETTINGS, "digits", small)
    figures = []
    monkeypatch.setattr(pictures, "save_figure", lambda figure, *_: figures.append(figure))
    draw_learned_sketches(Runner(tmp_path), row="digits", n_atoms=2)
    assert [axes.get_title() for axes in figures[0].axes] == [str(digit) for digit in range(10)] + [""] * 10
    assert all(axes.images[0].get_array().shape == (8, 8) for axes in figures[0].axes)
