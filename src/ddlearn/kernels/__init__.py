"""Compiled arithmetic, in Numba.

Compiled code is kept on disk, so only the first run on a machine has to wait for it.  That run says so, once, by the
logger "ddlearn", whose warnings Python prints on stderr unless logging is set up otherwise.  Where nothing can be kept
(a read-only package and no home, as in many containers), every process compiles, and says so once.  What was kept and
is damaged is compiled again.
"""

import logging
from contextlib import suppress

import numba
from numba.core import event
from numba.core.caching import FunctionCache

_LOG = logging.getLogger("ddlearn")


class _Notices(event.Listener):
    """What is said about compilation, each message once."""

    def __init__(self):
        self.has_announced = self.has_warned = False

    def on_start(self, event):
        if not self.has_announced and event.data["dispatcher"].py_func.__module__.startswith(__name__):
            self.has_announced = True
            if logging.makeLogRecord({}).processName == "MainProcess":  # worker processes compile the same
                _LOG.warning("Compiling (first run only, up to a minute) ...")

    def on_end(self, event):
        pass

    def warn(self, reason):
        if not self.has_warned:
            self.has_warned = True
            _LOG.warning(
                "Compiled code cannot be kept (%s), so every process has to compile: set NUMBA_CACHE_DIR to a folder "
                "that can be written.",
                reason,
            )


_NOTICES = _Notices()
event.register("numba:compile", _NOTICES)


class _ForgivingCache(FunctionCache):
    """Compiled code on disk: if it cannot be read it is forgotten, if it cannot be written there is none."""

    def load_overload(self, sig, target_context):
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # a damaged pickle raises anything
            with suppress(Exception):
                self.flush()
            return None

    def save_overload(self, sig, data):
        try:
            super().save_overload(sig, data)
        except Exception as error:
            _NOTICES.warn(error)


def njit(*, cache, **options):
    """Return Numba's decorator, with a cache that never makes a call fail."""

    def compile_later(function):
        dispatcher = numba.njit(**options)(function)
        if cache and dispatcher is not function:  # the function itself if NUMBA_DISABLE_JIT is set
            try:
                dispatcher._cache = _ForgivingCache(function)
            except (RuntimeError, OSError):
                _NOTICES.warn("no folder can be written")
        return dispatcher

    return compile_later
