# Every target sets up what it needs: on a fresh clone, `make test` is enough.
SHELL := bash
PYTHON ?= python3
JOBS ?= 2
BIN := .venv/bin
INSTALLED := .venv/.installed
PEERS := .venv/.peers

# torch's own threads would fight with the test workers for the same cores.
test: export OMP_NUM_THREADS ?= 1
ifneq ($(wildcard ../shared/data),)
test bench: export LIKELY_DATA ?= $(abspath ../shared/data)
endif

.DEFAULT_GOAL := help
.PHONY: help venv test lint types imports docs bare reproduce bench clean

help: ## show this list
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1\t/' | expand -t 12

venv: $(INSTALLED) ## .venv with the pinned versions of constraints.txt

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("likely needs Python 3.11 or later; name one: make PYTHON=python3.12" if sys.version_info < (3, 11) else 0)'
	@echo "Setting up .venv (a few minutes the first time: it downloads PyTorch)"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[dev,docs]'
	@touch $@

$(PEERS): $(INSTALLED)
	@echo "Installing the libraries we compare with"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[peers]'
	@touch $@

test: $(INSTALLED) ## unit tests and every doctest
	$(BIN)/pytest -q -n $(JOBS) --dist worksteal

lint: $(INSTALLED) ## ruff: rules and format
	$(BIN)/ruff check --output-format concise
	$(BIN)/ruff format --check

types: $(INSTALLED) ## mypy, strict
	$(BIN)/mypy

imports: $(INSTALLED) ## the floors of the house, by import-linter
	$(BIN)/lint-imports --no-logo

docs: $(INSTALLED) ## the site, in docs/_build/html
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html

bare: ## the wheel without extras, in a venv of its own: imports, and the command says what it lacks
	@rm -rf build/bare && $(PYTHON) -m venv build/bare
	@build/bare/bin/python -m pip install -qq --no-compile --disable-pip-version-check -c constraints.txt .
	@build/bare/bin/python -W error -c 'import likely; print("import likely", likely.__version__, "without extras: ok")'
	@{ build/bare/bin/likely 2>&1 || true; } | tee /dev/stderr | grep -qF 'likely[cli]'
	@rm -rf build/bare

reproduce: $(INSTALLED) ## the paper's tables and figures, quick mode, in runs/report.html
	$(BIN)/likely reproduce --quick --out runs

bench: $(PEERS) ## what we claim, measured against the libraries we compare with
	$(BIN)/likely bench

clean: ## remove everything made here, .venv included
	rm -rf .venv runs dist build docs/_build docs/_generated .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
