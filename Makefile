# `make demo` and `make test` need only Python 3.11+, git and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: setup demo test test-slow lint bench docs clean

setup: $(STAMP)

# The constraints pin a CPU build of torch; the project's own metadata stays an honest range.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "seqloom needs Python 3.11 or newer; set PYTHON=... to one")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[all,dev]'
	touch $(STAMP)

demo: setup
	$(BIN)/seqloom demo

test: setup
	$(BIN)/pytest -n 2 -m 'not slow and not real_data'

test-slow: setup
	$(BIN)/pytest -n 2

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: setup
	$(BIN)/python benchmarks/train.py

docs: setup
	$(BIN)/python docs/generate.py

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache
