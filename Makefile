# `make demo` and `make test` need only Python 3.11+, git and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

# One stamp for each set of extras in pyproject.toml that is installed: demo, all, dev, docs, browser.
DEMO := $(VENV)/.installed-demo
ALL := $(VENV)/.installed-all
DEV := $(VENV)/.installed-dev
DOCS := $(VENV)/.installed-docs
BROWSER := $(VENV)/.installed-browser

NPM_CLIENTS := translate@3.1.0 libretranslate@1.0.1 libretranslate-ts@0.5.12

.PHONY: help setup setup-dev demo test test-slow test-browser test-clients lint bench docs clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(ALL) ## Install seqloom with all optional features into .venv

setup-dev: $(DEV) ## Install the development tools as well

# Each set builds on the one before. The demo has its own because a first look should not wait for the rest:
# installing takes 23 (demo), 40 (all) and 54 (dev) seconds of processor time, and 1.1, 1.5 and 1.8 GB.
$(ALL): $(DEMO)
$(DEV): $(ALL)
$(DOCS): $(ALL)
$(BROWSER): $(DEV)

# The constraints pin a CPU build of torch; the project's own metadata stays an honest range.
$(VENV)/.installed-%: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing seqloom[$*] into $(VENV) ..."
	@$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[$*]'
	@touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "seqloom needs Python 3.11 or newer; set PYTHON=... to one")'
	@$(PYTHON) -m venv $(VENV)

demo: $(DEMO) ## Learn to pronounce English words, and show what was learned
	@$(BIN)/seqloom demo

test: $(DEV) ## Run the tests, except slow ones and those that need corpora
	$(BIN)/pytest -n 2 -m 'not slow and not real_data and not browser'

test-slow: $(DEV) ## Run all tests
	$(BIN)/pytest -n 2 -m 'not browser'

test-browser: $(BROWSER) ## Run the tests of the studio; needs chromium
	$(BIN)/pytest -n 0 tests/browser

test-clients: $(DEV) ## Test the server with clients from npm, which are installed into a temporary folder
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && \
	npm install --silent --no-audit --no-fund --prefix "$$folder" $(NPM_CLIENTS) && \
	SEQLOOM_NPM_CLIENTS="$$folder" $(BIN)/pytest -n 0 tests/unit/serve/test_clients.py

lint: $(DEV) ## Run ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(DEV) ## Measure the speed of training
	$(BIN)/python benchmarks/train.py

docs: $(DOCS) ## Build the documentation site: docs/_build/html/index.html
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/labs.py
	$(BIN)/sphinx-build --fresh-env --write-all -W --keep-going -q docs docs/_build/html
	$(BIN)/python docs/check_offline.py docs/_build/html

clean: ## Remove the environment and everything that was built
	rm -rf $(VENV) build dist docs/_build .pytest_cache .mypy_cache .ruff_cache
