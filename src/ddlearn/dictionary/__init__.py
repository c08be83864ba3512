r"""The dictionary step of the paper (Section 3.2, line "update D" of Algorithm 2): initial atoms and their update.

Given the codes :math:`x_i` of the samples :math:`y_i`, an update lowers over the atoms :math:`d_k` of unit norm

.. math:: \sum_i \frac{1}{\sigma_i^2} \Big\| y_i - \sum_k x_{ik} d_k \Big\|_2^2 ,

the dictionary's part of the MAP objective (Eq. 3).  The paper prints one sweep of approximate K-SVD, which ignores the
:math:`\sigma_i` and changes the codes, so it can raise the objective.  Other updates use the weights, keep the codes,
or both.  In code :math:`1/\sigma_i^2` is ``precision``, rows are samples and atoms, and codes are
:class:`~ddlearn.codes.RowCodes`.

``initial`` draws the first atoms, ``updates`` improves them, ``upkeep`` replaces useless ones.
"""

from .initial import (
    INITIAL_DICTIONARIES,
    draw_dictionary,
    init_dictionary,
    order_candidates,
)
from .updates import (
    DICTIONARY_UPDATES,
    AdditiveUpdate,
    AtomUpdate,
    BlockCoordinateUpdate,
    CodeStatistics,
    DictionaryUpdate,
    ExactKSVDUpdate,
    KSVDUpdate,
    MODUpdate,
    UpdatedDictionary,
    WeightedKSVDUpdate,
    resolve_dictionary_update,
)
from .upkeep import (
    WorstSamples,
    count_users,
    rank_of_worst,
)

__all__ = [
    "DICTIONARY_UPDATES",
    "INITIAL_DICTIONARIES",
    "AdditiveUpdate",
    "AtomUpdate",
    "BlockCoordinateUpdate",
    "CodeStatistics",
    "DictionaryUpdate",
    "ExactKSVDUpdate",
    "KSVDUpdate",
    "MODUpdate",
    "UpdatedDictionary",
    "WeightedKSVDUpdate",
    "WorstSamples",
    "count_users",
    "draw_dictionary",
    "init_dictionary",
    "order_candidates",
    "rank_of_worst",
    "resolve_dictionary_update",
]
