"""The paper's other claims, each tried and answered with a table or a figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from .cells import Cell, Record, Runner
from .claims_on_fitting import (
    list_start_cells,
    list_step_cells,
    report_starts,
    report_steps,
)
from .claims_on_labels import (
    list_flipped_cells,
    list_labelled_cells,
    report_flipped,
    report_labelled,
)
from .claims_on_size import (
    list_half_cells,
    list_large_cells,
    report_halves,
    report_large,
)
from .claims_on_weights import list_weight_cells, report_weights
from .images import load_rows, spread
from .setups import Setup
from .tables import write_tables


class Claim(NamedTuple):
    """What the paper says, what is tried, and what reports the result."""

    title: str
    words: str
    cells: list[Cell]
    report: Callable[[Sequence[Record], Path], str]
    is_former: bool = False  # whether its cells were measured with the former core


_FORMER_WORDS = (
    "*Measured before the core was rebuilt, with discriminative coding as printed, floors and plain K-SVD.*\n\n"
)


def list_claims(digits: Setup, faces: Setup, n_jobs: int | None) -> list[Claim]:
    """Return the claims that have cells of their own, in the order of the page."""
    n_samples = len(spread(len(load_rows(digits.dataset, 0).y_train), digits.max_train))
    return [
        Claim(
            "Larger dictionaries",
            "\"Error steadily decreases till an 'optimal' K value is reached. Beyond this K value, performance "
            'deteriorates due to overfitting." With ever more atoms than the grid has; square loss, test error (%).',
            list_large_cells(digits, n_jobs),
            report_large,
            is_former=True,
        ),
        Claim(
            "Where the dictionary starts",
            '"Both schemes produce similar dictionaries, although the randomized scheme requires more iterations for '
            'convergence." Fits of up to 60 iterations that lower the same objective, with the priors that training '
            "samples set; how many of them it takes to where the slower start is after the paper's 20, mean (least to "
            "most).",
            list_start_cells(digits, n_jobs),
            report_starts,
        ),
        Claim(
            "Steps of discriminative coding",
            '"Only one iteration of Algorithm 1 is needed when the square cost is used, since it is already '
            'quadratic." '
            "A model after two outer iterations, one seed: share of training samples whose code differs by more than "
            "0.1 % from that after 100 printed steps, by number of printed steps from label-free codes. A step that "
            "would raise a sample's objective is undone, and ends its coding.",
            list_step_cells(digits, n_jobs),
            report_steps,
        ),
        Claim(
            "Wrong labels",
            '"This is consistent with the theoretical argument that LogitBoost should outperform AdaBoost when '
            'training data is noisy or mislabeled." Test error (%) by '
            "share of training labels replaced by another class; two seeds.",
            list_flipped_cells(digits, n_jobs),
            report_flipped,
        ),
        Claim(
            "Weights from the data",
            "The paper estimates the trade-offs, one scale for each sample and class. The alternative is one fixed "
            "weight for all of them, lambda, in units of the ratio of the first codes' medians, chosen by 3-fold "
            "cross-validation on the training samples for each seed (in brackets). The paper's priors have floors near "
            "zero. All fits have 20 iterations. Test error (%); on the right for each lambda.",
            list_weight_cells(digits, n_jobs),
            report_weights,
        ),
        Claim(
            "Few labels",
            '"The DDL framework is easily extended to the semi-supervised case." Test error (%), square loss, with so '
            "many labels and K atoms: one for two labels, or all. DDL draws its first atoms from samples with labels, "
            "the baseline from all.",
            list_labelled_cells(digits, n_jobs, n_samples),
            report_labelled,
        ),
        Claim(
            "Half the atoms of SRC",
            '"Learning a discriminative D can reduce the dictionary size by as much as 50 %, without significant loss '
            'in performance." Faces, random halves, square loss, test error (%).',
            list_half_cells(faces, n_jobs),
            report_halves,
        ),
    ]


def run_claims(
    runner: Runner,
    *,
    digits: Setup = Setup(),  # noqa: B008 - it does not change
    faces: Setup = Setup("yaleb", 600, 5),  # noqa: B008
) -> list[Record]:
    """Try the claims, and return the records of all cells."""
    claims = list_claims(digits, faces, runner.n_jobs)
    runner.run([cell for claim in claims for cell in claim.cells])  # all in one go, so that no process waits
    parts = [
        f"# The paper's other claims\n\n{digits.dataset.upper()}, K = {digits.n_components}, T = "
        f"{digits.n_nonzero_coefs}, {len(digits.seeds)} seeds, mean and standard deviation, unless it says "
        "otherwise.\n",
        '"Beyond T = 3, this improvement is insignificant": see the grid in `usps.csv`.\n',
    ]
    records: list[Record] = []
    for claim in claims:
        of_claim = runner.run(claim.cells)  # from the cache
        words = f"{_FORMER_WORDS}{claim.words}" if claim.is_former else claim.words
        parts.append(f"## {claim.title}\n\n{words}\n\n{claim.report(of_claim, runner.output)}")
        records += of_claim
    write_tables(runner.output, "claims", "\n".join(parts), records)
    return records
