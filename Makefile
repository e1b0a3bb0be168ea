# Every target works alone on a fresh clone: it makes the environment first if it must.

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/installed.stamp
BENCH_HOME := .bench/home
BENCH_STAMP := $(BENCH_HOME)/installed.stamp
PIP_FLAGS := --quiet --disable-pip-version-check

PEERS ?= dbos absurd pgqrs langgraph
WORKS ?= W1 W2 W3 W7
REPEAT ?= 3
# Tests wait as much as they compute: two for each of two processors.
PROCESSES ?= 4
QUICK ?=
BASE ?=
UPGRADE ?=

# The same file for every supported Python and system; it names packages, no registry.
LOCK = pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	--no-emit-index-url $(if $(UPGRADE),--upgrade)
PYTEST := $(BIN)/python -m pytest -n $(PROCESSES) --dist worksteal
# Which third of the kill points `make test` takes: another one after each commit.
ROTATION ?= $(shell git rev-list --count HEAD 2>/dev/null || echo 0)
# Where the seeds of `make test-all` begin: where nobody has looked before.
FIRST_SEED ?= $(shell date +%s)

# Tests and measurements start many processes; without bytecode each of them would compile everything anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup lock studio check quick test test-all requirements demo faults bench bench-check bench-peers http-calls sandbox scale schedules clean reference contact-sheet

help:
	@echo "setup         make .venv with the project and its tools"
	@echo "lock          pin what setup installs, with hashes; UPGRADE=1 takes newer releases"
	@echo "studio        build the web pages that the server shows"
	@echo "check         lint, format, types, walls between rooms, tidiness"
	@echo "quick         tests between two edits: no PostgreSQL, no kills, few seeds"
	@echo "test          tests for a change: all stores, fixed seeds, a third of the kill points"
	@echo "test-all      tests for a release: fresh seeds, every kill point"
	@echo "requirements  which requirement is held by which test, and which by none"
	@echo "reference     write docs/reference from docstrings and the OpenAPI document"
	@echo "demo          Studio with seeded runs: kill a worker and watch its run continue"
	@echo "contact-sheet Studio's screens beside the pictures in REFERENCE=folder, in build/contact-sheet"
	@echo "faults        kill, freeze and break things under load; one page of findings"
	@echo "budgets       what Studio costs a browser, beside a page with the graph library alone"
	@echo "bench         measure Stepwell and the floor"
	@echo "bench-check   is W1, W9 or W11 slower than the kept ratios, or than BASE=commit in the same run?"
	@echo "schedules     50,000 schedules at one instant, two schedulers, one of them killed"
	@echo "http-calls    http nodes beside the bare client"
	@echo "sandbox       code nodes beside their bare sandbox, and hostile code beside other runs"
	@echo "scale         lists, counts and searches with 1,000,000 runs beside 10,000"
	@echo "bench-peers   the same work on other engines: PEERS=\"dbos absurd\" WORKS=\"W1\" REPEAT=1 QUICK=1"

setup: $(STAMP)

$(STAMP): pyproject.toml requirements/dev.lock
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/pip install $(PIP_FLAGS) --require-hashes --requirement requirements/dev.lock
	@$(BIN)/pip install $(PIP_FLAGS) --no-deps --no-build-isolation --editable .
	@touch $@

# What is locked stays unless a range in pyproject.toml says otherwise, or with UPGRADE=1.
lock:
	@test -x .venv/uv/bin/uv || ($(PYTHON) -m venv .venv/uv && .venv/uv/bin/pip install $(PIP_FLAGS) uv)
	@.venv/uv/bin/uv $(LOCK) requirements/build.in requirements/image.in --output-file requirements/image.lock
	@.venv/uv/bin/uv $(LOCK) pyproject.toml requirements/build.in --extra dev --output-file requirements/dev.lock
	@.venv/uv/bin/uv $(LOCK) pyproject.toml --extra postgres --extra encryption --extra yaml \
		--constraints requirements/dev.lock --output-file requirements/server.lock

# Builds only if the sources of Studio changed. Brings its own Node where the machine has none.
studio: setup
	@$(BIN)/python -m tools.studio build

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy src tests tools bench
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/architecture
	@$(BIN)/python -m tools.studio check

quick: setup
	STEPWELL_EFFORT=quick $(PYTEST)

test: setup studio
	@$(BIN)/python -m tools.studio test
	STEPWELL_ROTATION=$(ROTATION) $(PYTEST) --durations=20 --durations-min=5

test-all: setup studio
	@$(BIN)/python -m tools.studio test
	STEPWELL_EFFORT=all STEPWELL_FIRST_SEED=$(FIRST_SEED) $(PYTEST)

requirements: setup
	@$(BIN)/python -m tools.requirements

reference: setup
	@$(BIN)/python -m tools.reference

demo: setup studio
	@$(BIN)/stepwell demo

contact-sheet: setup
	@$(BIN)/python -m tools.contact_sheet $(if $(REFERENCE),--reference "$(REFERENCE)") $(SCREENS)

faults: setup
	@$(BIN)/python -m tools.faults

budgets: setup studio
	@$(BIN)/python -m tools.budgets

# How a Python was built moves every figure: the fastest one here is measured with, for all contestants alike.
$(BENCH_STAMP): pyproject.toml bench/interpreter.py
	@$(PYTHON) -m bench.interpreter $(BENCH_HOME)
	@$(BENCH_HOME)/bin/pip install $(PIP_FLAGS) --editable ".[postgres]"
	@touch $@

bench: $(BENCH_STAMP)
	@$(BENCH_HOME)/bin/python -m bench.run --repeat $(REPEAT) $(if $(QUICK),--quick)

bench-check: $(BENCH_STAMP)
	@$(BENCH_HOME)/bin/python -m bench.check --repeat $(REPEAT) $(if $(BASE),--base $(BASE)) $(if $(QUICK),--quick)

schedules: setup
	@$(BIN)/python -m tools.schedules

http-calls: setup
	@$(BIN)/python -m tools.http_calls

sandbox: setup
	@$(BIN)/python -m tools.sandbox

scale: setup
	@$(BIN)/python -m tools.scale

bench-peers: $(BENCH_STAMP)
	@$(BENCH_HOME)/bin/python -m bench.run_peers --peers $(PEERS) --works $(WORKS) --repeat $(REPEAT) $(if $(QUICK),--quick)

clean:
	rm -rf .venv .bench .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
