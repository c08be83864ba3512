r"""The dictionary step of the paper (Section 3.2, line "update D" of Algorithm 2): initial atoms and their update.

Given the codes :math:`x_i` of the samples :math:`y_i`, the atoms :math:`d_k` (unit norm) shall lower

.. math:: \sum_i \frac{1}{\sigma_i^2} \Big\| y_i - \sum_k x_{ik} d_k \Big\|_2^2 ,

the dictionary's part of the MAP objective (Eq. 3).  The paper prints one sweep of approximate K-SVD, which ignores the
:math:`\sigma_i` and changes the codes, so it can raise the objective.  The strategies here are that
sweep and those that use the weights, keep the codes, or both.  In code :math:`1/\sigma_i^2` is ``precision``, rows are
samples and atoms, and codes are :class:`~ddlearn.codes.RowCodes`.

In the order of their imports: ``interface`` (what an update is and returns), ``initial`` (the atoms to start from),
``sums`` (over weighted samples), ``maintenance`` (useless atoms are replaced), ``ksvd`` (approximate, weighted and
exact), ``fixed_codes`` (atom after atom, block coordinates, optimal directions) and ``registry`` (names).
"""

from .fixed_codes import AtomUpdate, BlockCoordinateUpdate, MODUpdate
from .initial import (
    INITIAL_DICTIONARIES,
    SamplePool,
    TakeSamples,
    draw_dictionary,
    init_dictionary,
)
from .interface import DictionaryUpdate, UpdatedDictionary
from .ksvd import ExactKSVDUpdate, KSVDUpdate, WeightedKSVDUpdate
from .maintenance import WorstSamples, count_users, rank_of_worst
from .registry import DICTIONARY_UPDATES, resolve_dictionary_update
from .sums import CodeStatistics

__all__ = [
    "DICTIONARY_UPDATES",
    "INITIAL_DICTIONARIES",
    "AtomUpdate",
    "BlockCoordinateUpdate",
    "CodeStatistics",
    "DictionaryUpdate",
    "ExactKSVDUpdate",
    "KSVDUpdate",
    "MODUpdate",
    "SamplePool",
    "TakeSamples",
    "UpdatedDictionary",
    "WeightedKSVDUpdate",
    "WorstSamples",
    "count_users",
    "draw_dictionary",
    "init_dictionary",
    "rank_of_worst",
    "resolve_dictionary_update",
]
