"""Task-driven training: dictionary and classifiers that make fewer errors on codes made without labels.

In the order of their imports: ``backward`` (the gradient of a mini-batch), ``adam`` and ``convex`` (steps), ``lesson``
(mini-batches), ``refine`` (epochs), ``search`` and ``size`` (open settings, chosen on held-out samples).
"""
