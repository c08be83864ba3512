"""A fitted model as one interactive HTML page, whose style and scripts are in ``templates``."""
