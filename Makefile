# Everything runs in .venv, with the versions that were tested.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt

# Python and extras of `make oldest` and `make newest`. Torch is a large download, so the newest run leaves
# it out; to include it: make newest NEWEST_EXTRAS=parquet,dask,torch,gpytorch,test
OLDEST_PYTHON ?= python3.11
OLDEST_EXTRAS ?= parquet,dask,torch,gpytorch,test
NEWEST_PYTHON ?= $(shell for p in python3.13 python3.12 python3.11; do $$p --version >/dev/null 2>&1 && echo $$p && break; done)
NEWEST_EXTRAS ?= parquet,dask,test
# Two workers, for two cores. Threads of OpenBLAS and OpenMP that wait for work would keep busy the core that
# the other worker needs, so they sleep: tests full of matrix products take a third less CPU time.
PYTEST := -m pytest --numprocesses 2 --dist worksteal
test oldest newest: export OPENBLAS_THREAD_TIMEOUT = 4
test oldest newest: export OMP_WAIT_POLICY = passive
# Arguments of pytest in oldest and newest, for example TESTS="tests/kernels/test_graphs.py".
TESTS ?=

.PHONY: demo test lint types docs-check oldest newest hooks fuzz bench docs clean

demo: .venv/demo
	$(BIN)/mercer compare --report mercer-report.html

test: .venv/dev
	$(MAKE) --jobs 2 lint types docs-check
	$(BIN)/python $(PYTEST)

lint: .venv/dev
	$(BIN)/ruff check --no-cache .
	$(BIN)/ruff format --check .

types: .venv/dev
	$(BIN)/mypy

# Every page and reference, without running the gallery and without writing HTML.
docs-check: .venv/dev
	$(BIN)/sphinx-build -q -W --keep-going -D plot_gallery=0 -b dummy docs docs/_build/check

# The lowest versions that pyproject.toml allows.
oldest: .venv-oldest/ready
	.venv-oldest/bin/python $(PYTEST) $(TESTS)

# The newest versions there are. Modules that need an extra that is not installed have no doctests.
newest: .venv-newest/ready
	.venv-newest/bin/python $(PYTEST) --doctest-ignore-import-errors $(TESTS)

hooks: .venv/dev
	$(BIN)/pip install --quiet --disable-pip-version-check pre-commit
	$(BIN)/pre-commit install

# Each kind of file takes minutes; a failure names the case that repeats it.
fuzz: .venv/dev
	$(BIN)/python -m tests.fuzz --count 50000 --jobs 2

bench: .venv/dev
	$(BIN)/python -m benchmarks

docs: .venv/dev
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/demo: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) --editable '.[parquet]'
	@touch $@

.venv/dev: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) torch
	$(PIP) --editable '.[parquet,torch,dask,gpytorch,docs,dev]'
	@touch $@

.venv-oldest/ready: pyproject.toml constraints-oldest.txt
	$(OLDEST_PYTHON) -m venv --clear .venv-oldest
	.venv-oldest/bin/pip install --quiet --disable-pip-version-check --constraint constraints-oldest.txt torch
	.venv-oldest/bin/pip install --quiet --disable-pip-version-check --constraint constraints-oldest.txt \
	    --editable '.[$(OLDEST_EXTRAS)]'
	@touch $@

.venv-newest/ready: pyproject.toml
	$(NEWEST_PYTHON) -m venv --clear .venv-newest
	.venv-newest/bin/pip install --quiet --disable-pip-version-check --editable '.[$(NEWEST_EXTRAS)]'
	@touch $@

clean:
	rm -rf .venv .venv-oldest .venv-newest docs/_build docs/gallery docs/reference/generated mercer-report.html
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
