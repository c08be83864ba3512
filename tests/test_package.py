"""Housekeeping (invariant 18 of design.md): docstrings, import direction, start-up time."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
import time
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from numpydoc.validate import validate

import ddlearn

SOURCE = Path(ddlearn.__file__).parent

# From what everything stands on to what stands on it; a file imports only from files before it.
LAYERS = [
    "_omp_kernel",
    "_elastic_net_kernel",
    "_code_kernel",
    "_classifier_kernel",
    "_ksvd_kernel",
    "_warp_kernel",
    "_jitter_kernel",
    "_refinement_kernel",
    "_error_kernel",
    "strategies",
    "blocks",
    "datasets",
    "codes",
    "sparse_coding",
    "losses",
    "order_statistics",
    "objective",
    "classifiers",
    "dictionary",
    "discriminative_coding",
    "masked_coding",
    "gross_errors",
    "alignment",
    "jitter",
    "noisy_coding",
    "inference",
    "refinement",
    "targets",
    "training_parts",
    "fit_steps",
    "fitting",
    "dictionary_size",
    "streaming",
    "prediction",
    "transformer",
    "ksvd",
    "presets",
    "estimator",
    "atomic_file",
    "container",
    "stored_values",
    "kept_state",
    "persistence",
    "checkpoint",
    "evaluation",
    "class_colors",
    "plotting",
    "report",
    "experiments",
    "reading",
    "cli",
    "__main__",
    "__init__",
]

# numpydoc's checks that we do not hold ourselves to: an extended summary where the short one says it all, "See Also"
# where there is nothing to see; and for methods, sections that their class or the method they override already has.
IGNORED_CHECKS = {"ES01", "SA01"}
IGNORED_METHOD_CHECKS = IGNORED_CHECKS | {"EX01", "GL08", "PR01", "RT01"}


def public_objects():
    for name in ddlearn.__all__:
        member = getattr(ddlearn, name)
        if callable(member):
            yield f"ddlearn.{name}"
        if inspect.isclass(member):
            for method, function in vars(member).items():
                if inspect.isfunction(function) and not method.startswith("_"):
                    yield f"ddlearn.{name}.{method}"


@pytest.mark.parametrize("name", list(public_objects()))
def test_public_docstrings_follow_numpydoc(name):
    ignored = IGNORED_METHOD_CHECKS if name.count(".") > 1 else IGNORED_CHECKS
    assert not [error for error in validate(name)["errors"] if error[0] not in ignored]


def imported_siblings(path: Path, level: int = 1) -> set[str]:
    siblings = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == level:
            siblings |= {node.module.split(".")[0]} if node.module else {alias.name for alias in node.names}
    return siblings


def test_every_file_has_its_layer():
    folders = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert {path.stem for path in SOURCE.glob("*.py")} | folders == set(LAYERS)


@pytest.mark.parametrize("name", [path.stem for path in SOURCE.glob("*.py")])
def test_imports_go_one_way(name):
    allowed = set(LAYERS[: LAYERS.index(name)])
    assert imported_siblings(SOURCE / f"{name}.py") <= allowed


@pytest.mark.parametrize("path", sorted(SOURCE.glob("*/*.py")), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_folders_import_from_lower_layers_only(path):
    allowed = set(LAYERS[: LAYERS.index(path.parent.name)])
    assert imported_siblings(path, level=2) <= allowed


@pytest.mark.parametrize("folder", sorted({path.parent for path in SOURCE.glob("*/*.py")}), ids=lambda path: path.name)
def test_imports_inside_a_folder_go_one_way(folder):
    TopologicalSorter({path.stem: imported_siblings(path) for path in folder.glob("*.py")}).prepare()  # or CycleError


def imported_packages(path: Path) -> set[str]:
    packages = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            packages |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            packages.add(node.module.split(".")[0])
    return packages


@pytest.mark.parametrize(
    "path",
    sorted({*SOURCE.rglob("*.py")} - {*SOURCE.glob("blocks/*.py")}),
    ids=lambda path: f"{path.parent.name}/{path.name}",
)
def test_only_one_place_knows_threads_and_clusters(path):
    # design.md decision 4: parallelism is over row blocks in one place. To read data lazily, or to ask for a cluster
    # from the command line, is no parallelism of ours.
    packages = {"joblib", "threading", "concurrent", "threadpoolctl", "multiprocessing"}
    if path.relative_to(SOURCE).as_posix() not in {"reading/parts.py", "cli/cluster.py"}:
        packages |= {"dask", "distributed"}
    assert not packages & imported_packages(path)


def test_the_first_call_of_a_process_is_quick_once_the_cache_is_warm():
    script = (
        "import time, numpy as np\n"
        "from ddlearn import sparse_encode\n"
        "X = np.random.default_rng(0).standard_normal((300, 20))\n"
        "start = time.perf_counter()\n"
        "sparse_encode(X, X[:40], n_nonzero_coefs=3)\n"
        "print(time.perf_counter() - start)\n"
    )
    for _ in range(2):  # the first process may have to compile
        begin = time.perf_counter()
        run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        elapsed = time.perf_counter() - begin
    assert float(run.stdout) < 1, f"took {run.stdout} s, the whole process {elapsed:.1f} s"
