r"""Traditional sparse coding (TSC): the best code of a sample with few nonzeros.

For a dictionary :math:`D` with atoms as rows and a sample :math:`y`, the paper's

.. math:: \min_x \|y - D^T x\|^2 \quad\text{subject to}\quad \|x\|_0 \le T,

solved greedily, or with a penalty on the code in place of the constraint.  A :class:`SparseCoder` solves the slightly
larger row problem of discriminative coding, in which the classifiers pull on the code too (Algorithm 1 of the paper,
``discriminative_coding.py``); TSC is the case without classes.

In the order of their imports: ``coders`` (what a coder is), ``pursuit`` and ``elastic_net`` (coders), ``registry``
(coders by name), ``adaptation`` (parameters of a coder that are estimated from the data) and ``encoder`` (samples to
codes).
"""

from .adaptation import count_stride, get_numbers, recall_numbers
from .coders import (
    Floats,
    SparseCoder,
    measure_misfit,
    no_classes,
)
from .elastic_net import ElasticNet
from .encoder import (
    adapt_coder,
    check_budget,
    check_samples,
    compute_gram,
    correlate,
    encode_rows,
    make_correlations,
    measure_energies,
    sparse_encode,
)
from .pursuit import OMP, ORMP, PIVOT_FLOOR
from .registry import SPARSE_CODERS, resolve_sparse_coder

__all__ = [
    "OMP",
    "ORMP",
    "PIVOT_FLOOR",
    "SPARSE_CODERS",
    "ElasticNet",
    "Floats",
    "SparseCoder",
    "adapt_coder",
    "check_budget",
    "check_samples",
    "compute_gram",
    "correlate",
    "count_stride",
    "encode_rows",
    "get_numbers",
    "make_correlations",
    "measure_energies",
    "measure_misfit",
    "no_classes",
    "recall_numbers",
    "resolve_sparse_coder",
    "sparse_encode",
]
