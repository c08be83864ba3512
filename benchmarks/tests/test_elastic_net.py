"""The regimes of the elastic-net benchmark."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.elastic_net import REGIMES, draw_spectra, prepare_ours, vary_penalty
from benchmarks.problems import Problem, grade, normalise
from benchmarks.targets import GAPS


def test_spectra_are_alike():
    spectra = draw_spectra(100, 36, np.random.default_rng(0))
    spectra /= np.linalg.norm(spectra, axis=1, keepdims=True)
    assert np.median(spectra @ spectra.T) > 0.9


@pytest.mark.parametrize("position", range(7))
def test_our_codes_meet_the_gap_that_the_benchmark_asks_for(position):
    rows = normalise(REGIMES[0].draw(505, 36, np.random.default_rng(0)))
    _, problem = list(vary_penalty("spectra", Problem(rows[:5], rows[5:], 500), has_all=True))[position]
    codes = prepare_ours(problem, problem.penalty, GAPS["float64"])()
    assert grade(problem, codes).largest_gap <= 1.01 * GAPS["float64"]
    assert not problem.is_positive or codes.min() >= 0
