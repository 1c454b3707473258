# Each target makes what it needs, from python3, make and pip alone. `make test ARGS="-k name"` passes arguments on.
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
PYTHON ?= python3
ARGS ?=
LOCAL := .venv/bin/python -m infra.local

# A venv is done when it holds the stamp of its lock's content and its interpreter: times of files say nothing after
# a clone. A changed lock makes it anew; an unchanged one costs nothing.
stamp = $(1)/.made-$(shell { $(PYTHON) -V; cat requirements/$(2).txt; } | cksum | tr ' ' '-')
DEV := $(call stamp,.venv,dev)
STACK := $(call stamp,.venvs/stack,stack)
LAMBDA := $(call stamp,.venvs/lambda,lambda)
SAM := $(call stamp,.venvs/sam,sam)
MONGO := $(call stamp,.venvs/mongo,mongo)
TDS := $(call stamp,.venvs/tds,tds)
BENCH := $(call stamp,.venvs/bench,bench)
LOAD := tests/soak/test_load.py
PACKAGES := mariadb-server-core mariadb-client-core
POSTGRESQL_POLICY := /etc/postgresql-common/createcluster.d/fetcher.conf
sam := __SAM_CLI_APP_DIR=.venvs/sam .venvs/sam/bin/sam
# One lock for every platform and Python from 3.11 on, with hashes and without the name of a registry.
resolve := .venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-strip-extras --custom-compile-command "make lock" $(ARGS)

.PHONY: help demo dashboard up down test soak check lint types template fix bench openapi build deploy lock clean
.PHONY: needs venvs servers
help: ## Show this list
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 16

demo: venvs ## From nothing to a finished, verified job on real data
	@$(LOCAL) demo $(ARGS)

dashboard: venvs ## Draw docs/dashboard.svg from a run of jobs
	@$(LOCAL) dashboard $(ARGS)

up: venvs ## Start the local stack and write .local/stack.json
	@$(LOCAL) up $(ARGS)

down: $(DEV) ## End exactly what `make up` started
	@$(LOCAL) down $(ARGS)

test: venvs servers $(TDS) ## Run every test
	@# More processes than cores: many tests wait for servers, leases and messages. tests/sharing.py says who runs what.
	.venv/bin/pytest -n 4 --dist loadfile $(ARGS)

soak: venvs servers $(TDS) ## Run the long proofs: every kill and fault, many jobs with both (make test leaves them out)
	@# The matrices are shared out run by run; the load has the machine to itself, since its figures are kept.
	@rm -f .local/soak.md
	$(if $(ARGS),,.venv/bin/pytest -m soak -n 3 --dist load --deselect $(LOAD))
	.venv/bin/pytest -m soak $(or $(ARGS),$(LOAD))
	@! test -e .local/soak.md || cat .local/soak.md

check: lint types template ## Format, lint, types, imports, template

lint: $(DEV)
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/lint-imports

types: $(DEV)
	.venv/bin/mypy .

template: $(SAM)
	AWS_DEFAULT_REGION=us-east-1 $(sam) validate --lint

fix: $(DEV) ## Format, and fix what can be fixed
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

bench: venvs servers $(TDS) $(BENCH) ## Measure speed, memory and cost beside other tools
	.venv/bin/python -m benchmarks $(ARGS)

openapi: $(DEV) ## Write infra/openapi.json anew from the routes
	.venv/bin/python -m submit.describe >infra/openapi.json

build: ## Build the layer for Lambda and print its size
	@$(PYTHON) -m infra.layer

deploy: build $(SAM) ## Deploy to AWS: make deploy ARGS="--config-env prod"
	$(sam) deploy $(ARGS)

lock: $(DEV) ## Resolve the requirements again: make lock ARGS=--upgrade for newer releases
	$(resolve) -o requirements/runtime.txt pyproject.toml
	$(resolve) -o requirements/dev.txt --extra cli pyproject.toml requirements/dev.in
	for name in stack lambda sam mongo tds odbc bench; do $(resolve) -o requirements/$$name.txt requirements/$$name.in || exit; done

clean: ## Remove what was made here, venvs included
	test ! -e .venv/bin/python || $(LOCAL) down
	rm -rf .build .local .venv .venvs .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# What the tests need and pip cannot bring, where the system's packages can be installed.
# The PostgreSQL that speaks TLS is installed without a cluster of the system's: while this policy is there, none is made.
servers:
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || ! command -v apt-get >/dev/null || test "$$(id -u)" != 0 || \
		{ mkdir -p $(dir $(POSTGRESQL_POLICY)) && echo "create_main_cluster = false" >$(POSTGRESQL_POLICY) && \
		apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends postgresql >/dev/null; \
		status=$$?; rm -f $(POSTGRESQL_POLICY); exit $$status; }
	@command -v mariadbd >/dev/null || test -x /usr/sbin/mariadbd || ! command -v apt-get >/dev/null || test "$$(id -u)" != 0 || \
		{ apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $(PACKAGES) >/dev/null; }

# Everything that checks and tests need but the layer, whose recipe asks apt-get too: so `make -j check needs` may be.
needs: servers $(DEV) $(STACK) $(LAMBDA) $(SAM) $(MONGO) $(TDS)

# Everything that the local stack runs on.
venvs: $(DEV) $(STACK) $(LAMBDA) $(MONGO)
	@.venvs/lambda/bin/python -m infra.layer --local

$(DEV): lock := dev
$(STACK): lock := stack
$(LAMBDA): lock := lambda
$(SAM): lock := sam
$(MONGO): lock := mongo
$(TDS): lock := tds
$(BENCH): lock := bench
# Of large ones little is imported, and compiled then: the others are done ahead, for processes that start and end.
$(DEV) $(SAM) $(BENCH): bytecode = --no-compile
# A lock is complete, so pip has nothing to resolve (and older ones fail at extras with hashes).
$(DEV) $(STACK) $(LAMBDA) $(SAM) $(MONGO) $(TDS) $(BENCH): pip = $(@D)/bin/python -m pip install -qq --disable-pip-version-check --no-deps
$(DEV) $(STACK) $(LAMBDA) $(SAM) $(MONGO) $(TDS) $(BENCH):
	@echo "Making $(@D) from requirements/$(lock).txt"
	@$(PYTHON) -m venv --clear $(@D)
	@$(pip) $(bytecode) --require-hashes -r requirements/$(lock).txt
	@test $(lock) != dev || $(pip) --no-build-isolation --editable .
	@# SAM would report its use, and look every week for a newer version of itself.
	@test $(lock) != sam || echo '{"telemetryEnabled": false, "lastVersionCheck": 4e9}' >$(@D)/metadata.json
	@touch $@
