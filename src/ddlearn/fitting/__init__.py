"""Algorithm 2: from labelled samples to a model.

In the order of their imports: ``labels``, ``data`` (samples in parts), ``loop`` (the four steps of an iteration),
``online`` (one batch after another).
"""
