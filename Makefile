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
ROWS ?=

VENV := .venv
RUN := $(VENV)/bin/python -m
RESULTS := build/conformance.json

.DEFAULT_GOAL := help
.PHONY: help setup run serve decode test check format conformance bench sim soak fuzz mutants hostile cuts spark-million celery-storm docs docs-serve proto lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Make the environment in .venv (the other targets do this themselves)
	@PYTHON="$(PYTHON)" scripts/setup.sh

run: setup ## Show what the project does: two queue managers, a link that breaks, every order once and in order
	@$(VENV)/bin/msmq demo

serve: setup ## Run a queue manager for keeps, in ./msmq-data, until Ctrl-C
	@$(VENV)/bin/msmq serve --data msmq-data

decode: SAMPLE ?= samples/session.pcap
decode: setup ## Decode a capture (SAMPLE=) and explain it
	@$(VENV)/bin/msmq decode $(SAMPLE)

test: check ## Everything CI runs: check, all tests, the conformance map
	@$(RUN) pytest -n auto --conformance=$(RESULTS) --conformance-check

check: setup ## Lint, formatting, types, the import rule, tidiness
	@$(RUN) ruff check
	@$(RUN) ruff format --check
	@$(RUN) mypy
	@for system in darwin win32; do $(RUN) mypy --platform $$system src/msmq || exit 1; done
	@$(VENV)/bin/lint-imports
	@$(RUN) pytest -q tests/test_tidy.py

format: setup ## Format the code and mend what the linter can mend
	@$(RUN) ruff check --fix
	@$(RUN) ruff format

conformance: setup ## Run the tests and write docs/conformance.md (CHECK=1: only compare)
	@$(RUN) pytest -q -n auto --conformance=$(RESULTS) 1>&2; tests=$$?; \
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
	@MSMQ_HOSTILE_SECONDS=$(SECONDS) $(RUN) pytest -q -s tests/server/test_hostile.py tests/remote_read/test_hostile.py

cuts: setup ## Cut remote readers off and kill their server at every PDU, TIMES=10 as often as the tests do (KILLS=, SEED=)
	@MSMQ_CUTS=$(TIMES) MSMQ_KILLS=$(KILLS) MSMQ_CUTS_SEED=$(SEED) $(RUN) pytest -v -s tests/remote_read/test_no_loss.py

spark-million: setup ## Send a million messages from Spark into a queue and consume them (MESSAGES=1000000)
	@$(RUN) tests.spark.million --messages $(MESSAGES)

celery-storm: setup ## Have TASKS=2000 tasks done by Celery while its workers are recycled and killed
	@MSMQ_CELERY_TASKS=$(TASKS) $(RUN) pytest -v -s tests/celery/test_storm.py

docs: setup ## Build the documentation into site/
	@NO_MKDOCS_2_WARNING=1 $(RUN) mkdocs build --strict --quiet
	@echo "built site/index.html"

docs-serve: setup ## Serve the documentation while writing it
	@NO_MKDOCS_2_WARNING=1 $(RUN) mkdocs serve

proto: setup ## Generate the messages of the application channel from msmq.proto
	@$(RUN) scripts.proto

lock: setup ## Resolve requirements/dev.lock anew from pyproject.toml
	@$(VENV)/bin/python scripts/lock.py

clean: ## Remove everything that was made, the environment included
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
