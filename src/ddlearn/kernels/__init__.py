"""Compiled arithmetic, in Numba.

Compiled code is kept on disk, so only the first run on a machine has to wait for it.  That run is told so, once, by the
logger "ddlearn" at level INFO.
"""

import logging

from numba.core import event


class _CompilationNotice(event.Listener):
    has_spoken = False

    def on_start(self, event):
        if not self.has_spoken and event.data["dispatcher"].py_func.__module__.startswith(__name__):
            self.has_spoken = True
            logging.getLogger("ddlearn").info("Compiling for this machine: the first run only.")

    def on_end(self, event):
        pass


event.register("numba:compile", _CompilationNotice())
