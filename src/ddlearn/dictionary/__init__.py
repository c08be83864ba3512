r"""The dictionary step of the paper (Section 3.2, line "update D" of Algorithm 2): initial atoms and their update.

Given the codes :math:`x_i` of the samples :math:`y_i`, an update lowers over the atoms :math:`d_k` of unit norm

.. math:: \sum_i \frac{1}{\sigma_i^2} \Big\| y_i - \sum_k x_{ik} d_k \Big\|_2^2 ,

the dictionary's part of the MAP objective (Eq. 3).  The paper prints one sweep of approximate K-SVD, which ignores the
:math:`\sigma_i` and changes the codes, so it can raise the objective.  Other updates use the weights, keep the codes,
or both.  In code :math:`1/\sigma_i^2` is ``precision``, rows are samples and atoms, and codes are
:class:`~ddlearn.model.codes.RowCodes`.

``initial`` draws the first atoms, ``updates`` improves them, ``upkeep`` replaces useless ones.
"""

from .initial import INITIAL_DICTIONARIES as INITIAL_DICTIONARIES
from .initial import draw_dictionary as draw_dictionary
from .initial import init_dictionary as init_dictionary
from .initial import order_candidates as order_candidates
from .updates import DICTIONARY_UPDATES as DICTIONARY_UPDATES
from .updates import AdditiveUpdate as AdditiveUpdate
from .updates import AtomUpdate as AtomUpdate
from .updates import BlockCoordinateUpdate as BlockCoordinateUpdate
from .updates import CodeStatistics as CodeStatistics
from .updates import DictionaryUpdate as DictionaryUpdate
from .updates import ExactKSVDUpdate as ExactKSVDUpdate
from .updates import GuardedKSVDUpdate as GuardedKSVDUpdate
from .updates import KSVDUpdate as KSVDUpdate
from .updates import UpdatedDictionary as UpdatedDictionary
from .upkeep import WorstSamples as WorstSamples
from .upkeep import count_users as count_users
from .upkeep import rank_of_worst as rank_of_worst
