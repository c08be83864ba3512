"""Figures of fitted models, as scikit-learn's displays: ``from_estimator`` computes and draws, ``plot`` draws again.

Every display draws on the axes that it is given or opens a figure, keeps both as ``ax_`` (``axes_`` where there are
several) and ``figure_``, and never shows anything by itself.  matplotlib is imported when something is drawn.
"""

from .code import CodeDisplay
from .confusion import ConfusionDisplay
from .convergence import ConvergenceDisplay
from .dictionary import DictionaryDisplay
from .evidence import EvidenceDisplay
from .losses import LossDisplay
from .scales import ClassCostDisplay, NoiseDisplay

__all__ = [
    "ClassCostDisplay",
    "CodeDisplay",
    "ConfusionDisplay",
    "ConvergenceDisplay",
    "DictionaryDisplay",
    "EvidenceDisplay",
    "LossDisplay",
    "NoiseDisplay",
]
