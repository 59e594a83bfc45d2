# Every target sets up what it needs in .venv, and is quick the second time.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
TOOLS := $(VENV)/.tools
READY := $(VENV)/.ready
WHEEL_VENV := $(VENV)-wheel
WHEEL_READY := $(WHEEL_VENV)/.ready
COMPILED := $(VENV)/.compiled
# The versions that checks and tests use (`make lock` renews them). A Python that has no file yet gets the newest.
PINS ?= requirements/$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])').txt
CONSTRAINT := $(if $(wildcard $(PINS)),--constraint $(PINS))
# What they install of the package. Signing needs a newer pydantic than the lowest one: there, a stand-in is tested.
EXTRAS ?= dev,signing
# What `make demo` shows: clinic, or mail.
SHOW ?= clinic
# Cores to use.
JOBS ?= $(shell getconf _NPROCESSORS_ONLN)
INSTALL := --disable-pip-version-check install --quiet
PIP := -m pip $(INSTALL)
# What one process has compiled, the many others of a test run must be able to read.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-pythons test-lowest test-scale lint unit coverage properties wheel bench experiments results results-quick quick-searches quick-peers proofs schemas lock format clean

help:  ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

# Without isolation the package is built by the pinned tools, too, and two packages that the example needs, by setuptools.
$(TOOLS): $(wildcard $(PINS))
	@echo "setting up $(VENV) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python $(PIP) $(CONSTRAINT) --upgrade pip hatchling editables setuptools
	@touch $@

# Only a part of what is installed is ever imported, and Python compiles that then.
$(READY): $(TOOLS) pyproject.toml emsco_runtime/__init__.py
	@$(BIN)/python $(PIP) $(CONSTRAINT) --no-compile --no-build-isolation --editable '.[$(EXTRAS)]'
	@touch $@

demo: $(READY)  ## train, export and decide on a small data set, and show what happens; SHOW=mail: a spam filter at work
ifeq ($(SHOW),mail)
	@$(MAKE) --no-print-directory -C examples/spam_filter demo
else
	@$(BIN)/emsco-demo --out build/demo
endif

# While one core installs all that training needs, the other checks the wheel, which needs little.
test:  ## every check
	@$(MAKE) --no-print-directory --jobs=2 $(READY) wheel
	@$(MAKE) --no-print-directory --jobs=2 lint $(COMPILED)
	@$(MAKE) --no-print-directory unit

test-pythons:  ## `make test` on every supported Python of this machine, each with an environment of its own
	@$(PYTHON) tools/pythons.py | while read version python; do \
	  echo "== Python $$version: $$python"; \
	  $(MAKE) --no-print-directory test PYTHON=$$python VENV=.venv-$$version < /dev/null || exit 1; \
	done

test-lowest:  ## the tests on the oldest supported Python with the lowest supported versions of all packages
	@$(PYTHON) tools/pythons.py | head -n 1 | while read version python; do \
	  $(MAKE) --no-print-directory unit PYTHON=$$python VENV=.venv-lowest PINS=requirements/lowest.txt EXTRAS=dev < /dev/null; \
	done

# The engines take half a gigabyte: an environment of their own. Spark needs Java 17.
test-scale:  ## the tests on Spark, Dask, Ray and DuckDB
	@test -x $(VENV)-scale/bin/python || $(PYTHON) -m venv $(VENV)-scale
	@$(VENV)-scale/bin/python $(PIP) --constraint requirements/scale.txt --editable '.[scale-test]'
	$(VENV)-scale/bin/python -m pytest --disable-plugin-autoload -p hypothesispytest tests/scale

lint: $(READY)  ## formatting, lint rules, types, import rules
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy
	$(BIN)/mypy tests/typing
	$(BIN)/lint-imports

# Of every installed plugin pytest compiles the whole package again, in every process: these are all that is needed.
PLUGINS := --disable-plugin-autoload -p xdist -p hypothesispytest

# Once, before several processes would do it at the same time; of tests, pytest compiles a form of its own.
$(COMPILED): $(READY) tools/compile.py $(wildcard emsco_train/search/exact/*.py emsco_train/models/logistic/*.py emsco_train/search/scoring/*.py)
	$(BIN)/python tools/compile.py
	$(BIN)/python -m compileall -q emsco_runtime emsco_train examples
	@$(BIN)/pytest $(PLUGINS) --collect-only --quiet > /dev/null || true  # what is wrong is shown by the runs
	@touch $@

# One process more than there are cores: some tests wait for a clock.
IN_PARALLEL := --numprocesses=$(shell expr $(JOBS) + 1) --dist=loadfile --no-loadscope-reorder $(PLUGINS)

# As many processes as cores are busy already: more threads in each would only wait for each other.
unit coverage properties: export OMP_NUM_THREADS = 1
unit coverage properties: export OPENBLAS_NUM_THREADS = 1

unit: $(READY) $(COMPILED)  ## the tests
	$(BIN)/pytest $(IN_PARALLEL) --ignore=tests/scale

# Counting lines takes half as long again: tests that repeat much, and those of the docs and the example, are left out.
coverage: $(READY) $(COMPILED)  ## lines that tests reach: runtime 100 %, train 95 %; properties with more examples
	@rm -f .coverage .coverage.*
	$(BIN)/coverage run -m pytest $(IN_PARALLEL) --hypothesis-profile=full -m 'not uncounted' --ignore=tests/scale
	@$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --include='emsco_runtime/*' --fail-under=100
	$(BIN)/coverage report --include='emsco_train/*' --fail-under=95

properties: $(READY) $(COMPILED)  ## the property tests with many examples that no run had before
	$(BIN)/pytest $(IN_PARALLEL) --hypothesis-profile=random -m hypothesis

# The other environment's pip installs into it.
$(WHEEL_READY): $(TOOLS) pyproject.toml
	@echo "setting up $(WHEEL_VENV) ..."
	@test -x $(WHEEL_VENV)/bin/python || $(PYTHON) -m venv --without-pip $(WHEEL_VENV)
	@$(BIN)/python -m pip --python $(WHEEL_VENV)/bin/python $(INSTALL) $(CONSTRAINT) numpy onnxruntime pydantic pytest hypothesis
	@touch $@

wheel: $(WHEEL_READY)  ## install the built wheel without extras; run the tests that prove the install
	$(BIN)/python tools/wheel_check.py --python $(WHEEL_VENV)/bin/python $(CONSTRAINT)

bench: $(READY)  ## benchmarks: tables, and build/bench-*.json
	$(BIN)/python benchmarks/runtime.py
	$(BIN)/python benchmarks/asynchronous.py
	$(BIN)/python benchmarks/observers.py
	$(BIN)/python benchmarks/logistic.py
	$(BIN)/python benchmarks/exhaustive.py
	$(BIN)/python benchmarks/search.py
	$(BIN)/python benchmarks/nsl_kdd.py
	$(BIN)/python benchmarks/spam_filter.py
	$(BIN)/python benchmarks/bogofilter.py
	$(BIN)/python benchmarks/hostile_mail.py

experiments: $(READY)  ## the long measurements of docs/experiments.md; needs the shared data, and an hour or two
	$(BIN)/python benchmarks/landscapes.py
	$(BIN)/python benchmarks/spambase.py
	$(BIN)/python benchmarks/units.py
	$(BIN)/python benchmarks/wide.py tables
	$(BIN)/python benchmarks/wide.py tables --columns 1000 --rows 5000 --seeds 1
	$(BIN)/python benchmarks/wide.py floors
	$(BIN)/python benchmarks/wide.py volume --seeds 20
	$(BIN)/python benchmarks/choices.py --repeats 100 --cases spambase-9 --rows 1000 2000
	$(BIN)/python benchmarks/choices.py --repeats 100 --cases nsl_kdd-10 --rows 1000 2000 4000
	$(BIN)/python benchmarks/promises.py small
	$(BIN)/python benchmarks/promises.py wide
	$(BIN)/python benchmarks/promises.py certified
	$(BIN)/python benchmarks/temperature.py
	$(BIN)/python benchmarks/curve_columns.py
	$(BIN)/python benchmarks/boosted_trees.py
	$(BIN)/python benchmarks/stages.py models --divisions 10 --kinds straight curved boosted
	$(BIN)/python benchmarks/stages.py cascades --divisions 10
	$(BIN)/python benchmarks/nsl_kdd.py --full
	$(BIN)/python benchmarks/nsl_kdd.py --full --classes 5
	$(BIN)/python benchmarks/attacks.py

# One command for each experiment: what is in the CSV files already is not measured again.
PAPER := cd benchmarks && $(abspath $(BIN))/python -m paper

$(VENV)/.paper: $(READY)
	@$(BIN)/python $(PIP) $(CONSTRAINT) --no-build-isolation --editable '.[paper]'
	@touch $@

results: $(VENV)/.paper  ## docs/results.md: the paper's experiments in full; needs the shared data, and a night
	$(PAPER) all
	$(PAPER) page

results-quick: $(VENV)/.paper  ## the same with few runs and short searches, in build/results; some ten minutes
	@mkdir -p build/results
	@$(MAKE) --no-print-directory --jobs=2 quick-searches quick-peers
	$(PAPER) page --folder ../build/results --page ../build/results.md

quick-searches:
	$(PAPER) fronts sweeps hypervolume --quick --folder ../build/results
	$(PAPER) wishes --quick --runs 1 --folder ../build/results
	$(PAPER) budgets --quick --folder ../build/results

quick-peers:
	$(PAPER) comparison --quick --folder ../build/results
	$(PAPER) alternatives --quick --runs 1 --folder ../build/results

proofs: $(READY) $(WHEEL_READY) coverage  ## the long forms of the tests, their coverage, and all of the runtime's tests on the wheel
	EMSCO_PROOFS=1 $(BIN)/python -m pytest -m proof
	$(BIN)/python tools/wheel_check.py --python $(WHEEL_VENV)/bin/python $(CONSTRAINT) --all

schemas: $(READY)  ## write schemas/ from the models
	$(BIN)/python tools/schemas.py

lock:  ## renew requirements/: the newest versions, and the lowest; needs every supported Python
	$(PYTHON) tools/lock.py

format: $(READY)  ## format, and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:  ## remove everything that was built
	rm -rf .venv* build dist .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache .ruff_cache
