"""Discriminative dictionary learning after Ghanem and Ahuja (2011)."""

from .discriminative_coding import CodingRecord, discriminative_encode
from .losses import LOSSES, Exponential, Logistic, Loss, SmoothHinge, SoftplusHinge, Square, check_loss
from .sparse_coding import OMP, ORMP, SPARSE_CODERS, SparseCoder, check_sparse_coder, sparse_encode

__version__ = "0.1.0.dev0"

__all__ = [
    "LOSSES",
    "OMP",
    "ORMP",
    "SPARSE_CODERS",
    "CodingRecord",
    "Exponential",
    "Logistic",
    "Loss",
    "SmoothHinge",
    "SoftplusHinge",
    "SparseCoder",
    "Square",
    "check_loss",
    "check_sparse_coder",
    "discriminative_encode",
    "sparse_encode",
]
