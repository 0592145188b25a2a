# Every target sets up what it needs: on a fresh clone, `make test` is enough.
SHELL := bash
PYTHON ?= python3
JOBS ?= 2
BIN := .venv/bin
INSTALLED := .venv/.installed
PEERS := .venv/.peers
LOWEST := build/lowest/.installed
# Nobody imports most of what is installed: Python compiles a module when it is first imported.
PIP := -m pip install -qq --no-compile --disable-pip-version-check
LOWEST_TESTS := $(addprefix tests/,calibration/classifiers/test_classifier.py calibration/regressors/test_regressor.py calibration/classifiers/test_module.py \
  linear/test_dynamic.py linear/test_robust_checks.py linear/test_robust_pca.py linear/test_plain_questions.py \
  metrics/test_classification.py metrics/test_regression.py metrics/test_crps.py metrics/test_properties.py \
  outliers/test_checks.py outliers/test_categories.py outliers/test_scatter.py \
  tabular/test_scikit_learn.py tabular/networks/test_random_state.py \
  losses/test_layouts.py distributions/test_likelihood_contract.py losses/test_losses.py parameters/test_parameters.py distributions/test_precision.py plots/test_plots.py priors/test_priors.py)
LOWEST_ONLY := not compiles

# Containers often set this, and then each of the many processes that tests start would compile torch and scikit-learn
# anew, which takes longer than most tests.
unexport PYTHONDONTWRITEBYTECODE
# torch's own threads would fight with the workers, and with other work, for the same cores.
test heavy docs lowest reproduce: export OMP_NUM_THREADS ?= 1
ifneq ($(wildcard ../shared/data),)
test heavy bench: export LIKELY_DATA ?= $(abspath ../shared/data)
endif

.DEFAULT_GOAL := help
.PHONY: help venv test heavy test-all lint types imports docs links dist bare addressed release recipe lowest lowestvenv reproduce bench clean

help: ## show this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

venv: $(INSTALLED) ## .venv with the pinned versions of constraints.txt

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("likely needs Python 3.11 or later; name one: make PYTHON=python3.12" if sys.version_info < (3, 11) else 0)'
	@echo "Setting up .venv (a few minutes the first time: it downloads PyTorch)"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python $(PIP) -c constraints.txt -e '.[dev,docs]'
	@touch $@

$(PEERS): $(INSTALLED)
	@echo "Installing the libraries we compare with"
	@$(BIN)/python $(PIP) -c constraints.txt -e '.[peers]'
	@touch $@

# A test that stands still says where, and ends: the slowest takes a minute.
PYTEST = $(BIN)/pytest -q -n $(JOBS) --dist worksteal $(if $(SHUFFLE),--shuffle $(SHUFFLE)) -o faulthandler_timeout=900 -o faulthandler_exit_on_timeout=true
test: $(INSTALLED) ## what a change can break, docstrings and README; PART=outliers: of one part and what imports it; SHUFFLE=7: in random order
	$(PYTEST) -m 'not heavy' $(if $(PART),$$($(BIN)/python tools/part.py $(PART)))

heavy: $(INSTALLED) ## what is left out there: several processes, clusters, large tables, experiments, the guide's pages
	$(PYTEST) -m heavy

test-all: test heavy ## both

lint: $(INSTALLED) ## ruff: rules and format
	$(BIN)/ruff check --output-format concise
	$(BIN)/ruff format --check

types: $(INSTALLED) ## mypy, strict
	$(BIN)/mypy

imports: $(INSTALLED) ## the floors of the house, by import-linter
	$(BIN)/lint-imports --no-logo

docs: $(INSTALLED) ## the site, in docs/_build/html
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html
	$(BIN)/python docs/_check_links.py docs/_build/html
	$(BIN)/python -m pytest -q tests/test_words.py

links: $(INSTALLED) ## ask the pages that the site links to whether they are there; needs a network
	$(BIN)/sphinx-build -q -b linkcheck docs docs/_build/links

# Three files to upload: the sdist, and from it a wheel for this platform and one for every other. On Linux, auditwheel
# names the oldest glibc that the first one runs on; that its libraries need other processors is no error, for the one
# that suits is chosen when they are loaded. Where there is no C++ compiler the two wheels are one.
dist: $(INSTALLED) ## the sdist, a wheel for this platform and a pure one, in dist/
	@rm -rf dist build/dist && mkdir -p build/dist
	@{ $(BIN)/python -m build --sdist --outdir dist . \
	  && LIKELY_PURE=1 $(BIN)/python -m build --wheel --outdir dist dist/*.tar.gz \
	  && $(BIN)/python -m build --wheel --outdir build/dist dist/*.tar.gz; } > build/dist/log 2>&1 || { cat build/dist/log; exit 1; }
	@case "$$(ls build/dist)" in \
	  *-linux_*) PATH="$(abspath $(BIN)):$$PATH" auditwheel repair --disable-isa-ext-check -w dist build/dist/*.whl >> build/dist/log 2>&1 \
	    || { cat build/dist/log; exit 1; };; \
	  *) mv -f build/dist/*.whl dist;; \
	esac
	@rm -rf build/dist && ls dist

# $(WHEEL) is the one for this platform: "any" is the first of the names, and the only one without a compiler.
WHEEL = $$(ls dist/likely-*.whl | tail -n 1)
bare: dist ## both wheels without extras, in a venv of their own: README.md's code runs, the command names what it lacks
	@rm -rf build/bare && $(PYTHON) -m venv build/bare
	@build/bare/bin/python $(PIP) -c constraints.txt $(WHEEL)
	@build/bare/bin/python -W error -c 'import likely; print("import likely", likely.__version__, "without extras: ok")'
	@for wheel in $(WHEEL) dist/likely-*-any.whl; do \
	  build/bare/bin/python $(PIP) --no-deps --force-reinstall $$wheel \
	  && build/bare/bin/likely --version && build/bare/bin/likely info | sed -n '/^kernels/,/^[^k ]/{/^ /p}' \
	  && build/bare/bin/python -m doctest -o NORMALIZE_WHITESPACE -o ELLIPSIS README.md \
	  && echo "README.md without extras, $$wheel: ok" || exit 1; \
	done
	@build/bare/bin/likely info | grep 'location *absent' > /dev/null && echo "the pure wheel has no compiled kernels: ok"
	@{ build/bare/bin/likely 2>&1 || true; } | grep -F 'likely[cli]'
	@rm -rf build/bare

addressed: ## refuse addresses in pyproject.toml that only stand for others
	@! grep -n '\.invalid/' pyproject.toml || { echo 'set the addresses above in [project.urls] of pyproject.toml first'; exit 1; }

release: addressed dist ## the files to upload, once pyproject.toml has the addresses of the project
	@echo 'to upload: twine upload dist/*'

recipe: dist ## the conda-forge recipe of the sdist in dist/, in dist/recipe/
	@mkdir -p dist/recipe && sed "s/^  sha256: .*/  sha256: $$($(BIN)/python -c 'import hashlib, sys; print(hashlib.file_digest(sys.stdin.buffer, "sha256").hexdigest())' < dist/likely-*.tar.gz)/" recipe/recipe.yaml > dist/recipe/recipe.yaml
	@grep sha256: dist/recipe/recipe.yaml

# The tests that meet other libraries, and not those that repeat our own arithmetic, which is the same on every version:
# scikit-learn's checks of every estimator and its pipelines, pandas' frames, torch's distributions, special functions,
# autograd and generators in every loss and prior, scikit-learn's and scipy's functions in the metrics, matplotlib in the
# plots. A new estimator's file with scikit-learn's checks belongs here; how well a network fits does not. Old versions
# warn of each other, so warnings are no errors here; and torch 2.6 takes minutes to compile what newer ones compile in
# seconds.
lowest: dist $(LOWEST) ## the wheel on the lowest versions that pyproject.toml names, in a venv of its own
	@build/lowest/bin/python $(PIP) --no-deps --force-reinstall $(WHEEL)
	@build/lowest/bin/python -m pytest -q -n $(JOBS) -p no:cacheprovider -o filterwarnings=ignore -o xfail_strict=false -k '$(LOWEST_ONLY)' --dist worksteal $(LOWEST_TESTS)
	@rm -rf build/lowest

lowestvenv: $(LOWEST) ## the venv of `make lowest`, all but the wheel

$(LOWEST): pyproject.toml tools/lowest.py
	@rm -rf build/lowest && $(PYTHON) -m venv build/lowest
	@$(PYTHON) tools/lowest.py cli arrow plots > build/lowest/requirements.txt
	@build/lowest/bin/python $(PIP) -r build/lowest/requirements.txt pytest pytest-xdist hypothesis mpmath
	@touch $@

reproduce: $(INSTALLED) ## the paper's tables and figures, quick mode, in runs/report.html
	$(BIN)/python -m experiments.paper --quick --jobs $(JOBS) --out runs

bench: $(PEERS) ## what we claim, measured against the libraries we compare with
	$(BIN)/python -m experiments.benchmarks

clean: ## remove everything made here, .venv included
	rm -rf .venv runs dist build docs/_build docs/_generated docs/api/generated docs/gallery .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
