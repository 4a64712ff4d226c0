.DEFAULT_GOAL := help
.PHONY: help run test lint types tests test-slow test-deploy test-cluster fault-table test-reliability test-repeat test-modules test-install fuzz bench reproduce docs format clean

PYTHON ?= python3
BIN := .venv/bin

help:  ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

# The environment is rebuilt only when what it is made from has changed.
.venv/ready: pyproject.toml constraints.txt
	@echo "Setting up .venv (once, about two minutes) ..."
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' || \
	  { echo "feddr needs Python 3.11 to 3.13, $(PYTHON) is $$($(PYTHON) --version); try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

run: .venv/ready  ## FedDR as it is beside six tuned methods on a heterogeneous federation, about a minute
	@$(BIN)/feddr compare src/feddr/experiments/first.toml

test: lint types tests  ## lint, types and tests

lint: .venv/ready  ## style
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check

types: .venv/ready  ## mypy, strict
	@$(BIN)/mypy

# Compiling takes most of the time of the tests, and what it would optimise runs for milliseconds. All other targets compile as users do.
tests: .venv/ready  ## the test suite
	@JAX_DISABLE_MOST_OPTIMIZATIONS=1 FEDDR_COMPILATION_CACHE="$(CURDIR)/.pytest_cache/compiled" $(BIN)/python -m pytest -n auto

test-slow: .venv/ready  ## theorems, kills, disks, searches, random interleavings: about ten minutes
	@FEDDR_COMPILATION_CACHE="$(CURDIR)/.pytest_cache/compiled" $(BIN)/python -m pytest -n auto -m slow

test-deploy: .venv/ready  ## kills, restarts, intruders: real SuperLinks and SuperNodes, about eight minutes
	@rm -rf .pytest_cache/faults
	@FEDDR_COMPILATION_CACHE="$(CURDIR)/.pytest_cache/compiled" FEDDR_FAULTS="$(CURDIR)/.pytest_cache/faults" \
	  $(BIN)/python -m pytest tests/deploy -m deploy -n 3 --dist loadgroup
	@$(BIN)/python -m tests.deploy.faults .pytest_cache/faults

test-cluster: .venv/ready  ## workers of Ray on two nodes, killed and lost, about three minutes
	@JAX_DISABLE_MOST_OPTIMIZATIONS=1 FEDDR_COMPILATION_CACHE="$(CURDIR)/.pytest_cache/compiled" \
	  $(BIN)/python -m pytest tests/engines/workers -m cluster -n 0

fault-table: .venv/ready  ## put the faults that the last test-deploy has seen into docs/DEPLOYMENT.md
	@$(BIN)/python -m tests.deploy.faults .pytest_cache/faults --write

test-reliability: .venv/ready  ## kills, damaged checkpoints, full disks, 100,000 rounds: about five minutes
	@rm -rf .pytest_cache/reliability
	@FEDDR_COMPILATION_CACHE="$(CURDIR)/.pytest_cache/compiled" FEDDR_FAULTS="$(CURDIR)/.pytest_cache/reliability" \
	  $(BIN)/python -m pytest tests/reliability tests/checkpoint tests/commands/test_resume.py -m "" -n 2
	@$(BIN)/python -m tests.reliability.faults .pytest_cache/reliability $(FAULTS)

REPEAT ?= 20
test-repeat: .venv/ready  ## the faults again and again, but for the three longest tests: REPEAT=20 times
	@for run in $$(seq $(REPEAT)); do \
	  FEDDR_COMPILATION_CACHE="$(CURDIR)/.pytest_cache/compiled" $(BIN)/python -m pytest tests/reliability tests/checkpoint tests/commands/test_resume.py -m "not reliability" -n 2 -q || exit 1; \
	  echo "Run $$run of $(REPEAT) has passed."; \
	done

test-modules: .venv/ready  ## models of PyTorch, flax and equinox, which are installed first, about two minutes
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[modules]'
	@FEDDR_COMPILATION_CACHE="$(CURDIR)/.pytest_cache/compiled" $(BIN)/python -m pytest -n 0 tests/modules

# No .venv: this is about the environments of others.
test-install:  ## the wheel in empty environments, with the newest and the oldest versions of what it needs, about four minutes
	@$(PYTHON) tests/installed.py

FUZZ ?= 10000
fuzz: .venv/ready  ## broken configs, files and arguments: FUZZ=10000 cases, and 2500 of the Python API, about 20 minutes
	@FEDDR_COMPILATION_CACHE="$(CURDIR)/.pytest_cache/compiled" FEDDR_FUZZ=$(FUZZ) FEDDR_FUZZ_SEED=$${FEDDR_FUZZ_SEED:-$$(date +%s)} \
	  $(BIN)/python -m pytest tests/fuzz/test_fuzz.py tests/fuzz/test_api.py -n 0 -s --hypothesis-profile=explore

bench: .venv/ready  ## feddr beside its peers, scaling and roofline, half an hour or more; BENCH=--quick for some minutes
	@$(BIN)/python benchmarks/bench.py $(BENCH)

reproduce: .venv/ready  ## the paper's figures again, some hours; REPRODUCE=--quick for some minutes
	@$(BIN)/feddr reproduce $(REPRODUCE)

docs: .venv/ready  ## the documentation as a site, in site/; open site/index.html
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

format: .venv/ready  ## rewrite the files in the house style
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

clean:  ## remove .venv, caches and runs
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis runs site
