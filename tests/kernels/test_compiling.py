"""That the first run says why it takes long."""

from __future__ import annotations

import logging

from numba import njit

from ddlearn.kernels import _CompilationNotice
from ddlearn.kernels.pursuit import position_of_largest


class Event:
    def __init__(self, dispatcher):
        self.data = {"dispatcher": dispatcher}


class PlainDispatcher:
    """What Numba hands out, also where its compiler is switched off."""

    def __init__(self, function):
        self.py_func = getattr(function, "py_func", function)


def test_compilation_is_announced_once_and_only_our_own(caplog):
    notice = _CompilationNotice()
    with caplog.at_level(logging.WARNING, logger="ddlearn"):  # which Python shows by default
        notice.on_start(Event(PlainDispatcher(njit(lambda x: x))))
        assert not caplog.records
        notice.on_start(Event(PlainDispatcher(position_of_largest)))
        notice.on_start(Event(PlainDispatcher(position_of_largest)))
    assert [record.getMessage() for record in caplog.records] == ["Compiling (first run only, up to a minute) ..."]
