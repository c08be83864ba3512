"""Sparse coders by name."""

from __future__ import annotations

from typing import Any

from ..strategies import resolve
from .coders import SparseCoder
from .elastic_net import ElasticNet
from .pursuit import OMP, ORMP

SPARSE_CODERS: dict[str, type[SparseCoder]] = {"omp": OMP, "ormp": ORMP, "elastic_net": ElasticNet}


def resolve_sparse_coder(sparse_coder: str | SparseCoder, **parameters: Any) -> SparseCoder:
    """Return the coder registered under a name, made with these parameters, or the object itself.

    Examples
    --------
    >>> resolve_sparse_coder("omp", tol=0.1)
    OMP(tol=0.1)
    """
    coder = resolve("sparse coder", sparse_coder, SPARSE_CODERS, SparseCoder)
    return coder.set_params(**parameters) if isinstance(sparse_coder, str) else coder
