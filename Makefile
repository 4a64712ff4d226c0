.DEFAULT_GOAL := help
.PHONY: help run test lint types tests bench format clean

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

run: .venv/ready  ## FedDR beside FedAvg, FedProx and FedPD on a heterogeneous federation, about a minute
	@$(BIN)/feddr compare experiments/first.toml

test: lint types tests  ## lint, types and tests

lint: .venv/ready  ## style
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check

types: .venv/ready  ## mypy, strict
	@$(BIN)/mypy

tests: .venv/ready  ## the test suite
	@FEDDR_COMPILATION_CACHE="$(CURDIR)/.pytest_cache/compiled" $(BIN)/python -m pytest -n auto

bench: .venv/ready  ## feddr beside its peers, scaling and roofline, half an hour or more; BENCH=--quick for some minutes
	@$(BIN)/python benchmarks/bench.py $(BENCH)

format: .venv/ready  ## rewrite the files in the house style
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

clean:  ## remove .venv, caches and runs
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis runs
