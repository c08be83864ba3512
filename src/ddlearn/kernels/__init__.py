"""Compiled arithmetic, in Numba.

Compiled code is kept on disk, so only the first run on a machine has to wait for it.  That run says so, once, by the
logger "ddlearn", whose warnings Python prints on stderr unless logging is set up otherwise.
"""

import logging

from numba.core import event


class _CompilationNotice(event.Listener):
    has_spoken = False

    def on_start(self, event):
        if not self.has_spoken and event.data["dispatcher"].py_func.__module__.startswith(__name__):
            self.has_spoken = True
            if logging.makeLogRecord({}).processName == "MainProcess":  # worker processes compile the same
                logging.getLogger("ddlearn").warning("Compiling (first run only, up to a minute) ...")

    def on_end(self, event):
        pass


event.register("numba:compile", _CompilationNotice())
