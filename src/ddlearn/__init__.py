"""Discriminative dictionary learning after Ghanem and Ahuja (2011).

Public names are imported from their files when they are first used: ``ddlearn --help`` must not wait for Numba.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .alignment import Alignment
    from .blocks import LostClusterError
    from .checkpoint import Checkpoint
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
    from .container import ModelFileError
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
    from .dictionary_size import DictionarySize
    from .discriminative_coding import CodingRecord, discriminative_encode
    from .estimator import DDLClassifier
    from .fitting import IterationRecord
    from .gross_errors import ERROR_ROUTES, AlternatingErrors, ErrorFit, ErrorRoute, GreedyErrors, check_error_route
    from .jitter import Jitter
    from .ksvd import KSVD, CodeClassifier, make_baseline
    from .losses import LOSSES, Exponential, Logistic, Loss, SmoothHinge, SoftplusHinge, Square, check_loss
    from .objective import MapObjective, map_objective
    from .persistence import load, save
    from .plotting import (
        ClassCostDisplay,
        CodeDisplay,
        ConfusionDisplay,
        ConvergenceDisplay,
        DictionaryDisplay,
        EvidenceDisplay,
        LossDisplay,
        NoiseDisplay,
    )
    from .prediction import Explanation
    from .refinement import EpochRecord, Refiner
    from .report import write_report
    from .sparse_coding import OMP, ORMP, SPARSE_CODERS, ElasticNet, SparseCoder, check_sparse_coder, sparse_encode

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
    "Checkpoint",
    "ClassCostDisplay",
    "ClassifierTrainer",
    "CodeClassifier",
    "CodeDisplay",
    "CodingRecord",
    "ConfusionDisplay",
    "ConvergenceDisplay",
    "DDLClassifier",
    "DictionaryDisplay",
    "DictionarySize",
    "DictionaryUpdate",
    "ElasticNet",
    "EpochRecord",
    "ErrorFit",
    "ErrorRoute",
    "EvidenceDisplay",
    "ExactKSVDUpdate",
    "Explanation",
    "Exponential",
    "GreedyErrors",
    "IterationRecord",
    "Jitter",
    "KSVDUpdate",
    "LinearSVM",
    "Logistic",
    "LogitBoost",
    "Loss",
    "LossDisplay",
    "LostClusterError",
    "MODUpdate",
    "MapObjective",
    "ModelFileError",
    "Newton",
    "NoiseDisplay",
    "Refiner",
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
    "check_error_route",
    "check_loss",
    "check_sparse_coder",
    "discriminative_encode",
    "load",
    "make_baseline",
    "map_objective",
    "save",
    "sparse_encode",
    "write_report",
]

# The file of each public name; a test compares it with the imports above, which are for type checkers.
_HOMES = {
    "Alignment": "alignment",
    "LostClusterError": "blocks",
    "Checkpoint": "checkpoint",
    "CLASSIFIER_TRAINERS": "classifiers",
    "AdaBoost": "classifiers",
    "ClassifierTrainer": "classifiers",
    "LinearSVM": "classifiers",
    "LogitBoost": "classifiers",
    "Newton": "classifiers",
    "SquareLev": "classifiers",
    "check_classifier_trainer": "classifiers",
    "RowCodes": "codes",
    "ModelFileError": "container",
    "DICTIONARY_UPDATES": "dictionary",
    "AtomUpdate": "dictionary",
    "BlockCoordinateUpdate": "dictionary",
    "DictionaryUpdate": "dictionary",
    "ExactKSVDUpdate": "dictionary",
    "KSVDUpdate": "dictionary",
    "MODUpdate": "dictionary",
    "UpdatedDictionary": "dictionary",
    "WeightedKSVDUpdate": "dictionary",
    "check_dictionary_update": "dictionary",
    "CodingRecord": "discriminative_coding",
    "discriminative_encode": "discriminative_coding",
    "DDLClassifier": "estimator",
    "IterationRecord": "fitting",
    "DictionarySize": "dictionary_size",
    "ERROR_ROUTES": "gross_errors",
    "AlternatingErrors": "gross_errors",
    "ErrorFit": "gross_errors",
    "ErrorRoute": "gross_errors",
    "GreedyErrors": "gross_errors",
    "check_error_route": "gross_errors",
    "Jitter": "jitter",
    "KSVD": "ksvd",
    "CodeClassifier": "ksvd",
    "make_baseline": "ksvd",
    "LOSSES": "losses",
    "Exponential": "losses",
    "Logistic": "losses",
    "Loss": "losses",
    "SmoothHinge": "losses",
    "SoftplusHinge": "losses",
    "Square": "losses",
    "check_loss": "losses",
    "MapObjective": "objective",
    "map_objective": "objective",
    "load": "persistence",
    "save": "persistence",
    "ClassCostDisplay": "plotting",
    "CodeDisplay": "plotting",
    "ConfusionDisplay": "plotting",
    "ConvergenceDisplay": "plotting",
    "DictionaryDisplay": "plotting",
    "EvidenceDisplay": "plotting",
    "LossDisplay": "plotting",
    "NoiseDisplay": "plotting",
    "Explanation": "prediction",
    "EpochRecord": "refinement",
    "Refiner": "refinement",
    "write_report": "report",
    "OMP": "sparse_coding",
    "ORMP": "sparse_coding",
    "SPARSE_CODERS": "sparse_coding",
    "ElasticNet": "sparse_coding",
    "SparseCoder": "sparse_coding",
    "check_sparse_coder": "sparse_coding",
    "sparse_encode": "sparse_coding",
}

if not TYPE_CHECKING:  # to type checkers it would say that any name exists

    def __getattr__(name: str) -> Any:
        if name in _HOMES:
            return getattr(import_module(f".{_HOMES[name]}", __name__), name)
        if name in _HOMES.values():
            return import_module(f".{name}", __name__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
