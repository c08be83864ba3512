"""Beyond the paper: the best settings found beside the usual alternatives, ``python -m reproduction beyond``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import isnan
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.semi_supervised import SelfTrainingClassifier
from sklearn.svm import SVC

from ddlearn import DDLClassifier, ElasticNet, Gradients, Jitter, Refiner
from ddlearn.describe.choice import make_description

from .cells import (
    Cell,
    Record,
    Runner,
    slug,
)
from .disturbances import load_lit_faces
from .images import (
    SEED,
    UNLABELED,
    Floats,
    Split,
    load_few,
    load_few_labels,
    load_rows,
    spread,
)
from .measuring import find_interval, warm_up
from .sparse_representation import SRC
from .tables import BLUE, ORANGE, format_table, make_figure, save_figure, write_tables
from .trials import Labels, describe_errors, get_error

# Gradients in place of pixels, and images distorted each time they are seen.
_IMAGES: dict[str, Any] = {"description": "gradients", "max_iter": 1}
_CODER = ElasticNet(0.1, l1_ratio=0.5)


def _refine(epochs: int, *distortion: float) -> Refiner:
    """Return a refiner whose penalties are given; without a distortion images are seen as they are."""
    jitter = Jitter(distortion[0], linear=distortion[1], elastic=distortion[2]) if distortion else None
    return Refiner(epochs, cost="one_vs_all", weight_decay=0.03, linear_decay=1.0, jitter=jitter)


def _set_digits(image_shape: tuple[int, int], n_components: int | None, refiner: Refiner) -> dict[str, Any]:
    size = {"n_components": n_components, "image_shape": image_shape, "n_views": 16}
    return _IMAGES | size | {"sparse_coder": _CODER, "refine": refiner}


# Constructor parameters of DDL for each row, chosen on training images alone (see beyond_tried.csv).
_USPS = _set_digits((16, 16), 500, _refine(40, 0.7, 0.84, 0.3))
_FEW = _set_digits((28, 28), None, _refine(80, 0.7, 0.84, 0.5))
_FEW_LABELS = _set_digits((16, 16), None, _refine(60, 0.7, 0.84, 0.3)) | {"n_views": 4}  # of each unlabelled image, too
# For faces the penalty was chosen by learning from lights 1 and trying on lights 2 of which 70 % is hidden.
_LIGHTS = {
    "n_components": 570,
    "description": Gradients(48),  # cells of two pixels
    "image_shape": (96, 84),
    "sparse_coder": ElasticNet(0.001, l1_ratio=0.8),
    "refine": "classifiers",
    "max_iter": 3,
}
BEYOND_SETTINGS: dict[str, dict[str, Any]] = {
    "usps": _USPS,
    "mnist": _set_digits((28, 28), 1000, _refine(20, 0.7, 0.84, 0.4)),
    "yaleb": _IMAGES
    | {
        "n_components": 600,
        "description": Gradients(12),
        "image_shape": (24, 21),
        "sparse_coder": ElasticNet(0.01, l1_ratio=0.8),
        "refine": _refine(20),
        "max_iter": 3,
    },
    "digits": _set_digits((8, 8), 300, _refine(60, 0.4, 0.4, 0.2)),
    "mnist-300": _FEW,
    "mnist-1000": _FEW,
    "mnist-5000": _FEW,
    "mnist-10000": _FEW | {"refine": _refine(40, 0.7, 0.84, 0.5)},
    "usps-1%": _FEW_LABELS,
    "usps-5%": _FEW_LABELS,
    "lights": _LIGHTS,
    "lights-hidden-30%": _LIGHTS,
    "hidden-60%": _LIGHTS,
    "hidden-70%": _LIGHTS,
    "size": _USPS | {"n_views": 1},  # one view, so that the time is that of the model
}
# What cross-validation chooses from; gamma is in units of 1 / (number of pixels x their variance), SVC's "scale".
# The factors of gamma began at 0.1 at first, which is what cross-validation chose on all splits of the faces; with 0.01
# and 0.03 its error is lower there (7.4 in place of 7.7 %), and the test error is not (4.70 in place of 4.45 %).
PEER_GRIDS: dict[str, dict[str, list[Any]]] = {
    "logistic": {"C": [1.0, 10.0, 100.0, 1000.0, 10000.0]},
    "svm": {"C": [1.0, 10.0, 100.0, 1000.0], "gamma_factor": [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0]},
    "knn": {"n_neighbors": [1, 3, 5, 7, 9]},
    "svm_gradients": {"C": [1.0, 10.0, 100.0], "gamma_factor": [0.1, 0.3, 1.0, 3.0]},
    "svc": {},
    "svc_gradients": {},
    "src": {"tol": 5e-4, "max_iter": 1000},
}
# Numbers of atoms, and of images that a support vector machine learns from, for the curve of error against size.
CURVE_ATOMS = (50, 100, 200, 500, 1000, 2000)
CURVE_IMAGES = (300, 1000, 3000, 7291)
COMMAND = "python -m reproduction beyond -o results --jobs 2"
N_FOLDS = 3
_SURE, _TURNS = 0.9, 4  # a label is taken for true at this probability, in so many turns
_LONG = 60.0  # seconds of predictions that are not measured twice
VARIANT = "as set"  # a model is judged with the settings that it was fitted with


class Row(NamedTuple):
    """A row of the table, and the errors in per cent to compare with."""

    title: str
    load: Callable[[int], Split]  # rows of unit norm, by seed
    n_seeds: int
    effort: float  # relative to the others
    published: str
    targets: tuple[float, ...]
    methods: tuple[str, ...] = ("ddl", "logistic", "svm", "knn", "svm_gradients")
    is_split_random: bool = True
    max_components: int | None = None  # with more atoms the targets do not count
    max_search: int | None = None  # training images at most that peers are cross-validated on


_OF_FEW = ("ddl", "svm", "knn", "svm_gradients")
_OF_FACES = ("ddl", "src", "svc", "svc_gradients")
_SCATTERING = "(scattering, 2013, as reported)"
ROWS = {
    "usps": Row(
        "USPS",
        partial(load_rows, "usps"),
        5,
        1.0,
        "2.2 (Keysers 2000); the paper about 2.4",
        (2.2, 1.9),
        methods=("ddl", "logistic", "svm", "knn", "svm_gradients", "svc"),
        is_split_random=False,
    ),
    "mnist": Row(
        "MNIST",
        partial(load_rows, "mnist"),
        5,
        15.0,
        "0.54 (task-driven dictionary learning, 2012); 0.43 (scattering, 2013); the paper 0.72",
        (0.54, 0.43),
        methods=("ddl", "logistic", "knn", "svc", "svc_gradients"),
        is_split_random=False,
        max_search=5000,
    ),
    "yaleb": Row(
        "Extended Yale B, half/half, 24x21",
        partial(load_rows, "yaleb"),
        10,
        0.5,
        "1.9 to 2.9 (SRC, l1, all samples); 2.56 (DPL, measured); the paper 7.30",
        (1.2, 0.8),
        max_components=600,
    ),
    "digits": Row("scikit-learn digits, 1000 to learn from", partial(load_rows, "digits"), 5, 0.2, "", (1.5,)),
    "lights": Row(
        "Yale B, lights 1+2 to learn from, 4 to test",
        partial(load_lit_faces, (4,), 0.0),
        1,
        1.0,
        "",
        (17.0, 5.0),
        methods=_OF_FACES,
    ),
    "lights-hidden-30%": Row(
        "the same, 30 % hidden", partial(load_lit_faces, (4,), 0.3), 1, 1.0, "", (17.0, 5.0), methods=_OF_FACES
    ),
    "hidden-60%": Row(
        "Yale B, lights 3, 60 % hidden", partial(load_lit_faces, (3,), 0.6), 1, 2.0, "", (10.0,), methods=_OF_FACES
    ),
    "hidden-70%": Row(
        "Yale B, lights 3, 70 % hidden", partial(load_lit_faces, (3,), 0.7), 1, 2.0, "", (30.0,), methods=_OF_FACES
    ),
    "mnist-300": Row(
        "MNIST, 300 images", partial(load_few, 300), 5, 0.2, f"4.7 {_SCATTERING}", (4.7,), methods=_OF_FEW
    ),
    "mnist-1000": Row(
        "MNIST, 1000 images", partial(load_few, 1000), 5, 0.3, f"2.3 {_SCATTERING}", (2.3,), methods=_OF_FEW
    ),
    "mnist-5000": Row(
        "MNIST, 5000 images", partial(load_few, 5000), 5, 1.5, f"1.0 {_SCATTERING}", (1.0,), methods=_OF_FEW
    ),
    "mnist-10000": Row(
        "MNIST, 10,000 images",
        partial(load_few, 10_000),
        5,
        2.0,
        f"0.9 {_SCATTERING}",
        (0.9,),
        methods=_OF_FEW,
        max_search=5000,
    ),
    "size": Row("USPS", partial(load_rows, "usps"), 1, 1.0, "", (), methods=("ddl", "svc"), is_split_random=False),
    "usps-1%": Row("USPS, 1 % labelled", partial(load_few_labels, 0.01), 5, 1.0, "", (12.0,), methods=_OF_FEW),
    "usps-5%": Row("USPS, 5 % labelled", partial(load_few_labels, 0.05), 5, 1.0, "", (7.0,), methods=_OF_FEW),
}


class Entry(NamedTuple):
    """All that decides the result of a cell."""

    row: str  # a key of ``ROWS``
    method: str  # a key of ``CONTENDERS``
    settings: dict[str, Any]  # of DDL, or what a peer may choose from
    seed: int
    max_train: int | None = None
    max_test: int | None = None

    def make_cell(self, n_jobs: int | None) -> Cell:
        """Return the cell, whose parameters are JSON: objects among the settings go by their repr."""
        parameters = {"experiment": "beyond"} | self._asdict() | {"max_search": ROWS[self.row].max_search}
        return Cell(
            slug(f"beyond {self.row} {self.method} {self.seed}"),
            _to_json(parameters),
            partial(measure_entry, self, n_jobs),
            ROWS[self.row].effort,
        )


def _to_json(value: Any) -> Any:
    return json.loads(json.dumps(value, default=repr))


class Choice(NamedTuple):
    """A model to be fitted, its settings, and its error on training images that it did not learn from."""

    model: Any
    settings: dict[str, Any]
    validation_error: float | None = None


Choose = Callable[[Entry, Floats, Labels, int | None], Choice]


class Contender(NamedTuple):
    """A method: how its model is chosen, and what its predictions need."""

    title: str
    is_random: bool
    choose: Choose
    list_arrays: Callable[[Any], list[NDArray[Any]]]


def _set_ddl(entry: Entry, X: Floats, y: Labels, n_jobs: int | None) -> Choice:
    """Return the model; where labels are missing, it learns in turns from those that it is sure of."""
    model = DDLClassifier(**entry.settings, random_state=entry.seed, n_jobs=n_jobs)
    if (y == UNLABELED).any():
        return Choice(SelfTrainingClassifier(model, threshold=_SURE, max_iter=_TURNS), _to_json(entry.settings))
    return Choice(model, _to_json(entry.settings))


def _search(model: BaseEstimator, grid: Mapping[str, list[Any]], X: Floats, y: Labels) -> Choice:
    """Choose the settings of least error in cross-validation; on ties the first, which are the plainest."""
    folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=SEED)
    search = GridSearchCV(model, grid, cv=folds, refit=False).fit(X, y)
    chosen = search.best_params_
    return Choice(model.set_params(**chosen), chosen, 1 - float(search.best_score_))


def _choose_logistic(entry: Entry, X: Floats, y: Labels, n_jobs: int | None) -> Choice:
    return _search(LogisticRegression(max_iter=10000), entry.settings, X, y)


def _choose_svm(entry: Entry, X: Floats, y: Labels, n_jobs: int | None) -> Choice:
    scale = 1 / (X.shape[1] * X.var(dtype=np.float64))
    gammas = [float(factor * scale) for factor in entry.settings["gamma_factor"]]
    choice = _search(SVC(cache_size=1000), {"C": entry.settings["C"], "gamma": gammas}, X, y)
    factor = entry.settings["gamma_factor"][gammas.index(choice.settings["gamma"])]
    return choice._replace(settings=choice.settings | {"gamma_factor": factor})


def _see_gradients(choose: Choose) -> Choose:
    """Return a choice of models that see the gradients that DDL sees."""

    def choose_model(entry: Entry, X: Floats, y: Labels, n_jobs: int | None) -> Choice:
        settings = BEYOND_SETTINGS[entry.row]
        describe = make_description(settings["description"], settings["image_shape"]).apply
        choice = choose(entry, describe(X), y, n_jobs)
        return choice._replace(model=make_pipeline(FunctionTransformer(describe), choice.model))

    return choose_model


def _set_svc(entry: Entry, X: Floats, y: Labels, n_jobs: int | None) -> Choice:
    return Choice(SVC(C=10), {"C": 10})  # with whose time that of DDL is compared


def _set_src(entry: Entry, X: Floats, y: Labels, n_jobs: int | None) -> Choice:
    return Choice(SRC(**entry.settings, n_jobs=n_jobs), entry.settings)


def _choose_neighbours(entry: Entry, X: Floats, y: Labels, n_jobs: int | None) -> Choice:
    return _search(KNeighborsClassifier(n_jobs=n_jobs), entry.settings, X, y)


def _list_vectors(model: Any) -> list[NDArray[Any]]:
    svm = model[-1] if isinstance(model, Pipeline) else model
    return [svm.support_vectors_, svm.dual_coef_, svm.intercept_]


def _list_ddl(model: Any) -> list[NDArray[Any]]:
    ddl = getattr(model, "estimator_", model)  # of a model that has labelled samples itself
    return [ddl.components_, ddl.coef_, ddl.intercept_, ddl.class_cost_]


CONTENDERS = {
    "ddl": Contender("DDL", True, _set_ddl, _list_ddl),
    "logistic": Contender(
        "logistic regression", False, _choose_logistic, lambda model: [model.coef_, model.intercept_]
    ),
    "svm": Contender("RBF SVM", False, _choose_svm, _list_vectors),
    "knn": Contender("nearest neighbours", False, _choose_neighbours, lambda model: [model._fit_X, model._y]),
    "svm_gradients": Contender("RBF SVM of the same gradients", False, _see_gradients(_choose_svm), _list_vectors),
    "svc": Contender("SVC(C=10)", False, _set_svc, _list_vectors),
    "svc_gradients": Contender("SVC(C=10) of the same gradients", False, _see_gradients(_set_svc), _list_vectors),
    "src": Contender("SRC", False, _set_src, lambda model: [model.atoms_]),
}


def run_beyond(
    runner: Runner,
    *,
    only: Sequence[str] = tuple(ROWS),
    most_seeds: int | None = None,
    settings: Mapping[str, dict[str, Any]] = BEYOND_SETTINGS,
    max_train: int | None = None,
    max_test: int | None = None,
) -> list[Record]:
    """Measure DDL at its best beside other methods, and the error against the size of models.

    ``only`` names rows ("usps") or single methods ("usps:svm") to measure; the table holds all finished cells.
    """
    parts = choose_parts(only)
    entries = list_entries(most_seeds, settings, max_train=max_train, max_test=max_test)
    cells = [entry.make_cell(runner.n_jobs) for entry in entries]
    runner.run([cell for entry, cell in zip(entries, cells, strict=True) if (entry.row, entry.method) in parts])
    records = _read_finished(cells, runner.output / "cells")
    write_tables(runner.output, "beyond", _format(records), records)
    _draw_sizes(runner.output, records)
    return records


def choose_parts(only: Sequence[str]) -> set[tuple[str, str]]:
    """Return pairs of row and method, given by names such as "usps" or "usps:svm"."""
    names = {f"{name}:{method}": (name, method) for name, row in ROWS.items() for method in row.methods}
    parts: set[tuple[str, str]] = set()
    for name in only:
        found = {part for full, part in names.items() if name in (full, part[0])}
        if not found:
            raise ValueError(
                f"{name!r} is no part of this experiment: give a row ({', '.join(ROWS)}), or one with a method "
                f"({', '.join(CONTENDERS)}), such as 'usps:svm'."
            )
        parts |= found
    return parts


def list_entries(
    most_seeds: int | None = None,
    settings: Mapping[str, dict[str, Any]] = BEYOND_SETTINGS,
    *,
    max_train: int | None = None,
    max_test: int | None = None,
) -> list[Entry]:
    """Return what the tables are made of; where nothing is random, for one seed alone."""
    limits = {"max_train": max_train, "max_test": max_test}
    entries = []
    for name, row in ROWS.items():
        for method in row.methods if name != "size" else ():
            is_random = row.is_split_random or CONTENDERS[method].is_random
            for seed in range(min(row.n_seeds, most_seeds or row.n_seeds) if is_random else 1):
                entries.append(Entry(name, method, PEER_GRIDS.get(method, settings[name]), seed, **limits))
    for n_components in CURVE_ATOMS:
        entries.append(Entry("size", "ddl", settings["size"] | {"n_components": n_components}, 0, **limits))
    for n_images in CURVE_IMAGES:
        entries.append(Entry("size", "svc", {}, 0, min(n_images, max_train or n_images), max_test))
    return entries


def _read_finished(cells: Sequence[Cell], folder: Path) -> list[Record]:
    """Return the records of the cells that have been measured, now or earlier."""
    stored = (json.loads(path.read_text()) for path in sorted(folder.glob("beyond-*.json")))
    finished = {json.dumps(record["parameters"], sort_keys=True): record for record in stored}
    keys = (json.dumps(cell.parameters, sort_keys=True) for cell in cells)
    return [finished[key] for key in keys if key in finished]


# -- one cell ----------------------------------------------------------------------------------------------------------


def measure_entry(entry: Entry, n_jobs: int | None) -> dict[str, Any]:
    """Choose on training images, fit to all of them, and judge on the test images."""
    row, contender = ROWS[entry.row], CONTENDERS[entry.method]
    data = _load(entry)
    if entry.method != "ddl":  # which alone learns from images without a label
        is_labelled = data.y_train != UNLABELED
        data = data._replace(X_train=data.X_train[is_labelled], y_train=data.y_train[is_labelled])
    searched = spread(len(data.y_train), row.max_search)
    start = process_time()
    choice = contender.choose(entry, data.X_train[searched], data.y_train[searched], n_jobs)
    search_seconds = process_time() - start
    start = process_time()
    model = choice.model.fit(data.X_train, data.y_train)
    fit_seconds = process_time() - start
    arrays = contender.list_arrays(model)
    return {
        "test": {VARIANT: _judge(model, data)},
        "validation_error": choice.validation_error,
        "n_train": len(data.y_train),
        "search_seconds": search_seconds,
        "fit_seconds": fit_seconds,
        "train_seconds": search_seconds + fit_seconds,
        "n_parameters": sum(array.size for array in arrays),
        "model_bytes": sum(array.nbytes for array in arrays),
        "chosen": choice.settings,
        **_describe_ddl(model),
    }


def _load(entry: Entry) -> Split:
    data = ROWS[entry.row].load(entry.seed)
    trained, tested = spread(len(data.y_train), entry.max_train), spread(len(data.y_test), entry.max_test)
    return Split(data.X_train[trained], data.y_train[trained], data.X_test[tested], data.y_test[tested])


def _judge(model: Any, data: Split) -> dict[str, Any]:
    """Return the error on the test images with Wilson's interval, and the time a sample, the better of two."""
    warm_up(model, data.X_test)
    seconds = []
    for _ in range(2):
        start = process_time()
        predicted = model.predict(data.X_test)
        seconds.append(process_time() - start)
        if seconds[0] > _LONG:
            break
    n_test = len(data.y_test)
    n_wrong = int(np.count_nonzero(predicted != data.y_test))
    return {
        "error": n_wrong / n_test,
        "interval": find_interval(n_wrong, n_test),
        "n_test": n_test,
        "predict_milliseconds": 1000 * min(seconds) / n_test,
    }


def _describe_ddl(model: Any) -> dict[str, Any]:
    """Return what is known of DDL alone: its size, and its error on held-out training images during refinement."""
    model = getattr(model, "estimator_", model)
    if not isinstance(model, DDLClassifier):
        return {}
    epochs = [
        {name: _to_number(value) for name, value in epoch._asdict().items()}
        for epoch in getattr(model, "refinement_", None) or []
    ]
    errors = [error for epoch in epochs if (error := epoch["validation_error"]) is not None]
    return {
        "n_components": len(model.components_),
        "n_iter": model.n_iter_,
        "validation_error": min(errors, default=None),
        "refinement": epochs,
    }


def _to_number(value: Any) -> float | None:
    return None if value is None or isnan(value) else float(value)


# -- tables ------------------------------------------------------------------------------------------------------------


def _format(records: Sequence[Record]) -> str:
    """Return the targets, all methods, and the error against the size."""
    rows = {name: row for name, row in ROWS.items() if row.targets}
    parts = [
        f"# Beyond the paper\n\n    {COMMAND}\n",
        "Test errors are means and standard deviations over seeds, which decide DDL's first atoms, the order of "
        "samples and distortions, and the split, the images or the labels where these are drawn; where nothing is "
        'random, of one run. DDL describes images by their gradients (`description="gradients"`); the others see '
        "pixels of unit norm, or, where it says so, the same gradients. Unless C is given, their settings "
        f"were chosen by {N_FOLDS}-fold cross-validation on the training images (MNIST: on "
        f"{ROWS['mnist'].max_search} of them), after which they learned from all. Times are seconds of CPU time, "
        "medians over seeds.\n",
        format_table(
            ["error (%)", "DDL here", "best published of its kind", "to reach", "reached", "fit / that of SVC(C=10)"],
            [_compare(name, row, records) for name, row in rows.items()],
        ),
        "## All methods\n",
        "The model is the arrays that predictions need: of the SVM support vectors and their coefficients, of nearest "
        "neighbours and SRC all images to learn from. Predictions are of all test images at once, the better of two.\n",
        format_table(_HEADER, _list_methods(records, rows, _describe)),
        "## Error against size\n",
        "USPS, one seed: DDL with more and more atoms, and SVC(C=10) that learned from more and more images.\n",
        format_table(
            ["model", "test error (%)", "size", "µs a sample", "fit (s)"],
            [_describe_size(record) for method in ("ddl", "svc") for record in _find(records, "size", method)],
        ),
        "The settings of each cell are in `beyond.json`; what was tried for DDL, with errors on held-out images, is in "
        "`beyond_tried.csv`.\n",
    ]
    return "\n".join(parts)


def _describe_size(record: Record) -> list[str]:
    """Return a line of the table of sizes."""
    result, test = record["result"], record["result"]["test"][VARIANT]
    n_atoms = result.get("n_components")
    name = f"DDL, {n_atoms:,} atoms" if n_atoms else f"SVC, {result['n_train']:,} images"
    size, time = f"{result['model_bytes'] / 1e3:,.0f} kB", f"{1000 * test['predict_milliseconds']:.0f}"
    return [name, f"{100 * test['error']:.2f}", size, time, f"{result['fit_seconds']:.1f}"]


def _draw_sizes(output: Path, records: Sequence[Record]) -> None:
    """Draw the error against the size of models, and against the time of a prediction."""
    of_methods = {method: _find(records, "size", method) for method in ROWS["size"].methods}
    if not all(of_methods.values()):
        return
    figure = make_figure(11, 4.5)
    styles = {"ddl": (BLUE, "o", "DDL, 50 to 2000 atoms"), "svc": (ORANGE, "s", "SVC(C=10), 300 to 7291 images")}
    left, right = figure.subplots(1, 2, sharey=True)
    for method, of_one in of_methods.items():
        colour, marker, label = styles[method]
        results = [record["result"] for record in of_one]
        errors = [100 * result["test"][VARIANT]["error"] for result in results]
        sizes = [result["model_bytes"] / 1e6 for result in results]
        times = [1000 * result["test"][VARIANT]["predict_milliseconds"] for result in results]
        for axes, values in ((left, sizes), (right, times)):
            axes.plot(values, errors, color=colour, marker=marker, ms=8, lw=2.5, label=label)
    scales = ((left, "Model (MB)", (0.1, 0.3, 1, 3)), (right, "One prediction (microseconds)", (10, 30, 100, 300)))
    for axes, title, ticks in scales:
        axes.set_xscale("log")
        axes.set_xticks(ticks, map(str, ticks))
        axes.minorticks_off()
        axes.set_xlabel(title, fontsize=15)
        axes.tick_params(labelsize=13)
        axes.grid(alpha=0.3)
    left.set_ylabel("Test error on USPS (%)", fontsize=15)
    left.set_ylim(0)
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=13)
    save_figure(figure, output, "beyond_size")


_HEADER = [
    "data",
    "method",
    "learned from / tested",
    "test error (%)",
    "seeds",
    "seconds to fit",
    "model",
    "ms a sample",
]


def _find(records: Sequence[Record], row: str, method: str) -> list[Record]:
    return [
        record for record in records if record["parameters"]["row"] == row and record["parameters"]["method"] == method
    ]


def _compare(name: str, row: Row, records: Sequence[Record]) -> list[str]:
    """Return a line of the table of targets."""
    of_ddl, of_svc = _find(records, name, "ddl"), _find(records, name, "svc")
    limit = f", with at most {row.max_components} atoms" if row.max_components else ""
    to_reach = f"{', then '.join(f'{target:g}' for target in row.targets)}{limit}"
    here = describe_errors(of_ddl, VARIANT) if of_ddl else "not measured"
    ratio = ""
    if of_ddl and of_svc:
        ours, theirs = (np.median([each["result"]["fit_seconds"] for each in some]) for some in (of_ddl, of_svc))
        ratio = f"{ours / theirs:.1f}"
    return [row.title, here, row.published, to_reach, tell_reached(row, of_ddl), ratio]


def tell_reached(row: Row, records: Sequence[Record]) -> str:
    """Return for each target whether the mean error over seeds reaches it, with no more atoms than allowed."""
    if not records:
        return ""
    error = np.mean([get_error(record, VARIANT) for record in records])
    n_components = max(record["result"]["n_components"] for record in records)
    is_small = row.max_components is None or n_components <= row.max_components
    answers = {target: is_small and error <= target for target in row.targets}
    return ", ".join(f"{target:g}: {'yes' if is_reached else 'no'}" for target, is_reached in answers.items())


def _list_methods(
    records: Sequence[Record], rows: Mapping[str, Row], describe: Callable[[Sequence[Record]], list[str]]
) -> list[list[str]]:
    return [
        [row.title, CONTENDERS[method].title, *describe(of_one)]
        for name, row in rows.items()
        for method in row.methods
        if (of_one := _find(records, name, method))
    ]


def _describe(records: Sequence[Record]) -> list[str]:
    """Return a method's line of the table of all methods."""
    results = [record["result"] for record in records]
    fit, size = (float(np.median([result[name] for result in results])) for name in ("fit_seconds", "model_bytes"))
    milliseconds = np.median([result["test"][VARIANT]["predict_milliseconds"] for result in results])
    return [
        f"{results[0]['n_train']} / {results[0]['test'][VARIANT]['n_test']}",
        describe_errors(records, VARIANT),
        str(len(records)),
        f"{fit:.2f}",
        f"{size / 1e3:,.0f} kB",
        f"{milliseconds:.3g}",
    ]
