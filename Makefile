# Everything runs in .venv, which these targets make and keep in step with pyproject.toml.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
# What stands in for Terraform's providers needs an older protobuf than Google's clients.
TERRAFORM_TOOLS := .venv-terraform/.installed
# What user code runs in: an interpreter with the packages of the platform's releases.
CES_ENVIRONMENT := .cache/ces/interpreter.json
# Two workers: what a small CI machine has cores for.
WORKERS ?= 2
# Tests start some hundred processes: each would compile the same modules, where containers forbid to keep it.
export PYTHONDONTWRITEBYTECODE :=

# One after the other, as they are listed, however many jobs make is given.
.NOTPARALLEL:
.PHONY: demo test ready unit test-oldest check lint format bench bench-sandbox bench-templates browser chaos emulators sandbox terraform-tools clean
.DEFAULT_GOAL := test

$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "$(PYTHON) must be Python 3.11 or newer; name one: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

$(TERRAFORM_TOOLS): tests/terraform/requirements.txt
	$(PYTHON) -m venv .venv-terraform
	.venv-terraform/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

terraform-tools: $(TERRAFORM_TOOLS)

$(CES_ENVIRONMENT): gcp_adk_store/runtime/sandbox/environment.py | $(INSTALLED)
	$(BIN)/gcp-adk-store ces install --folder $(@D)
	@touch $@

# The main job: a real agent on the emulators, then a second process that goes on where it stopped.
demo: $(INSTALLED)
	$(BIN)/python -m examples.demo

# Fast tests first, once where `make check test` asks for them twice; the emulators are started by the tests
# that need them. A worker runs all tests of a file, and so makes what they share once; in the order of their
# names, since by their numbers of tests the longest, which have few, would come last.
test: ready unit
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder --ignore=tests/unit tests

# What is missing for the tests is said once, before anything runs, instead of by every test.
ready: $(INSTALLED) $(TERRAFORM_TOOLS) $(CES_ENVIRONMENT)
	@$(BIN)/python -m gcp_adk_store.testing --check
	@$(BIN)/python -m tests.server.chromium --check
	@$(BIN)/python -m tests.runtime.sandbox.debian --check
	@$(BIN)/python -m tests.terraform

unit: $(INSTALLED)
	$(BIN)/python -m pytest -q -n $(WORKERS) tests/unit

# Chromium, in which the page of adk web is opened; root installs it with apt-get, others are told how.
browser: $(INSTALLED)
	@$(BIN)/python -m tests.server.chromium --install

# What user code is tested in: bubblewrap and libseccomp, by apt-get as root, and the packages of the platform.
sandbox: $(INSTALLED) $(CES_ENVIRONMENT)
	@$(BIN)/python -m tests.runtime.sandbox.debian --install

# The oldest ADK that is supported; `make test` runs on the one that pyproject.toml pins, which templates are
# compared with.
test-oldest: $(CES_ENVIRONMENT)
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check google-adk==2.8.0 2>/dev/null
	.venv-oldest/bin/python -m pytest -q -n $(WORKERS) --dist loadfile tests/unit tests/services tests/contract tests/conformance/test_ours.py tests/golden tests/property tests/runtime tests/server tests/templates --ignore=tests/templates/test_differential.py

check: lint unit

lint: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(INSTALLED)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Everything beside ADK's own, in one run of a quarter of an hour; read the ratios. `make bench OPTIONS=--quick`
bench: $(INSTALLED)
	$(BIN)/python -W ignore -m benchmarks --json benchmarks/results/bench.json $(OPTIONS)

# Instructions beside ADK's own and Jinja; needs no emulator.
bench-templates: $(INSTALLED)
	$(BIN)/python -W ignore -m benchmarks.templates --json benchmarks/results/templates.json

# How long the sandbox takes to start, and a call in it; needs no emulator.
bench-sandbox: $(INSTALLED) $(CES_ENVIRONMENT)
	$(BIN)/python -W ignore -m benchmarks.sandbox --environment $(dir $(CES_ENVIRONMENT)) --json benchmarks/results/sandbox.json

# Workers that are killed while the network fails; nothing may be lost. `make chaos SECONDS=60 SEED=7`
SECONDS ?= 60
chaos: $(INSTALLED)
	$(BIN)/python -m tests.chaos --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))

# Both emulators in the foreground, for work by hand; Ctrl-C ends them.
emulators: $(INSTALLED)
	$(BIN)/python -m gcp_adk_store.testing

clean:
	rm -rf $(VENV) .venv-oldest .venv-terraform .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis dist build
