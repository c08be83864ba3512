"""What the library sets out to reach, and whether a run reaches it.

A ratio of two times of the same run on the same machine; absolute times say nothing about another machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from .problems import QUICK_SIZES, SIZES, Size

TARGET_THREADS = 2
FIRST_CALL_SECONDS = 1.0
# Who leaves this much more residual than the peer solves less than the peer, and its speed does not count.
RESIDUAL_SLACK = 1.01
# With a penalty it is the duality gap that counts, relative to half the squared norm: ours is to be no larger than the
# peer's, or than this, up to rounding.
GAPS = {"float64": 1e-6, "float32": 1e-4}


class Cell(NamedTuple):
    """A place in the tables."""

    size: str
    dtype: str
    threads: int
    contender: str


Measurements = Mapping[Cell, Mapping[str, Any]]


@dataclass(frozen=True)
class Target:
    """A wanted ratio of two contenders' times.

    Attributes
    ----------
    name : str
        What the ratio is, in words.
    numerator, denominator : str
        Keys of ``CONTENDERS``.
    is_speedup : bool
        Whether the ratio should be large (how many times faster the denominator is) or small.
    bound : callable or None
        The wanted ratio by size and dtype; None for a ratio that is only reported.
    """

    name: str
    numerator: str
    denominator: str
    is_speedup: bool = False
    bound: Callable[[Size, str], float] | None = None


@dataclass(frozen=True)
class Verdict:
    """A target at one size and dtype.

    Attributes
    ----------
    target, size, dtype : str
        Which ratio.
    ratio : float
        The ratio found.
    bound : float or None
        The ratio wanted, if any.
    verdict : {"met", "missed", "out of reach", "solves less", ""}
        Whether it is reached; out of reach is a speed that the bare product of samples and atoms has not, either.
    is_speedup : bool
        Whether the ratio should be large.
    others_cores : float or None
        Cores that other processes used in the more disturbed of the two measurements.
    """

    target: str
    size: str
    dtype: str
    ratio: float
    bound: float | None
    verdict: str
    is_speedup: bool
    others_cores: float | None


TARGETS = [
    Target(
        "ddlearn ORMP faster than spams.omp", "spams", "ormp", True, lambda size, dtype: 2.5 if size.is_digits else 2.0
    ),
    # The default of ORMP replaces atoms afterwards, which spams.omp does not: lower residuals for more time.
    Target("ddlearn ORMP with replacement faster than spams.omp", "spams", "ormp_swaps", True),
    # Code that computes all correlations cannot be faster than their product: the most that the line above can show.
    Target("bare product faster than spams.omp", "spams", "product"),
    Target("ddlearn OMP faster than dictlearn", "dictlearn", "omp", True, lambda size, dtype: 2.0),
    Target("ddlearn OMP faster than scikit-learn", "sklearn", "omp", True, lambda size, dtype: 25.0),
    Target("OMP / bare product", "omp", "product", False, lambda size, dtype: 1.6 if dtype == "float64" else 2.2),
    Target("DSC step, D^T Y given / full OMP", "dsc_step_given", "omp", False, lambda size, dtype: 1.5),
    Target("DSC step / OMP, D^T Y given to both", "dsc_step_given", "omp_given"),
    Target("DSC encode, 1 iteration / full OMP", "dsc_encode", "omp"),
    *(
        Target(f"ddlearn elastic net faster than {name}", peer, "net", True, lambda size, dtype: 3.0)
        for name, peer in (
            ("spams.lasso", "spams_lasso"),
            ("scikit-learn lasso_cd", "lasso_cd"),
            ("scikit-learn lasso_lars", "lasso_lars"),
            ("celer", "celer"),
        )
    ),
    Target("elastic net / bare product", "net", "product"),
]


def judge(measurements: Measurements) -> list[Verdict]:
    """Compare every pair of contenders that was measured with its target.

    Parameters
    ----------
    measurements : mapping of Cell to mapping
        With "seconds", "grade" and "others_cores" of each contender.

    Returns
    -------
    list of Verdict
        One per target, size and dtype at which both contenders were measured.
    """
    places = dict.fromkeys((cell.size, cell.dtype) for cell in measurements if cell.threads == TARGET_THREADS)
    return [
        _judge_one(target, size, dtype, measurements)
        for target in TARGETS
        for size, dtype in places
        if all(
            Cell(size, dtype, TARGET_THREADS, name) in measurements for name in (target.numerator, target.denominator)
        )
    ]


def _judge_one(target: Target, size: str, dtype: str, measurements: Measurements) -> Verdict:
    above, below = (
        measurements[Cell(size, dtype, TARGET_THREADS, name)] for name in (target.numerator, target.denominator)
    )
    ratio = above["seconds"] / below["seconds"]
    bound = None if target.bound is None else target.bound((SIZES | QUICK_SIZES)[size], dtype)
    if bound is None:
        verdict = ""
    elif target.is_speedup and _solves_less(below["grade"], above["grade"], dtype):
        verdict = "solves less"
    elif ratio >= bound if target.is_speedup else ratio <= bound:
        verdict = "met"
    else:
        product = measurements.get(Cell(size, dtype, TARGET_THREADS, "product"))
        is_in_reach = not target.is_speedup or product is None or above["seconds"] >= bound * product["seconds"]
        verdict = "missed" if is_in_reach else "out of reach"
    disturbances = [cores for side in (above, below) if (cores := side["others_cores"]) is not None]
    return Verdict(target.name, size, dtype, ratio, bound, verdict, target.is_speedup, max(disturbances, default=None))


def _solves_less(ours: Mapping[str, float], than: Mapping[str, float], dtype: str) -> bool:
    if ours.get("largest_gap") is not None:
        return ours["largest_gap"] > max(than["largest_gap"], 1.01 * GAPS[dtype])
    return ours["mean_squared_residual"] > RESIDUAL_SLACK * than["mean_squared_residual"]
