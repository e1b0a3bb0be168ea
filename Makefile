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
PROCESSES ?= 2
QUICK ?=

# Tests and measurements start many processes; without bytecode each of them would compile everything anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup check test requirements demo faults bench bench-peers clean

help:
	@echo "setup         make .venv with the project and its tools"
	@echo "check         lint, format, types, walls between rooms, tidiness"
	@echo "test          the whole test suite in PROCESSES=2, each with a private PostgreSQL"
	@echo "requirements  which requirement is held by which test, and which by none"
	@echo "demo          kill a worker and watch its run go on"
	@echo "faults        kill, freeze and break things under load; one page of findings"
	@echo "bench         measure Stepwell and the floor"
	@echo "bench-peers   the same work on other engines: PEERS=\"dbos absurd\" WORKS=\"W1\" REPEAT=1 QUICK=1"

setup: $(STAMP)

$(STAMP): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/pip install $(PIP_FLAGS) --editable ".[dev]"
	@touch $@

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy src tests tools bench
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/architecture

test: setup
	$(BIN)/python -m pytest -n $(PROCESSES) --dist worksteal

requirements: setup
	@$(BIN)/python -m tools.requirements

demo: setup
	@$(BIN)/python examples/crash_and_resume.py

faults: setup
	@$(BIN)/python -m tools.faults

# How a Python was built moves every figure: the fastest one here is measured with, for all contestants alike.
$(BENCH_STAMP): pyproject.toml bench/interpreter.py
	@$(PYTHON) -m bench.interpreter $(BENCH_HOME)
	@$(BENCH_HOME)/bin/pip install $(PIP_FLAGS) --editable ".[postgres]"
	@touch $@

bench: $(BENCH_STAMP)
	@$(BENCH_HOME)/bin/python -m bench.run --repeat $(REPEAT) $(if $(QUICK),--quick)

bench-peers: $(BENCH_STAMP)
	@$(BENCH_HOME)/bin/python -m bench.run_peers --peers $(PEERS) --works $(WORKS) --repeat $(REPEAT) $(if $(QUICK),--quick)

clean:
	rm -rf .venv .bench .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
