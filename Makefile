# Everything runs in .venv, with the versions that were tested.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test lint types fuzz bench docs clean

demo: .venv/demo
	$(BIN)/mercer compare --report mercer-report.html

test: .venv/dev lint types
	$(BIN)/python -m pytest --numprocesses 2

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/dev
	$(BIN)/mypy

# Each kind of file takes minutes; a failure names the case that repeats it.
fuzz: .venv/dev
	$(BIN)/python -m tests.fuzz --count 50000 --jobs 2

bench: .venv/dev
	$(BIN)/python -m benchmarks

docs: .venv/docs
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/demo: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) --editable '.[parquet]'
	@touch $@

.venv/dev: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) torch
	$(PIP) --editable '.[parquet,torch,dask,gpytorch,dev]'
	@touch $@

.venv/docs: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) torch
	$(PIP) --editable '.[parquet,torch,gpytorch,docs]'
	@touch $@

clean:
	rm -rf .venv docs/_build docs/gallery mercer-report.html
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
