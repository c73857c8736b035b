# Every target does the set-up it needs by itself; `make help` lists them.

PYTHON ?=
SECONDS ?= 60
RUNS ?= 0
SEED ?= 1
TIMES ?= 10
KILLS ?= 0
SEEDS ?= 0
STEPS ?= 1000
SIM ?= all
MINUTES ?= 5
MESSAGES ?= 1000000
TASKS ?= 2000
CAP ?= 3
# Tests wait for disks, timers and other processes about as long as they compute: three for each processor.
WORKERS ?= $(shell echo $$((3 * $$(nproc 2>/dev/null || echo 2))))
PYTHONS ?=
VERSION ?=
ROWS ?=
EXAMPLES ?= 50

# Where Python may not keep what it has compiled, each process compiles everything anew: the tests took twice as long.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
RUN := $(VENV)/bin/python -m
RESULTS := build/conformance.json

.DEFAULT_GOAL := help
.PHONY: help setup setup-run run serve console web-hostile decode test test-quick check check-form check-imports check-tests check-types format conformance bench sim soak fuzz mutants hostile cuts jepsen ha-demo spark-million spark-large spark-soak spark-soak-store spark-versions spark-hdfs celery-storm docs docs-serve proto lock package smoke release store-fixture container chart deb deb-try lifecycles clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Make the environment in .venv (the other targets do this themselves)
	@PYTHON="$(PYTHON)" scripts/setup.sh

setup-run: ## Make the environment with only what the queue manager needs to run
	@PYTHON="$(PYTHON)" scripts/setup.sh run

run: setup-run ## Show what the project does: two queue managers, a link that breaks, every order once and in order
	@$(VENV)/bin/msmq demo

serve: setup-run ## Run a queue manager for keeps, in ./msmq-data, until Ctrl-C
	@$(VENV)/bin/msmq serve --data msmq-data

console: ## Build the pages of the console into src/msmq/web/static (needs Node.js)
	@scripts/console.sh

web-hostile: setup ## Attack the HTTP interface with EXAMPLES=50 made-up requests for each operation
	@MSMQ_WEB_EXAMPLES=$(EXAMPLES) $(RUN) pytest -q -s tests/web/test_hostile.py

decode: SAMPLE ?= samples/session.pcap
decode: setup-run ## Decode a capture (SAMPLE=) and explain it
	@$(VENV)/bin/msmq decode $(SAMPLE)

test: check ## Everything CI runs: check, all tests, the conformance map
	@# check has run the tests of tidiness
	@$(RUN) pytest -n $(WORKERS) --dist worksteal --ignore=tests/test_tidy.py --conformance=$(RESULTS) --conformance-check

test-quick: setup ## For daily work: the tests that start no process and are not slow
	@$(RUN) pytest -q -n $(shell nproc 2>/dev/null || echo 2) --dist worksteal --quick

# Each part has a processor to itself; together they take as long as the longest. Types are checked for each system
# with a cache of its own, and tests are compiled once here and not by each process that runs them.
CHECKS := check-form check-imports check-tests check-types check-types-darwin check-types-win32
check: setup ## Lint, formatting, types, the import rule, tidiness
	@$(MAKE) --no-print-directory --output-sync --jobs $(shell nproc 2>/dev/null || echo 2) $(CHECKS)

check-form:
	@$(RUN) ruff check
	@$(RUN) ruff format --check

check-imports:
	@$(VENV)/bin/lint-imports

check-tests:
	@$(RUN) pytest -qq --collect-only >/dev/null
	@$(RUN) pytest -q tests/test_tidy.py

check-types:
	@$(RUN) mypy

check-types-%:
	@$(RUN) mypy --platform $* --cache-dir .mypy_cache/$* src/msmq

format: setup ## Format the code and mend what the linter can mend
	@$(RUN) ruff check --fix
	@$(RUN) ruff format

conformance: setup ## Run the tests and write docs/conformance.md (CHECK=1: only compare)
	@$(RUN) pytest -q -n $(WORKERS) --dist worksteal --conformance=$(RESULTS) 1>&2; tests=$$?; \
	$(RUN) scripts.conformance $(if $(CHECK),--check) $(RESULTS) && exit $$tests

bench: setup ## Run every benchmark of bench/
	@set -e; for script in bench/*.py; do echo "== $$script"; $(VENV)/bin/python "$$script"; done

sim: setup ## Simulate until it fails: SIM=network, manager, store or all in turn (SEED=, SEEDS=, STEPS=)
	@$(RUN) msmq.testing.campaign --sim $(SIM) --seed $(SEED) --seeds $(SEEDS) --steps $(STEPS)

soak: setup ## Kill processes and cut lines for MINUTES=5 while transactional messages flow; then as long what comes and goes
	@$(RUN) tests.server.chaos --minutes $(MINUTES)
	@MSMQ_SOAK_SECONDS=$$(($(MINUTES) * 60)) $(RUN) pytest -q -s tests/server/test_soak.py

fuzz: setup ## Fuzz the decoders for SECONDS=60 in all, or for RUNS=... executions
	@$(VENV)/bin/python fuzz/run.py --seconds $(SECONDS) --runs $(RUNS)

mutants: SAMPLE ?= 20
mutants: SKIP ?= 0
mutants: setup ## Break what rows rule and list what their tests do not notice (ROWS="..." or SAMPLE=20 SKIP=0, SEED=, CAP=3)
	@$(RUN) scripts.mutants $(if $(ROWS),--rows $(ROWS),--sample $(SAMPLE) --skip $(SKIP)) --seed $(SEED) --cap $(CAP)

hostile: setup ## Attack a running daemon for SECONDS=60 while a healthy peer is served
	@MSMQ_HOSTILE_SECONDS=$(SECONDS) $(RUN) pytest -q -s tests/server/test_hostile.py tests/remote_read/test_hostile.py tests/remote_read/test_siege.py

cuts: setup ## Cut remote readers off and kill their server at every PDU, TIMES=10 as often as the tests do (KILLS=, SEED=)
	@MSMQ_CUTS=$(TIMES) MSMQ_KILLS=$(KILLS) MSMQ_CUTS_SEED=$(SEED) $(RUN) pytest -v -s tests/remote_read/test_no_loss.py

jepsen: setup ## Kill, freeze and replace queue managers and databases for MINUTES=5 while the books are kept (SEED=)
	@$(RUN) tests.ha.jepsen --minutes $(MINUTES) --seed $(SEED)

ha-demo: setup ## Show a queue manager that survives its machine: leader killed, database killed, orders go on
	@$(RUN) tests.ha.demo

lifecycles: WALKS ?= 2000
lifecycles: DOMAIN_WALKS ?= 20
lifecycles: setup ## Walk a host and its directory through WALKS=2000 random lives, and DOMAIN_WALKS=20 on a real controller (SEED=)
	@$(RUN) tests.manager.test_lifecycles --walks $(WALKS) --seed $(SEED)
	@$(RUN) tests.directory.test_lifecycles --walks $(DOMAIN_WALKS) --seed $(SEED)

spark-million: setup ## Send a million messages from Spark into a queue and consume them (MESSAGES=1000000)
	@$(RUN) tests.spark.million --messages $(MESSAGES)

spark-large: setup ## Archive 150 messages of 4 MB and a million of 1 KB, decode a capture of 1 GB and a store of a million
	@$(RUN) tests.spark.large

spark-soak spark-soak-store: MINUTES = 15
spark-soak spark-soak-store: KILLS = 100
spark-soak: setup ## Consume from three queue managers with Spark for MINUTES=15 and until KILLS=100 things were killed (SEED=)
	@$(RUN) tests.spark.chaos --minutes $(MINUTES) --kills $(KILLS) --seed $(SEED)

spark-soak-store: setup ## Archive to an object store and replay from it for MINUTES=15 and until KILLS=100 things were killed (SEED=)
	@$(RUN) tests.spark.elsewhere --minutes $(MINUTES) --kills $(KILLS) --seed $(SEED)

spark-versions: setup ## Try Spark and Delta in the other versions that are supported
	@scripts/spark_versions.sh

spark-hdfs: setup ## Archive to an HDFS, be killed, and replay from it (make test does so on an object store)
	@$(RUN) tests.spark.elsewhere --hdfs

celery-storm: setup ## Have TASKS=2000 tasks done by Celery while its workers are recycled and killed
	@MSMQ_CELERY_TASKS=$(TASKS) $(RUN) pytest -v -s tests/celery/test_storm.py

docs: setup ## Build the documentation into site/
	@NO_MKDOCS_2_WARNING=1 $(RUN) mkdocs build --strict
	@echo "built site/index.html"

docs-serve: setup ## Serve the documentation while writing it
	@NO_MKDOCS_2_WARNING=1 $(RUN) mkdocs serve

proto: setup ## Generate the messages of the application channel from msmq.proto
	@$(RUN) scripts.proto

lock: setup ## Resolve requirements/dev.lock and run.lock anew from pyproject.toml
	@$(VENV)/bin/python scripts/lock.py

package: setup-run ## Build wheel, source archive, list of parts and checksums into dist/, twice, and compare
	@$(RUN) scripts.package --check

smoke: setup-run ## Try the wheel in clean environments of Python 3.11 to 3.14 (PYTHONS="..."): every door answers
	@$(RUN) scripts.smoke $(PYTHONS)

release: setup-run ## Give the next release its number everywhere (VERSION=0.2.0); nothing is committed or published
	@$(RUN) scripts.release $(VERSION)

store-fixture: setup-run ## Write a small store of this version for the tests of upgrades; each release commits one
	@$(RUN) scripts.store_fixture

container: ## Build the container's image with buildah and try it: demo, kill -9, restart on its volume
	@scripts/container.sh

chart: setup-run ## Lint and render the Helm chart into packaging/helm/rendered
	@$(RUN) scripts.chart

deb: ## Build the Debian package into dist/
	@packaging/debian/build.sh

deb-try: ## Install the package of `make deb` into a fresh Debian and try it there: kill -9, upgrade, units, purge
	@packaging/debian/try.sh

clean: ## Remove everything that was made, the environment included
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
