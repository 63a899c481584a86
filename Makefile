# `make demo` and `make test` set themselves up from nothing; a second call reuses what is there.

PYTHON ?= python3
BIN := .venv/bin
BENCH := .venv-bench/bin

.PHONY: demo test test-slow mutants lint format bench clean

demo: .venv/.ready
	$(BIN)/python examples/demo.py

test: .venv/.ready
	$(BIN)/python -m pytest -n 2

test-slow: .venv/.ready
	$(BIN)/python -m pytest -n 2 -m slow

# Small changes to the core, one at a time: how many do the quick tests notice? About five minutes.
mutants: .venv/.ready
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[mutants]"
	$(BIN)/mutmut run --max-children 2
	$(BIN)/mutmut export-cicd-stats

lint: .venv/.ready
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/basedpyright

format: .venv/.ready
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

# Side by side with other libraries, in an environment of their own.
bench: .venv-bench/.ready
	$(BENCH)/python -m benchmarks.race --chains 4 --docs
	$(BENCH)/python -m benchmarks.race --chains 64 --docs
	$(BENCH)/python -m benchmarks.race --slow --docs

.venv/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[test]"
	touch $@

.venv-bench/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-bench
	$(BENCH)/pip install --quiet --constraint constraints.txt --editable ".[bench]"
	touch $@

clean:
	rm -rf .venv .venv-bench out mutants
