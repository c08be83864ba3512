"""Colors of classes can be distinguished, with any kind of color vision."""

from __future__ import annotations

import re
from itertools import combinations

import numpy as np
import pytest

from ddlearn.show.colors import CLASS_COLORS, get_class_color

# Simulated color blindness (Machado, Oliveira and Fernandes, 2009), for linear RGB.
EYES = {
    "all cones": np.eye(3),
    "no long cones": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "no medium cones": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "no short cones": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
JUST_NOTICEABLE = 2.3  # in CIELAB


def to_linear(color: str) -> np.ndarray:
    values = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def to_lab(linear: np.ndarray) -> np.ndarray:
    ratios = TO_XYZ @ np.clip(linear, 0, 1) / TO_XYZ.sum(axis=1)
    x, y, z = np.where(ratios > 0.008856, np.cbrt(ratios), 7.787 * ratios + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def test_every_position_has_a_color_valid_in_style_sheets():
    colors = [get_class_color(position) for position in range(200)]
    assert all(re.fullmatch("#[0-9A-F]{6}", color) for color in colors)
    assert len(set(colors)) == 200


@pytest.mark.parametrize("eye", EYES)
def test_classes_differ_visibly_for_every_kind_of_color_vision(eye):
    seen = [to_lab(EYES[eye] @ to_linear(color)) for color in CLASS_COLORS]
    assert min(np.linalg.norm(one - other) for one, other in combinations(seen, 2)) > 4 * JUST_NOTICEABLE


def test_every_class_is_visible_on_white():
    luminances = [TO_XYZ[1] @ to_linear(color) for color in CLASS_COLORS]
    assert 1.05 / (max(luminances) + 0.05) > 1.5  # the contrast, as the guidelines for web pages define it
