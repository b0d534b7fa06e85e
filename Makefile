# `make demo` and `make test` do all the set-up; `make help` says the rest.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON := .venv/bin/python
LAB := PYTHONPATH=controller/lab $(PYTHON) -m vcrecovery_lab

# With it, Python reads what Ansible pipes to it byte by byte: 200,000 calls of the kernel for each task.
unexport PYTHONUNBUFFERED

.PHONY: help setup demo lab-up lab-down test test-incus lint lint-python lint-imports lint-primary lint-ansible lint-yaml lint-shell lint-archive lint-sanity lock docs templates test-unit test-lab test-at-length molecule molecule-quick bench-excludes bench-sync bench-relay bench-detect bench-recovery bench-users bench-cold bench-health bench-planned bench-report bench-containers bench-move bench-balance bench-relief bench-install bench-hosts paper mutants matrix sbom audit

help:  ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' Makefile

setup:  ## Install what the demo and the tests need (Debian packages, .venv, collections)
	@controller/lab/setup.sh

demo: setup  ## Lay out the lab, crash the primary, show the failover (ARGS="--debian 13": of a VM with Debian 13)
	@$(LAB) demo $(ARGS)

lab-up: setup  ## Lay out the lab and leave it running
	@$(LAB) up $(ARGS)

lab-down:  ## Remove everything that the lab made
	@if [[ -x $(PYTHON) ]]; then $(LAB) down; fi

test: setup  ## Run every test, as CI does, but those of `make test-at-length`
	@$(BESIDE_EACH_OTHER) molecule-quick $(LINTS)
	@$(MAKE) --no-print-directory test-unit
	@$(MAKE) --no-print-directory test-lab

# Most of these keep one core busy.
BESIDE_EACH_OTHER := $(MAKE) --no-print-directory --jobs=2 --output-sync=target
LINTS := lint-ansible lint-python lint-imports lint-primary lint-yaml lint-shell lint-archive lint-sanity
lint:  ## ruff, mypy --strict, import-linter, ansible-lint, yamllint, shellcheck, Galaxy's checks, ansible-test sanity
	@$(BESIDE_EACH_OTHER) $(LINTS)

lint-python:
	cd controller && ../.venv/bin/ruff check . && ../.venv/bin/ruff format --check . && ../.venv/bin/mypy

lint-imports:
	cd controller && ../.venv/bin/lint-imports --no-cache --no-logo

lint-primary:
	cd controller && ../.venv/bin/ruff check -q --isolated --target-version py38 --select E9,F src/vcrecovery/{excludes,machines,primary}

lint-ansible:
	PATH=$(CURDIR)/.venv/bin:$$PATH .venv/bin/ansible-lint --offline -q

lint-yaml:
	.venv/bin/yamllint --strict .

lint-shell:
	.venv/bin/shellcheck .ci/run $(wildcard controller/lab/*.sh) roles/controller/files/install-program

lint-archive:
	@controller/lab/lint_archive.sh

lint-sanity:  ## ansible-test sanity on the archive, without exceptions (fetches what it needs at the first run: 45 s, later 20)
	@controller/lab/lint_archive.sh sanity

UV_LOCK := uv pip compile --quiet --no-annotate --no-header --generate-hashes
lock:  ## Resolve the lock files again from pyproject.toml, and keep the versions that fit (needs uv; ARGS=--upgrade: the newest)
	cd controller && $(UV_LOCK) --python-version 3.11 --output-file requirements.lock pyproject.toml $(ARGS)
	cd controller && $(UV_LOCK) --python-version 3.11 --output-file requirements-dev.lock --group dev pyproject.toml $(ARGS)
	cd controller && echo hatchling | $(UV_LOCK) --universal --python-version 3.10 --constraint requirements-dev.lock \
		--output-file requirements-build.lock - $(ARGS)

templates:  ## Write templates/zabbix and templates/prometheus, which are generated
	cd controller && ../.venv/bin/python -m monitoring_templates

docs:  ## Write the reference pages under docs/ that are generated from the code
	cd controller && VCRECOVERY_REWRITE=1 ../.venv/bin/pytest -q tests/unit/test_reference_pages.py

test-unit:  ## Tests that need neither root nor the lab
	cd controller && ../.venv/bin/pytest -q -n 4 --dist worksteal -m "not lab"

test-lab:  ## Tests with the real VM, LXD and BIND; the lab is removed at the end (ARGS="-k dns": some of them)
	@controller/lab/test_lab.sh $(ARGS)

test-at-length: setup  ## Tests with real parts that take minutes each, and guard what changes seldom (an hour)
	cd controller && ../.venv/bin/pytest -q -m "lab and at_length" tests/lab $(ARGS)

INCUS_TESTS := g_attacks g_bombs g_fetch g_owners g_restore_points g_sessions g_storage p_keeper p_verbs_beside_watcher \
	r_killed_standby s_certificates_rotation s_drill s_failback_elsewhere s_https_role s_incus s_kept_serving s_reboot s_rollback s_secondary s_spare \
	s_spare_role s_whole_host
test-incus: setup  ## Play the tests of failover, failback, moves, attacks and the role `secondary` with Incus in place of LXD (an hour; downloads Incus at first)
	cd controller && VCRECOVERY_LAB_CONTAINERS=incus ../.venv/bin/pytest -q -m "lab and not of_the_lab" $(INCUS_TESTS:%=tests/lab/test_%.py) $(ARGS)

MOLECULE := PYTHONPATH=controller/lab $(PYTHON) -m vcrecovery_lab.molecule
molecule: setup  ## Play the roles on new machines, which are containers, and look from outside (ARGS="dns controller": some)
	@$(MOLECULE) $(ARGS)

molecule-quick: setup
	@$(MOLECULE) dns controller

bench-excludes: setup  ## Measure the exclude list: to make, to rsync, to lsyncd (about 10 minutes; ARGS=--quick: seconds)
	@PYTHONPATH=controller/lab:controller/benchmarks $(PYTHON) -m exclude_bench $(ARGS)

bench-sync: setup  ## Measure the sync: write to visible, first sync, memory (about 10 minutes, needs lab-up; ARGS=--quick: 1 minute)
	@PYTHONPATH=controller/lab:controller/benchmarks $(PYTHON) -m sync_bench $(ARGS)

bench-relay: setup  ## Measure the relay: CPU with 1,000 guests, notification to Zabbix (about 2 minutes; ARGS=--quick: 20 seconds)
	@PYTHONPATH=controller/lab:controller/benchmarks $(PYTHON) -m relay_bench $(ARGS)

bench-detect: setup  ## Measure detection: kill to failover, by the own watcher and by Zabbix (about 45 minutes; ARGS=--quick: 5)
	@PYTHONPATH=controller/lab:controller/benchmarks $(PYTHON) -m detect_bench $(ARGS)

bench-recovery: setup  ## Measure recovery: containers in a secondary VM against VMs, and the controller's own time (about an hour; ARGS=--quick: 12)
	@PYTHONPATH=controller/lab:controller/benchmarks $(PYTHON) -m recovery_bench $(ARGS)

bench-users: setup  ## Measure what users wait for: crash to the answer through the name, containers against VMs (about an hour; ARGS=--quick: 10)
	@PYTHONPATH=controller/lab:controller/benchmarks $(PYTHON) -m recovery_bench.users $(ARGS)

bench-cold: setup  ## Measure a crash while the secondary is off: QEMU killed to the answer through the name, the boot apart (about 6 minutes)
	@PYTHONPATH=controller/lab:controller/benchmarks $(PYTHON) -m recovery_bench.cold_secondary $(ARGS)

bench-health: setup  ## Measure the questions to whoever serves: CPU for 1,000 services, outage to verdict (about 3 minutes; ARGS=--quick: seconds)
	@PYTHONPATH=controller/lab:controller/benchmarks $(PYTHON) -m health_bench $(ARGS)

bench-containers: setup  ## Measure containers in a VM against that VM: operations, files, network (about 20 minutes; ARGS=--quick: 5)
	@PYTHONPATH=controller/lab:controller/benchmarks $(PYTHON) -m container_bench $(ARGS)

bench-move: setup  ## Measure how long a container is down while it moves to another LXD (about 10 minutes; ARGS=--vms: between VMs, 25; ARGS=--quick: 1)
	@PYTHONPATH=controller/lab:controller/benchmarks $(PYTHON) -m move_bench $(ARGS)

bench-install: setup  ## Measure from the archive to the first protected service, and a second run (about 5 minutes; the lab must be down)
	@PYTHONPATH=controller/lab:controller/benchmarks $(PYTHON) -m install_bench $(ARGS)

bench-hosts: setup  ## Measure the site's playbook on 3 and on 30 hosts, which are containers (about half an hour; ARGS=--quick: on 3)
	@PYTHONPATH=controller/lab:controller/benchmarks $(PYTHON) -m install_bench.hosts $(ARGS)

bench-balance: setup  ## Measure how long it takes to choose what leaves overloaded secondaries (seconds)
	@PYTHONPATH=controller/lab:controller/benchmarks $(PYTHON) -m balance_bench $(ARGS)

bench-relief: setup  ## Measure what services on an overloaded secondary answer while some of them leave it (3 minutes; ARGS=--quick: 1)
	@PYTHONPATH=controller/lab:controller/benchmarks $(PYTHON) -m relief_bench $(ARGS)

paper: setup  ## Run the paper's experiments in its order and write docs/benchmarks.md (about 3 hours; ARGS=--quick: 30 minutes)
	@PYTHONPATH=controller/lab:controller/benchmarks $(PYTHON) -m paper_bench $(ARGS)

mutants: setup  ## Break the code that matters, one line at a time, and count what no test notices (an hour; ARGS=--quick: 10 minutes; MODULES="core/fencing drivers/dns": these)
	@PYTHONPATH=controller/lab:controller/benchmarks $(PYTHON) -m mutant_bench $(ARGS)

matrix: setup  ## Unit tests and playbooks on the other versions of Python and Ansible that are said to work (needs nox; half an hour)
	@nox $(ARGS)

sbom:  ## List what is installed on a controller, with versions and licences: dist/sbom.cdx.json, CycloneDX (needs nox)
	@nox -s sbom

audit:  ## Ask PyPI for known vulnerabilities of the locked versions; what it does not know is named as not audited (needs nox)
	@nox -s audit

bench-planned: setup  ## Measure planned moves: interruption, lost rows, a drill beside the sync (about 50 minutes, needs lab-up; ARGS=--quick: 5)
	@PYTHONPATH=controller/lab:controller/benchmarks $(PYTHON) -m planned_bench $(ARGS)

bench-report: setup  ## Measure the report over a journal of 1,000,000 episodes: time and memory (about 3 minutes; ARGS=--quick: 1)
	@PYTHONPATH=controller/lab:controller/benchmarks $(PYTHON) -m report_bench $(ARGS)
