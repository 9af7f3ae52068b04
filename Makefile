# All targets need only Python >= 3.11, make and the package registries.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# The number of test processes; each process has a control plane of its own.
JOBS ?= 5
# Tests start hundreds of daemons, so modules are compiled to bytecode once, as in the image.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-alerts test-faults test-web simulate mutants test-worlds test-oracle lint bench bench-core \
	bench-gangs binaries helm lock clean

demo: $(READY)  ## run a real control plane on this machine, with tenants and gangs; ARGS=--no-browser
	$(BIN)/python -m sandbox demo $(ARGS)

test: lint binaries helm test-alerts  ## check style, types and layers, and run every test from unit to integration
	$(BIN)/pytest --numprocesses=$(JOBS) --dist=worksteal

test-alerts: $(READY)  ## check alert rules and dashboard queries with promtool, which is built if it isn't found
	$(BIN)/python -m tests.alerts

test-web: $(READY)  ## drive a browser through the page; as root, this installs chromium where it is missing
	$(BIN)/python -m tests.web

test-faults: binaries  ## run the races and takeovers of make test with many more rounds
	$(BIN)/pytest -s --at-length --rounds=100 tests/integration/test_group_races.py \
		tests/integration/test_leases.py tests/integration/test_costly_tenants.py
	$(BIN)/pytest -s --at-length --lease-timing=default tests/integration/test_takeovers.py \
		tests/integration/test_side_by_side.py
	$(BIN)/pytest -s --at-length tests/integration/test_giving_up.py \
		tests/integration/test_hostile_objects.py
	$(BIN)/pytest --numprocesses=$(JOBS) --dist=worksteal --at-length -m at_length \
		tests/integration/test_daemon.py tests/integration/test_fair_shares.py \
		tests/integration/test_gang_api.py tests/integration/test_job_sets.py tests/integration/test_native_groups.py \
		tests/integration/test_refusals.py tests/integration/test_rotation.py \
		tests/integration/test_silent_watches.py tests/integration/test_volumes_killed.py \
		tests/simulation/test_killed.py tests/simulation/test_seeds.py tests/simulation/test_volume_worlds.py

simulate: $(READY)  ## run the whole daemon in a simulated world with faults; SEED=17 HOURS=1
	$(BIN)/python -m tests.simulation $(or $(SEED),1) --hours $(or $(HOURS),1)

mutants: $(READY)  ## plant each known fault in a copy of the tree, and run the test that finds it; NAME=...: one
	$(BIN)/python -m tests.mutants $(NAME)

test-worlds: $(READY)  ## run every property with all its examples, and 2,100 random clusters that keep changing
	$(BIN)/pytest --numprocesses=$(JOBS) --dist=worksteal --at-length tests/properties

test-oracle: binaries  ## compare our filters with the real kube-scheduler; FEATURE=gangs-ports: one feature
	$(BIN)/python -m tests.oracle $(FEATURE)

lint: $(READY)  ## check style, types, layers and the Dockerfile
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/hadolint Dockerfile

bench: binaries  ## compare with kube-scheduler and the bind-only limit; SHAPE=500x100x20: one shape
	$(BIN)/python -m tests.benchmarks $(SHAPE) $(BENCH)

bench-core: $(READY)  ## measure the cost of decisions without an API server; CASE=reclaim: only these cases
	$(BIN)/python -m tests.benchmarks.core $(CASE)

bench-gangs: binaries  ## count the random gangs that start, beside kube-scheduler's gang scheduling
	$(BIN)/python -m tests.benchmarks.gangs $(BENCH)

binaries: $(READY)  ## find or build etcd, kube-apiserver and the other binaries, and cache them
	$(BIN)/python -m sandbox build

helm: $(READY)  ## find or build helm, which the tests of the chart use
	$(BIN)/python -m tests.chart

$(READY): requirements-dev.lock pyproject.toml
	@echo "setting up $(VENV) (once; about half a minute)"
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes \
		--requirement requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps \
		--no-build-isolation --editable .
	@touch $@

lock: $(READY)  ## update the lock files from pyproject.toml
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/python -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-annotate --no-header pyproject.toml -o requirements.lock
	$(BIN)/python -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-annotate --no-header pyproject.toml --group dev \
		-o requirements-dev.lock

clean:  ## remove all files that make created here, except the cache of binaries
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build
