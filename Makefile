# Two commands matter to a newcomer: `make demo` and `make test`. Each sets up what it needs.
PY      ?= python3
VENV    := .venv
BIN     := $(VENV)/bin
SECONDS ?=
PLAIN   ?=

.DEFAULT_GOAL := help
.PHONY: help venv demo test check format schemas bench bench-collectors bench-streams bench-correlator bench-e2e lock clean

help: ## this list
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: $(VENV)/.ready ## the virtual environment with every pinned dependency

$(VENV)/.ready: requirements-dev.lock pyproject.toml
	$(PY) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	@touch $@

demo: venv ## the whole pipeline, live, with the incident it exists for (SECONDS=60, PLAIN=1)
	$(BIN)/faultwire demo $(if $(SECONDS),--seconds $(SECONDS)) $(if $(PLAIN),--plain)

test: venv ## everything the project claims, the tests against a real broker included
	$(BIN)/pytest

check: venv ## lint, types, the import table, and that generated files are current
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: venv ## rewrite the code in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

schemas: venv ## write the JSON Schemas and the AsyncAPI document again
	$(BIN)/faultwire topics schema

bench: bench-streams bench-correlator bench-e2e bench-collectors ## every benchmark, one after the other (bench/README.md)

bench-collectors: venv ## parsers, log lines, the agent: latency, an idle node, a storm (as root)
	$(BIN)/python -m bench.parsers
	$(BIN)/python -m bench.logs
	$(BIN)/python -m bench.collectors

bench-streams: venv ## detectors alone, then the engine on a real broker
	$(BIN)/python -m bench.streams_core
	$(BIN)/python -m bench.engine

bench-correlator: venv ## one attempt of 10,000 nodes, and a thousand attempts in memory
	$(BIN)/python -m bench.attribution

bench-e2e: venv ## from raw event to action, beside three plain hops
	$(BIN)/python -m bench.e2e

lock: ## pin the dependencies again, with hashes and without download addresses
	$(PY) -m venv .cache/uv && .cache/uv/bin/pip install --quiet uv
	.cache/uv/bin/uv pip compile --quiet --generate-hashes --no-header --no-emit-index-url pyproject.toml -o requirements.lock
	.cache/uv/bin/uv pip compile --quiet --generate-hashes --no-header --no-emit-index-url -c requirements.lock --group dev pyproject.toml -o requirements-dev.lock

clean: ## remove what the targets above made
	rm -rf $(VENV) .cache .faultwire .pytest_cache .mypy_cache .ruff_cache
