"""Discriminative dictionary learning after Ghanem and Ahuja (2011).

The public names are listed once, in ``__init__.pyi``.  Each is imported when it is first used, because ``ddlearn
--help`` must not wait for Numba.
"""

import lazy_loader

__version__ = "0.1.0.dev0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
