"""The parts of an epoch are functions of the package."""

from __future__ import annotations

import pkgutil

import pytest
from benchmarks.refinement import PARTS, Clock


@pytest.mark.parametrize("name", [name for names in PARTS.values() for name in names])
def test_a_part_can_be_watched(name):
    assert callable(pkgutil.resolve_name(name))


def test_a_call_inside_another_is_not_counted_twice(monkeypatch):
    now = iter([0.0, 1.0, 3.0, 7.0])  # begin of the outer, begin and end of the inner, end of the outer
    monkeypatch.setattr("benchmarks.refinement.process_time", lambda: next(now))
    clock = Clock()
    inner = clock.watch("inner", lambda: None)
    clock.watch("outer", inner)()
    assert clock.seconds == {"inner": 2.0, "outer": 5.0}
