# Every target sets up its own environment in .venv when that is missing or older than pyproject.toml.
# Needs nothing but Python 3.11+, make and, for packages without a wheel, a C compiler.
WHAT ?= all
JOBS ?= -1
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The tests of the kernels: those in their folder, and in other folders those that name a kernel or its slow twin.
KERNEL_FILES := tests/kernels tests/dictionary tests/classifiers tests/describe/test_jitter.py
KERNEL_TESTS := $(KERNEL_FILES) -k "(kernel or twin) and not float32"
BOUNDSCHECK := NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(VENV)/numba-boundscheck
# Two processes, each with whole files, since what a file makes for its tests is made once.
IN_TWO := --numprocesses 2 --dist loadfile
BROWSER_TESTS := tests/show/test_report_page.py

.PHONY: help demo test test-kernels test-browser nightly lint coverage bench generalise reproduce scaling docs clean

help:
	@echo "make demo    learn scikit-learn's digits, compare with the alternatives, write the interactive report.html"
	@echo "make test    run the tests and doctests"
	@echo "make test-kernels  test the kernels again with bounds checks, and as plain Python"
	@echo "make test-browser  install Chromium and test the interactive report in it"
	@echo "make nightly run the long tests: 10 000 hostile files, 20 kills of each fit, full disks, lost clusters (half an hour)"
	@echo "make lint    check style and types"
	@echo "make coverage  list the lines that no test reaches, kernels included"
	@echo "make bench   measure against spams, dictlearn and scikit-learn, write docs/performance.md (FULL=1 for more; DDLEARN_DATA=folder)"
	@echo "make generalise  compare the defaults with other classifiers on forty sets of different kinds (DDLEARN_DATA as above)"
	@echo "make reproduce  measure the paper's figures and tables into results/ (WHAT=usps JOBS=2; DDLEARN_DATA as above)"
	@echo "make scaling measure fits of up to 5 million rows, in memory and on Dask, and write docs/scaling.md (a quarter of an hour)"
	@echo "make docs    build the documentation, examples and all, into docs/_build/html (DDLEARN_DATA as above)"
	@echo "make clean   remove the environment and caches"

# One marker file per set of extras: $(VENV)/.test is newer than pyproject.toml when ".[test]" is installed.
$(VENV)/.%: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[$*]"
	@touch $@

demo: $(VENV)/.cli
	@$(BIN)/python examples/1_quickstart/digits.py
	@$(BIN)/ddlearn demo --json --output report.html >/dev/null
	@echo && echo "report.html is such a model as a page: open it in a browser, and draw a 7."

# What is promised to the last bit, once more with the BLAS kernels of most desktops, unless this machine has them.
test: $(VENV)/.test
	$(BIN)/python -m pytest $(IN_TWO) --ignore $(BROWSER_TESTS)
	$(BIN)/python tests/every_blas.py Haswell

# An index out of bounds is so in both precisions, and compiling takes nearly all of the time: one has to do.
test-kernels: $(VENV)/.test
	$(BOUNDSCHECK) $(BIN)/python -m pytest -q $(IN_TWO) $(KERNEL_TESTS)
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -q $(IN_TWO) $(KERNEL_TESTS)

test-browser: $(VENV)/.test
	@.ci/install_chromium
	DDLEARN_REQUIRE_BROWSER=1 $(BIN)/python -m pytest $(BROWSER_TESTS)

# The second command says more about a failure of the first, so it runs in any case. Both print what took long.
nightly: $(VENV)/.test
	@failed=0; set -x; \
	HYPOTHESIS_PROFILE=nightly $(BIN)/python -m pytest $(IN_TWO) --durations=25 -m "" || failed=1; \
	$(BOUNDSCHECK) $(BIN)/python -m pytest -q $(IN_TWO) --durations=5 $(KERNEL_FILES) -k "kernel or twin" || failed=1; \
	$(BIN)/python tests/every_blas.py Prescott Nehalem Sandybridge Haswell Zen SkylakeX --threads 1 2 || failed=1; \
	exit $$failed

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Coverage sees nothing of a compiled function, so the kernels run once more as plain Python.
coverage: $(VENV)/.test,coverage
	$(BIN)/python -m pytest $(IN_TWO) --cov --cov-report=
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -q $(KERNEL_TESTS) --cov --cov-append --cov-report=term-missing:skip-covered

# Ten minutes on two idle cores, and hours with FULL=1; either way it writes the tables of docs/performance.md.
bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks $(if $(FULL),--full)

generalise: $(VENV)/.bench
	$(BIN)/python -m benchmarks.out_of_the_box

# An interrupted run goes on; `python -m reproduction --help` lists what there is and more options.
reproduce: $(VENV)/.reproduce
	$(BIN)/python -m reproduction $(WHAT) --jobs $(JOBS)

scaling: $(VENV)/.dask,plot
	$(BIN)/python -m benchmarks.scaling

# The code on pages runs, and what examples say of their results is true. Then a warning is an error: a link to nothing,
# an example that fails, a docstring that is not what it seems.
docs: $(VENV)/.test,docs
	$(BIN)/python -m pytest -q $(IN_TWO) -m docs tests/test_readme.py tests/test_examples.py
	$(BIN)/python -m sphinx --fail-on-warning --keep-going -b html docs docs/_build/html

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage docs/_build docs/gallery docs/api/generated
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
