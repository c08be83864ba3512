"""Discriminative dictionary learning after Ghanem and Ahuja (2011)."""

from .alignment import Alignment
from .classifiers import (
    CLASSIFIER_TRAINERS,
    AdaBoost,
    ClassifierTrainer,
    LinearSVM,
    LogitBoost,
    Newton,
    SquareLev,
    check_classifier_trainer,
)
from .codes import RowCodes
from .dictionary import (
    DICTIONARY_UPDATES,
    AtomUpdate,
    BlockCoordinateUpdate,
    DictionaryUpdate,
    ExactKSVDUpdate,
    KSVDUpdate,
    MODUpdate,
    UpdatedDictionary,
    WeightedKSVDUpdate,
    check_dictionary_update,
)
from .discriminative_coding import CodingRecord, discriminative_encode
from .estimator import DDLClassifier
from .fitting import IterationRecord
from .gross_errors import ERROR_ROUTES, AlternatingErrors, ErrorRoute, GreedyErrors
from .ksvd import KSVD, CodeClassifier, make_baseline
from .losses import LOSSES, Exponential, Logistic, Loss, SmoothHinge, SoftplusHinge, Square, check_loss
from .objective import MapObjective, map_objective
from .prediction import Explanation
from .sparse_coding import OMP, ORMP, SPARSE_CODERS, SparseCoder, check_sparse_coder, sparse_encode

__version__ = "0.1.0.dev0"

__all__ = [
    "CLASSIFIER_TRAINERS",
    "DICTIONARY_UPDATES",
    "ERROR_ROUTES",
    "KSVD",
    "LOSSES",
    "OMP",
    "ORMP",
    "SPARSE_CODERS",
    "AdaBoost",
    "Alignment",
    "AlternatingErrors",
    "AtomUpdate",
    "BlockCoordinateUpdate",
    "ClassifierTrainer",
    "CodeClassifier",
    "CodingRecord",
    "DDLClassifier",
    "DictionaryUpdate",
    "ErrorRoute",
    "ExactKSVDUpdate",
    "Explanation",
    "Exponential",
    "GreedyErrors",
    "IterationRecord",
    "KSVDUpdate",
    "LinearSVM",
    "Logistic",
    "LogitBoost",
    "Loss",
    "MODUpdate",
    "MapObjective",
    "Newton",
    "RowCodes",
    "SmoothHinge",
    "SoftplusHinge",
    "SparseCoder",
    "Square",
    "SquareLev",
    "UpdatedDictionary",
    "WeightedKSVDUpdate",
    "check_classifier_trainer",
    "check_dictionary_update",
    "check_loss",
    "check_sparse_coder",
    "discriminative_encode",
    "make_baseline",
    "map_objective",
    "sparse_encode",
]
