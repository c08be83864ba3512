"""A peer that is not installed is named."""

from __future__ import annotations

from benchmarks.contenders import Contender


def test_a_missing_peer_says_so():
    absent = Contender("somebody", prepare=None, needs="a_package_that_nobody_has")
    assert "a_package_that_nobody_has is not installed" in absent.why_not()
