# Two commands matter to a newcomer: `make demo` and `make test`. Each sets up what it needs.
PY      ?= python3
VENV    := .venv
BIN     := $(VENV)/bin
SECONDS ?=
JOBS    ?= 2
QUICK   ?=
PLAIN   ?=

.DEFAULT_GOAL := help
.PHONY: help venv page demo test check format schemas kube-apiserver loki bench venv-bench bench-collectors bench-streams \
        bench-correlator bench-e2e lock clean
PAGE    := correlator/service/page

help: ## this list
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: $(VENV)/.ready ## the virtual environment with every pinned dependency

$(VENV)/.ready: requirements-dev.lock pyproject.toml
	$(PY) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	@touch $@

page: $(PAGE)/assets/vendor/preact.js ## the libraries of the web page, pinned, from npm (nothing of it is needed to serve)

$(PAGE)/assets/vendor/preact.js: $(PAGE)/package-lock.json $(PAGE)/vendor.mjs
	@if command -v npm >/dev/null; then node $(PAGE)/vendor.mjs && touch $@ \
	  || echo "the page's libraries could not be fetched: everything works but the web page, which says so"; \
	else echo "no npm here: everything works but the web page, which says so (Debian: npm)"; fi

demo: venv page ## the whole pipeline, live, with the incident it exists for (SECONDS=60, PLAIN=1)
	$(BIN)/faultwire demo $(if $(SECONDS),--seconds $(SECONDS)) $(if $(PLAIN),--plain)

test: venv page ## everything the project claims, the tests against a real broker included (JOBS=1: one after the other)
	$(BIN)/pytest -n $(JOBS) --dist loadgroup

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

dashboards: venv ## draw Grafana's dashboards again from their descriptions
	$(BIN)/python deploy/grafana/build.py

kube-apiserver: .cache/kube-apiserver ## a real kube-apiserver for the tests, built from its Go module (some minutes)

.cache/kube-apiserver: tests/kube_apiserver/go.mod tests/kube_apiserver/main.go
	mkdir -p .cache
	cd tests/kube_apiserver && go build -trimpath -ldflags="-s -w" -o ../../$@ .

loki: .cache/loki ## a real Grafana Loki for the tests, built from its Go module (half an hour)

.cache/loki: tests/loki_server/go.mod
	mkdir -p .cache
	cd tests/loki_server && CGO_ENABLED=0 nice go build -trimpath -ldflags="-s -w" -o ../../$@ \
	  github.com/grafana/loki/v3/cmd/loki

chaos: venv ## the matrix of faults on real processes and brokers, as a table (as root)
	$(BIN)/python -m bench.chaos

audit: venv ## known vulnerabilities of what is pinned, where their database can be reached; and the bill of materials
	-$(BIN)/pip-audit -r requirements.lock --require-hashes --disable-pip
	$(BIN)/cyclonedx-py requirements requirements.lock -o sbom.cdx.json

bench: venv venv-bench ## every benchmark, one table and bench/results/latest.json (QUICK=1: only whether they work)
	$(BIN)/python -m bench $(if $(QUICK),--quick)

venv-bench: .venv-bench/.ready ## an environment for the engines that we compare with

.venv-bench/.ready: requirements-bench.lock
	$(PY) -m venv .venv-bench
	.venv-bench/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-bench.lock
	@touch $@

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

bench-scrape: venv ## what a scrape of a worker with 12,500 nodes costs
	$(BIN)/python -m bench.scrape

bench-sweep: venv ## the search for bad nodes in 10,000 simulated sweeps, beside bisection and round robin
	$(BIN)/python -m bench.sweep

lock: ## pin the dependencies again, with hashes and without download addresses
	$(PY) -m venv .cache/uv && .cache/uv/bin/pip install --quiet uv
	.cache/uv/bin/uv pip compile --quiet --generate-hashes --no-header --no-emit-index-url pyproject.toml -o requirements.lock
	.cache/uv/bin/uv pip compile --quiet --generate-hashes --no-header --no-emit-index-url -c requirements.lock --group dev pyproject.toml -o requirements-dev.lock
	.cache/uv/bin/uv pip compile --quiet --generate-hashes --no-header --no-emit-index-url --group pyproject.toml:bench -o requirements-bench.lock

clean: ## remove what the targets above made
	rm -rf $(VENV) .venv-bench .cache .faultwire $(PAGE)/assets/vendor .pytest_cache .mypy_cache .ruff_cache
