"""Sparse coders by name."""

from __future__ import annotations

from typing import Any

from .coders import SparseCoder
from .elastic_net import ElasticNet
from .pursuit import OMP, ORMP

SPARSE_CODERS: dict[str, type[SparseCoder]] = {"omp": OMP, "ormp": ORMP, "elastic_net": ElasticNet}


def resolve_sparse_coder(sparse_coder: str | SparseCoder, **parameters: Any) -> SparseCoder:
    """Return the coder of that registered name, or the object itself.

    Parameters
    ----------
    sparse_coder : str or SparseCoder
        A key of ``SPARSE_CODERS``, or an object with ``encode``.
    **parameters : dict
        Constructor parameters, if it is a name.

    Returns
    -------
    SparseCoder
        The coder.

    Examples
    --------
    >>> resolve_sparse_coder("omp")
    OMP()
    """
    if isinstance(sparse_coder, str):
        if sparse_coder not in SPARSE_CODERS:
            raise ValueError(
                f"{sparse_coder!r} is not a known sparse coder; choose one of {sorted(SPARSE_CODERS)} or pass a "
                "SparseCoder object."
            )
        return SPARSE_CODERS[sparse_coder](**parameters)
    if isinstance(sparse_coder, type) or not callable(getattr(sparse_coder, "encode", None)):
        raise TypeError(
            f"{sparse_coder!r} cannot serve as a sparse coder: it must be a name from {sorted(SPARSE_CODERS)} or an "
            "object (not a class) with the method encode."
        )
    return sparse_coder
