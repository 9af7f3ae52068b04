# Everything needs only Python >= 3.11, make and the package registries.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# How many tests run at a time; each process of them has a control plane of its own.
JOBS ?= 3
# Daemons are started hundreds of times: their modules are compiled once, as in the image.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-alerts test-faults test-worlds test-oracle lint bench bench-core binaries \
	lock clean

demo: $(READY)  ## a real control plane on this machine, tenants, gangs and the scheduler
	$(BIN)/vscheduler demo

test: lint binaries test-alerts  ## lint, types, layers, and every test from unit to integration
	$(BIN)/pytest --numprocesses=$(JOBS) --dist=worksteal

test-alerts: $(READY)  ## alert rules and dashboard queries, under promtool: found, or built once
	$(BIN)/python -m tests.alerts

test-faults: binaries  ## what make test does of races and takeovers, all of it and at length
	$(BIN)/pytest -s --at-length --rounds=100 tests/integration/test_group_races.py \
		tests/integration/test_leases.py tests/integration/test_costly_tenants.py
	$(BIN)/pytest -s --at-length --lease-timing=default tests/integration/test_takeovers.py \
		tests/integration/test_side_by_side.py
	$(BIN)/pytest -s --at-length tests/integration/test_giving_up.py
	$(BIN)/pytest -s --at-length tests/integration/test_hostile_objects.py

test-worlds: $(READY)  ## random clusters in which everything changes and evicted pods come back, 2,100 of them
	$(BIN)/pytest --numprocesses=$(JOBS) --dist=worksteal --at-length tests/properties/test_worlds.py

test-oracle: binaries  ## our filters before the real kube-scheduler; FEATURE=gangs-ports: some of it
	$(BIN)/python -m tests.oracle $(FEATURE)

lint: $(READY)  ## style, types, layers, the Dockerfile
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/hadolint Dockerfile

bench: binaries  ## side by side with kube-scheduler and the bind-only limit; SHAPE=500x100x20: one shape
	$(BIN)/python -m tests.benchmarks $(SHAPE) $(BENCH)

bench-core: $(READY)  ## what deciding costs with no API server; CASE=reclaim: some of it
	$(BIN)/python -m tests.benchmarks.core $(CASE)

binaries: $(READY)  ## etcd, kube-apiserver and the rest: found, or built once and cached
	$(BIN)/python -m vscheduler.sandbox build

$(READY): requirements-dev.lock pyproject.toml
	@echo "setting up $(VENV) (once; about half a minute)"
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes \
		--requirement requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps \
		--no-build-isolation --editable .
	@touch $@

lock: $(READY)  ## write the lock files anew from pyproject.toml
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/python -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-annotate --no-header pyproject.toml -o requirements.lock
	$(BIN)/python -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-annotate --no-header pyproject.toml --group dev \
		-o requirements-dev.lock

clean:  ## remove what make made here (the binaries' cache stays)
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build
