"""Sparse coding measured side by side with its peers: ``python -m benchmarks.run`` from the checkout's root."""
