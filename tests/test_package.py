"""Housekeeping: docstrings, import direction, the cache of compiled kernels."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from numpydoc.validate import validate

import ddlearn

SOURCE = Path(ddlearn.__file__).parent

# From what everything stands on to what stands on it: a room imports from its own line and from those before it.
LAYERS = [
    {"kernels", "parallel"},
    {"model"},
    {"describe"},
    {"coding"},
    {"dictionary", "classifiers"},
    {"fitting", "inference"},
    {"refinement"},
    {"estimators"},
    {"checks", "files", "show", "datasets", "cli"},
]
ENTRIES = {"__init__", "__main__"}  # of the package, which belong to no layer

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


def imports_between_files(path: Path) -> set[Path]:
    """Return the files of the package that a file imports from."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            folder = path.parents[node.level - 1].joinpath(*(node.module or "").split("."))
            for name in node.names:
                places = (folder / f"{name.name}.py", folder / name.name / "__init__.py", folder / "__init__.py")
                found.add(next(place for place in (*places, folder.with_suffix(".py")) if place.exists()))
    return found


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


FILES = sorted(SOURCE.rglob("*.py"))


def test_every_room_has_its_layer_and_there_are_few():
    rooms = {room_of(path) for path in FILES} - ENTRIES
    assert rooms == set().union(*LAYERS)
    assert len(rooms) <= 16


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_down_the_layers(path):
    if (room := room_of(path)) in ENTRIES:
        return
    number = next(number for number, layer in enumerate(LAYERS) if room in layer)
    # The package's own file has the version and the public names, which methods may import when they are called.
    allowed = set().union({"__init__"}, *LAYERS[: number + 1])
    assert {room_of(imported) for imported in imports_between_files(path)} <= allowed


def test_no_two_files_import_each_other():
    TopologicalSorter({path: imports_between_files(path) - {path} for path in FILES}).prepare()  # or CycleError


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
    sorted({*FILES} - {*SOURCE.glob("parallel/*.py")}),
    ids=lambda path: f"{path.parent.name}/{path.name}",
)
def test_only_one_place_knows_threads_and_clusters(path):
    # Parallelism is over blocks of rows, in one folder. Predictions of a Dask array are lazy: no parallelism of ours.
    packages = {"joblib", "threading", "concurrent", "threadpoolctl", "multiprocessing"}
    if path.relative_to(SOURCE).as_posix() != "inference/lazy.py":
        packages |= {"dask", "distributed"}
    assert not packages & imported_packages(path)


def test_a_second_process_compiles_nothing():
    # Seconds of compilation are spent once per machine: kernels that call each other are all found in the cache.
    script = (
        "import sys, numpy as np\n"
        "from ddlearn import sparse_encode\n"
        "X = np.random.default_rng(0).standard_normal((300, 20))\n"
        "sparse_encode(X, X[:40], n_nonzero_coefs=3)\n"
        "modules = [module for name, module in sys.modules.items() if name.startswith('ddlearn.kernels.')]\n"
        "stats = [kernel.stats for module in modules for kernel in vars(module).values() if hasattr(kernel, 'stats')]\n"
        "for kind in ('cache_hits', 'cache_misses'):\n"
        "    print(sum(sum(getattr(one, kind).values()) for one in stats))\n"
    )
    for _ in range(2):  # the first process may have to compile
        run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    hits, misses = map(int, run.stdout.split())
    assert hits > 0
    assert misses == 0


def test_the_oldest_versions_go_together():
    # Older ones of these need NumPy below 2, so that nobody could install the floors together.
    extras = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert "matplotlib>=3.8.4" in extras["plot"]
    assert "pyarrow>=16" in extras["tables"]


def test_the_recipe_of_conda_needs_what_the_package_needs():
    root = SOURCE.parents[1]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    needed = [*project["dependencies"], *extras["cli"], *extras["report"], *extras["tables"]]
    recipe = (root / "packaging" / "recipe.yaml").read_text()
    for text in needed:
        name, _, floor = text.partition(">=")
        assert floor == "" or f"- {name} >={floor}\n" in recipe, text
