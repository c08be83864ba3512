"""A fitted model as one interactive HTML page: ``write_report``.

In the order of their imports: ``packing`` (arrays as text), ``evidence`` and ``ink`` (what the page's script needs to
know of a loss and of images), ``selection`` (which samples are shown), ``content`` (all that the page tells), ``page``
(how it becomes HTML) and ``writing``.  The page itself is in ``templates``.
"""

from .writing import write_report

__all__ = ["write_report"]
