# Every target sets up what it needs in .venv, from Python 3.11+, pip and make alone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help demo test test-fast test-durations test-engines soak check bench bench-peers docs clean

help:  ## say what each target does
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "muster needs Python 3.11 or newer; PYTHON=$(PYTHON) is older."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check 'pip>=25.1'

$(VENV)/run.stamp: $(wildcard packages/*/pyproject.toml) $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check --editable './packages/muster[examples]' --editable ./packages/muster-tensorflow
	@touch $@

$(VENV)/dev.stamp: pyproject.toml $(VENV)/run.stamp
	$(BIN)/pip install --quiet --disable-pip-version-check --group test --group check --group docs
	@touch $@

demo: $(VENV)/run.stamp  ## train on real data and print the accuracy reached
	$(BIN)/muster run --workers 2 --evaluator examples/digits.py

# The tests of each package run apart: those of the core in processes that never import TensorFlow's names.
CORE := packages/muster/tests
NAMES := packages/muster-tensorflow/tests
REPOSITORY := tests
# Several at a time, with what tests that are marked "alone" leave of the processors: see harness.py.
SEVERAL := --numprocesses=auto --maxprocesses=5 --dist=worksteal
# The modules of a folder that have tests with a mark: the others need not be imported to look for them.
marked = $$(grep -rlE 'mark\.$(2)\b' $(1) --include='test_*.py' || echo $(1))
# Pytest's code if there is no test of a kind is 5.
checked = ( $(1); code=$$?; test $$code -eq 0 -o $$code -eq 5 )

# $(call run,FOLDER,MARKS): first the fast ones, beside them those marked "alone", then those that start processes.
define run
@echo "$(1): the fast tests; beside them those marked 'alone', which print to alone.log; then the others."
@$(call checked,$(BIN)/pytest $(call marked,$(1),alone) -m 'alone and $(2)' > alone.log 2>&1) & \
$(call checked,$(BIN)/pytest $(1) -m 'not processes and not alone and $(2)' $(SEVERAL)); fast=$$?; \
wait $$!; alone=$$?; cat alone.log; \
$(call checked,$(BIN)/pytest $(call marked,$(1),processes) -m 'processes and not alone and $(2)' $(SEVERAL)); \
exit $$((fast | alone | $$?))
endef

# Tests start thousands of processes, each of which would compile the sources where no bytecode is kept.
test test-tensorflow test-repository test-all test-fast test-durations test-engines soak: export PYTHONDONTWRITEBYTECODE :=

test: $(VENV)/dev.stamp  ## run the tests of the core
	$(call run,$(CORE),not slow and not soak)

test-tensorflow: $(VENV)/dev.stamp  ## run the tests of TensorFlow's names
	$(call run,$(NAMES),not slow and not soak)

test-repository: $(VENV)/dev.stamp $(VENV)/integrations.stamp  ## run the tests of documentation, examples, wheels and the bench
	$(call run,$(REPOSITORY),not soak)

test-all: $(VENV)/dev.stamp $(VENV)/integrations.stamp  ## run all tests of the three, with those that are marked "slow"
	$(call run,$(CORE),not soak)
	$(call run,$(NAMES),not soak)
	$(call run,$(REPOSITORY),not soak)

test-fast: $(VENV)/dev.stamp  ## run the tests of the core that start no processes
	$(BIN)/pytest $(CORE) -m 'not processes and not alone and not slow and not soak' $(SEVERAL)

test-durations: $(VENV)/dev.stamp  ## run all tests, and write what each of them takes to tests/durations.tsv
	@rm -f durations.jsonl
	@MUSTER_TEST_DURATIONS=$(CURDIR)/durations.jsonl $(MAKE) --keep-going test-all; tests=$$?; \
	$(BIN)/python $(CORE)/durations.py summarize durations.jsonl && exit $$tests

test-engines: $(VENV)/engines.stamp  ## run the tests of jobs on hosts by ssh, in Ray, in Slurm, under mpirun and on S3, as far as those are installed
	@for each in sshd slurmctld mpirun; do PATH=$$PATH:/usr/sbin command -v $$each > /dev/null || echo "$$each is missing, its tests are skipped: apt-get install openssh-server slurm-wlm openmpi-bin"; done
	$(BIN)/pytest $(CORE)/engines $(CORE)/distribute/test_elastic_hosts_multiprocess.py $(CORE)/cluster/test_mpi_multiprocess.py $(CORE)/integrations/test_ray_train_multiprocess.py -m 'not soak'

$(VENV)/engines.stamp: pyproject.toml $(VENV)/dev.stamp
	$(BIN)/pip install --quiet --disable-pip-version-check --group test --group engines
	@touch $@

$(VENV)/integrations.stamp: pyproject.toml $(VENV)/dev.stamp
	$(BIN)/pip install --quiet --disable-pip-version-check --group integrations
	@touch $@

soak: $(VENV)/dev.stamp  ## run the long tests: many random kills
	$(BIN)/pytest $(CORE) -m soak
	$(BIN)/pytest $(NAMES) -m soak
	$(BIN)/pytest $(REPOSITORY) -m soak

check: $(VENV)/dev.stamp docs  ## ruff, mypy, import-linter, circles of imports, docs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@! git grep -nE 'muster_tensorflow|\bcompat\b' -- packages/muster/src | sed 's/^/The core names its front end: /' | grep .
	@! git grep -lE '^ *(import|from) muster_tensorflow' -- packages/muster/tests | sed 's/^/A test of the core imports the front end: /' | grep .
	$(BIN)/python packages/muster/tests/check_imports.py packages/muster/src packages/muster-tensorflow/src
	@! find tests packages/*/tests -name 'test_*.py' -exec basename {} \; | sort | uniq -d | sed 's/^/Two folders have a test module called /' | grep .

bench: $(VENV)/dev.stamp  ## measure muster against its peers, in turn, in one run
	$(BIN)/python -m bench

# TensorFlow 2.15.1 is the last with Estimator, and needs Python 3.11 or older. Of PyTorch's builds, those with
# "+cpu" come without CUDA's packages.
TENSORFLOW_PYTHON ?= python3.11
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu

bench-peers: .peers/tensorflow.stamp .peers/torch.stamp .peers/ray.stamp  ## install what the bench compares with

.peers/tensorflow.stamp:
	$(TENSORFLOW_PYTHON) -m venv .peers/tensorflow
	.peers/tensorflow/bin/pip install --quiet --disable-pip-version-check tensorflow-cpu==2.15.1
	@touch $@

.peers/torch.stamp:
	$(PYTHON) -m venv .peers/torch
	.peers/torch/bin/pip install --quiet --disable-pip-version-check --extra-index-url $(TORCH_INDEX) torch==2.13.0+cpu numpy accelerate lightning
	@touch $@

.peers/ray.stamp:
	$(PYTHON) -m venv .peers/ray
	.peers/ray/bin/pip install --quiet --disable-pip-version-check --extra-index-url $(TORCH_INDEX) torch==2.13.0+cpu numpy 'ray[train]'
	@touch $@

docs: $(VENV)/dev.stamp  ## build the documentation in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

clean:  ## remove what the targets made
	rm -rf $(VENV) .peers site .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
