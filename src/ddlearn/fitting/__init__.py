"""From labelled samples to a model.

In the order of their imports: ``data`` (labels and parts), ``loop`` (Algorithm 2), ``gradient`` and ``refine``
(task-driven refinement), ``size`` (the number of atoms), ``online`` (one batch after another), ``run`` (a whole fit).
"""
