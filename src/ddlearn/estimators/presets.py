"""Good settings in one word: parameters of :class:`~ddlearn.DDLClassifier` that belong together.

A preset is nothing but parameters, which can be seen in ``get_params`` and changed one by one.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection
from typing import Any, NamedTuple

from sklearn.base import clone

from ..refinement.refiner import Refiner


class Preset(NamedTuple):
    """Parameters that belong together."""

    parameters: dict[str, Any]
    of_images: dict[str, Any] = {}  # noqa: RUF012 - more of them, where samples are images


PRESETS: dict[str, Preset] = {
    # The algorithm and settings that Ghanem and Ahuja (2011) print, with the factor of two that it lacks.
    "paper": Preset(
        {
            "description": None,  # the paper says nothing of it
            "sparse_coder": "omp",
            "n_nonzero_coefs": 5,  # the paper's T
            "max_iter": 20,
            "label_coding": "printed",
            "init": "samples",
            "dictionary_update": "ksvd",  # one sweep an iteration
            "scales": "jeffreys",
            "refine": None,  # the paper trains only on codes that saw the labels
        },
    ),
    # A model in a second, to see how hard the data are.
    "fast": Preset(
        {
            "n_components": 100,  # time grows with the number of atoms
            "max_iter": 0,  # atoms are samples at first
            # Only the penalty on codes is searched for, and with this cost classifiers have a closed form.
            "refine": Refiner(5, cost="one_vs_all", weight_decay=0.03, linear_decay=1.0),
        },
    ),
    # The lowest error that we know of, for more time.
    "accurate": Preset(
        {
            "max_iter": 5,
            "refine": Refiner(60),
        },
        {
            "description": "gradients",  # half the errors of pixels, or fewer
            "refine": Refiner(40, jitter="affine"),  # no distortion is used twice, so that more epochs learn more
            "n_views": 8,  # averages out sampling noise
        },
    ),
}


def collect_parameters(name: str, overrides: dict[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Return the parameters of a preset, updated by ``overrides``, whose names must be in ``known``."""
    if name not in PRESETS:
        raise ValueError(f"There is no preset {name!r} among {', '.join(PRESETS)}{_suggest(name, PRESETS)}")
    for parameter in overrides:
        if parameter not in known:
            raise TypeError(f"DDLClassifier has no parameter {parameter!r}{_suggest(parameter, known)}")
    preset = PRESETS[name]
    parameters = preset.parameters
    if overrides.get("image_shape") is not None:
        parameters = parameters | preset.of_images
    # Copies of the objects: to set a parameter of one must not change the preset.
    return {key: clone(value, safe=False) for key, value in parameters.items()} | overrides


def _suggest(name: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    return f"; did you mean {near[0]!r}?" if near else "."
