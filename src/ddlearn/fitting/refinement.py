"""Task-driven refinement (Mairal, Bach and Ponce, PAMI 2012) after the MAP fit.

Read in this order: ``costs`` (what is lowered), ``gradient`` (through the label-free code), ``descent`` (a step),
``refiner`` (the epochs).
"""

from .costs import REFINEMENT_COSTS, RefinementCost
from .descent import Moments
from .gradient import RefinedModel, TaskGradient
from .refine import (
    MOST_SEEDS,
    EpochRecord,
    Refinement,
    RefinementProgress,
    Refiner,
    find_best,
    resolve_refiner,
)

__all__ = [
    "MOST_SEEDS",
    "REFINEMENT_COSTS",
    "EpochRecord",
    "Moments",
    "RefinedModel",
    "Refinement",
    "RefinementCost",
    "RefinementProgress",
    "Refiner",
    "TaskGradient",
    "find_best",
    "resolve_refiner",
]
