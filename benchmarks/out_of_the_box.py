"""What users get without setting anything, and what they would take instead: ``python -m benchmarks.out_of_the_box``.

Every contender has its defaults and the usual pipeline, learns the same splits of the sets of
:mod:`benchmarks.offline_sets`, and has one core.  Settings of the library are chosen on the sets of the role "choose"
alone; the sets of the role "report" say what they are worth.

Each result is kept in benchmarks/results/out_of_the_box.json, so an interrupted run goes on where it was.  ``--only
ours`` measures our model again, against peers that need not be; ``--table`` prints what there is, ``--page`` as
docs/defaults.md has it, ``--costs`` also what a model costs in time and bytes (the table of docs/why.md: ``--costs
--sets digits usps``).
"""

from __future__ import annotations

import argparse
import json
import pickle
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import LabelEncoder, Normalizer, StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from ddlearn import DDLClassifier, save

from .offline_sets import LINEAR_SETS, SETS, Split
from .report import format_table

RESULTS = Path(__file__).parent / "results" / "out_of_the_box.json"
OURS, LINEAR = "ours", "logistic regression"
# Added to errors before they are divided, so that an error of nothing is no reason for a ratio of infinity.
DOUBT = 0.005

Results = dict[str, dict[str, list[dict[str, float]]]]  # by set and contender, one for each split


def _make_dpl(seed: int) -> BaseEstimator:
    from dictlearn.classification import DPLClassifier

    return DPLClassifier(30, random_state=seed)  # atoms a class, as in the paper (Gu et al., 2014); it has no default


class Contender(NamedTuple):
    """Who is measured: ``make`` takes a seed and returns an estimator."""

    make: Callable[[int], BaseEstimator]
    scaling: str = "usual"  # "usual": images of unit norm, other samples standardised; "unit"; "none"

    def prepare(self, kind: str, seed: int) -> BaseEstimator:
        """Return the estimator in its pipeline."""
        if self.scaling == "none":
            return self.make(seed)
        is_standardised = self.scaling == "usual" and kind != "image"
        return make_pipeline(StandardScaler() if is_standardised else Normalizer(), self.make(seed))


CONTENDERS: dict[str, Contender] = {
    OURS: Contender(lambda seed: DDLClassifier(random_state=seed), "none"),
    LINEAR: Contender(lambda seed: LogisticRegression(max_iter=1000)),
    "SVC": Contender(lambda seed: SVC()),
    "SVC(C=10), unit norm": Contender(lambda seed: SVC(C=10), "unit"),
    "3 nearest neighbours": Contender(lambda seed: KNeighborsClassifier(3)),
    "random forest": Contender(lambda seed: RandomForestClassifier(random_state=seed), "none"),
    "gradient boosting": Contender(lambda seed: HistGradientBoostingClassifier(random_state=seed), "none"),
    "DPL (dictlearn)": Contender(_make_dpl),
}


def measure(estimator: BaseEstimator, split: Split) -> dict[str, float]:
    """Return error, seconds of one core to fit and to predict, bytes, and if there are probabilities their log-loss."""
    encoder = LabelEncoder().fit(split.y_train)
    start = process_time()
    estimator.fit(split.X_train, encoder.transform(split.y_train))
    fitted = process_time()
    predicted = estimator.predict(split.X_test)
    seconds = {"fit_seconds": fitted - start, "predict_seconds": process_time() - fitted}
    result = {"error": float(np.mean(predicted != encoder.transform(split.y_test)))} | seconds
    result |= {"n_tested": len(split.y_test), "bytes": _count_bytes(estimator)}
    if hasattr(estimator, "predict_proba"):
        result["log_loss"] = log_loss(split.y_test, estimator.predict_proba(split.X_test), labels=encoder.classes_)
    return result


def _count_bytes(estimator: BaseEstimator) -> int:
    """Return the size of a model as a file: a model file of ours, a pickle of the others."""
    if not isinstance(estimator, DDLClassifier):
        return len(pickle.dumps(estimator))
    with TemporaryDirectory() as folder:
        path = Path(folder, "model.safetensors")
        save(estimator, path)
        return path.stat().st_size


def measure_missing(sets: Sequence[str], contenders: Sequence[str], results: Results) -> Iterator[tuple[str, str]]:
    """Add the results that are missing to the others, and yield after each where it belongs."""
    for set_name in sets:
        of_set = results.setdefault(set_name, {})
        if all(len(of_set.get(name, ())) == SETS[set_name].n_splits for name in contenders):
            continue
        for seed, split in enumerate(SETS[set_name].split()):
            for name in contenders:
                measured = of_set.setdefault(name, [])
                if len(measured) == seed:
                    measured.append(measure(CONTENDERS[name].prepare(SETS[set_name].kind, seed), split))
                    yield set_name, name


class Summary(NamedTuple):
    """Errors of all contenders on some sets."""

    sets: list[str]
    contenders: list[str]
    errors: NDArray[np.float64]  # (n_sets, n_contenders), means over splits
    standard_errors: NDArray[np.float64]

    @classmethod
    def of(cls, results: Results, sets: Sequence[str]) -> Summary:
        """Summarise the sets that all contenders have learned."""
        known = [name for name in sets if all(results.get(name, {}).get(contender) for contender in CONTENDERS)]
        cells = [[_list(results[name][contender], "error") for contender in CONTENDERS] for name in known]
        errors = np.array([[np.mean(cell) for cell in row] for row in cells])
        return cls(
            known, list(CONTENDERS), errors, np.array([[_standard_error(cell) for cell in row] for row in cells])
        )

    @property
    def ours(self) -> int:
        """The column of our model."""
        return self.contenders.index(OURS)

    def ratios_to_best_peer(self) -> NDArray[np.float64]:
        """Return our error on each set by that of the best peer there."""
        best = np.delete(self.errors, self.ours, axis=1).min(axis=1)
        return (self.errors[:, self.ours] + DOUBT) / (best + DOUBT)

    def ratios_to_linear(self) -> NDArray[np.float64]:
        """Return our error on each set, less its standard error, by that of logistic regression."""
        linear = self.errors[:, self.contenders.index(LINEAR)]
        return np.maximum(self.errors - self.standard_errors, 0)[:, self.ours] / np.maximum(linear, 1e-9)

    def mean_ranks(self) -> NDArray[np.float64]:
        """Return the mean rank of each contender; equal errors share their ranks."""
        below = (self.errors[:, :, None] > self.errors[:, None, :]).sum(axis=2)
        equal = (self.errors[:, :, None] == self.errors[:, None, :]).sum(axis=2)
        return np.mean(below + (equal + 1) / 2, axis=0)


def _list(measured: list[dict[str, float]], what: str) -> list[float]:
    return [result[what] for result in measured]


def _standard_error(values: list[float]) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def format_summary(results: Results, role: str) -> str:
    """Return the tables of the sets of one role as Markdown."""
    summary = Summary.of(results, [name for name, offline_set in SETS.items() if offline_set.role == role])
    if not summary.sets:
        return f"No set of the role {role!r} has been learned by all."
    header = ["error, %", *summary.contenders, "ours / best", "fit, s (ours, SVC)", "predict, s (ours, SVC)"]
    rows = []
    for row, name in enumerate(summary.sets):
        errors = zip(100 * summary.errors[row], 100 * summary.standard_errors[row], strict=True)
        times = [
            " ".join(f"{np.mean(_list(results[name][contender], what)):.2g}" for contender in (OURS, "SVC"))
            for what in ("fit_seconds", "predict_seconds")
        ]
        ratio = f"{summary.ratios_to_best_peer()[row]:.2f}"
        rows.append([name, *(f"{mean:.1f} ± {deviation:.1f}" for mean, deviation in errors), ratio, *times])
    geometric_mean = np.exp(np.mean(np.log(summary.ratios_to_best_peer())))
    rows.append(["mean rank", *(f"{rank:.1f}" for rank in summary.mean_ranks()), f"{geometric_mean:.2f}", "", ""])
    worst = summary.ratios_to_linear()
    return (
        f"Sets of the role {role!r}\n\n{format_table(header, rows)}\n\n"
        f"Geometric mean of (our error + 0.5 %) / (best peer's error + 0.5 %): {geometric_mean:.3f}.\n"
        f"Our error less its standard error is at most {worst.max():.2f} times that of logistic regression "
        f"({summary.sets[int(worst.argmax())]}).\n"
    )


def format_page(results: Results) -> str:
    """Return the tables of docs/defaults.md: the sets to report, each with its best peer, and a line for each role."""
    header = ["", "samples learned", "ours", "best of the others", "logistic regression", "ours / best", "fit, s"]
    rows, lines = [], []
    for role in ("choose", "report"):
        summary = Summary.of(results, [name for name, offline_set in SETS.items() if offline_set.role == role])
        ratios, linear, ranks = summary.ratios_to_best_peer(), summary.ratios_to_linear(), summary.mean_ranks()
        peers = [place for place in range(len(ranks)) if place != summary.ours]
        rival, worst = min(peers, key=lambda place: ranks[place]), int(linear.argmax())
        place = f"{1 + int(np.sum(ranks < ranks[summary.ours]))}. of {len(ranks)}"
        rank = f"{ranks[summary.ours]:.1f}, {place}; {summary.contenders[rival]} has {ranks[rival]:.1f}"
        geometric_mean = f"{np.exp(np.mean(np.log(ratios))):.2f}"
        lines.append([role, str(len(ratios)), geometric_mean, rank, f"{linear[worst]:.2f}, {summary.sets[worst]}"])
        if role == "choose":
            continue
        for name, errors, deviations, ratio in zip(
            summary.sets, 100 * summary.errors, 100 * summary.standard_errors, ratios, strict=True
        ):
            best = min(peers, key=lambda place, errors=errors: errors[place])
            ours = f"{errors[summary.ours]:.1f}" + (f" ± {deviations[summary.ours]:.1f}" if deviations.any() else "")
            seconds = np.mean(_list(results[name][OURS], "fit_seconds"))
            peer, of_linear = (
                f"{errors[best]:.1f}, {summary.contenders[best]}",
                errors[summary.contenders.index(LINEAR)],
            )
            rows.append(
                [name, str(SETS[name].n_train), ours, peer, f"{of_linear:.1f}", f"{ratio:.2f}", f"{seconds:.1f}"]
            )
    of_roles = ["sets", "number", "ours / best (geometric mean)", "our mean rank", "worst against logistic regression"]
    return f"{format_table(header, rows)}\n\n{format_table(of_roles, lines)}\n"


def format_linear(results: Results) -> str:
    """Return our errors beside those of logistic regression on sets that suit it, raw and scaled, as Markdown."""
    rows = []
    names = [name for raw in LINEAR_SETS for name in (raw, f"{raw}, scaled")]
    for name in (name for name in names if {OURS, LINEAR} <= results.get(name, {}).keys()):
        ours, linear = (100 * np.array(_list(results[name][contender], "error")) for contender in (OURS, LINEAR))
        each = (ours, linear, ours - linear)
        rows.append([name, *(f"{np.mean(values):.2f} ± {_standard_error(list(values)):.2f}" for values in each)])
    return format_table(["", "ours", LINEAR, "difference, split by split"], rows)


def format_costs(results: Results, sets: Sequence[str]) -> str:
    """Return what each contender costs on some sets as Markdown: medians over splits, errors as means."""
    header = ["set", "model", "error, %", "fit, CPU s", "predict, ms a sample", "model, MB"]
    rows = []
    for name in sets:
        for contender, measured in results[name].items():
            error, fit = np.mean(_list(measured, "error")), np.median(_list(measured, "fit_seconds"))
            predict = np.median(_list(measured, "predict_seconds")) / measured[0]["n_tested"]
            size = np.median(_list(measured, "bytes"))
            cells = f"{100 * error:.2f}", f"{fit:.2g}", f"{1000 * predict:.2g}", f"{size / 1e6:.2g}"
            rows.append([name, contender, *cells])
    return format_table(header, rows)


def compile_kernels() -> None:
    """Fit and predict once in both precisions, since the first call in a new environment compiles."""
    X, y = load_digits(return_X_y=True)
    for dtype in (np.float32, np.float64):
        DDLClassifier(20, random_state=0).fit(X[:200].astype(dtype), y[:200]).predict(X[:10].astype(dtype))


def main() -> None:
    """Measure what is missing, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=CONTENDERS, default=[], help="measure these again")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--table", action="store_true", help="print what there is and stop")
    parser.add_argument("--page", action="store_true", help="print the tables of docs/defaults.md and stop")
    parser.add_argument("--costs", action="store_true", help="print what models cost on the sets")
    arguments = parser.parse_args()
    results: Results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if not (arguments.table or arguments.page):
        RESULTS.parent.mkdir(exist_ok=True)
        compile_kernels()
        for set_name in arguments.sets:
            for name in arguments.only:
                results.get(set_name, {}).pop(name, None)
        with threadpool_limits(1), warnings.catch_warnings(action="ignore"):  # peers' warnings of convergence
            for set_name, name in measure_missing(arguments.sets, arguments.only or list(CONTENDERS), results):
                print(set_name, name, json.dumps(results[set_name][name][-1]), flush=True)
                RESULTS.write_text(json.dumps(results, indent=1))
    if arguments.costs:
        print(format_costs(results, arguments.sets))
    elif arguments.page:
        print(format_page(results), format_linear(results), sep="\n")
    else:
        print("\n".join(format_summary(results, role) for role in ("choose", "report")))


if __name__ == "__main__":
    main()
