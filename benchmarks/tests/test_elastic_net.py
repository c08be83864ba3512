"""The regimes of the elastic-net benchmark."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.elastic_net import PENALTIES, TOL, draw_spectra, make_problems, prepare_ours
from benchmarks.problems import grade


def test_spectra_are_alike():
    spectra = draw_spectra(100, 36, np.random.default_rng(0))
    spectra /= np.linalg.norm(spectra, axis=1, keepdims=True)
    assert np.median(spectra @ spectra.T) > 0.9


@pytest.mark.parametrize("position", range(len(PENALTIES)))
def test_our_codes_meet_the_gap_that_the_benchmark_asks_for(position):
    _, problem = list(make_problems(5, is_quick=True))[position]
    codes = prepare_ours(problem, problem.penalty, TOL["float64"])()
    assert grade(problem, codes).largest_gap <= 1.01 * TOL["float64"]
