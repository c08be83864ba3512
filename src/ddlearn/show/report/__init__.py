"""A fitted model as one interactive HTML page, whose style and scripts are in ``templates``."""

from .writing import write_report

__all__ = ["write_report"]
