"""From a sample to its code.

In the order of their imports: ``coders`` and ``elastic_net`` (solvers of the row problem), ``encoder`` (a dictionary
with its Gram matrix: all label-free codes), ``rows``, ``descent``, ``printed`` and ``discriminative`` (Algorithm 1 of
the paper), and for samples that are not as they should be ``masked``, ``alignment`` and ``robust``.
"""
