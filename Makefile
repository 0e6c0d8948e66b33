# Thin: each target does all the set-up it needs, then calls one command.
#   make report [PRESET=quick] [CORES=4]    make doctor    make test    make lint    make setup    make clean
#   make image [WHEELS=folder] [BASE=image]    make test-image
PRESET ?=
CORES ?= all
PYTHON ?= $(shell command -v python3.11 || echo python3)
PIP = .venv/bin/python -m pip --disable-pip-version-check
SNAKEMAKE = .venv/bin/snakemake --quiet rules host --cores $(CORES)

.DEFAULT_GOAL := report
.PHONY: report doctor test lint setup clean image test-image

report: .venv/driver.stamp
	@PATH="$(CURDIR)/.venv/bin:$$PATH" $(SNAKEMAKE) report $(if $(PRESET),--config preset=$(PRESET))

# Whether this machine is ready to measure: the first thing to run on a new one.
doctor: .venv/driver.stamp
	@.venv/bin/cpulab doctor $(if $(filter-out all,$(CORES)),--cores $(CORES))

# The measured environment, without an experiment.
setup: .venv/driver.stamp
	@PATH="$(CURDIR)/.venv/bin:$$PATH" $(SNAKEMAKE) environment

test: lint setup
	@PATH="$(CURDIR)/.venv/bin:$$PATH" .venv/bin/python -m pytest

lint: .venv/dev.stamp
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/snakefmt --check Snakefile workflow/rules
	.venv/bin/mypy
	@PATH="$(CURDIR)/.venv/bin:$$PATH" .venv/bin/snakemake --lint

# System packages are installed where we may; elsewhere a note says which they are.
.venv/driver.stamp: envs/driver.lock envs/apt.txt pyproject.toml envs/system-packages.sh
	@sh envs/system-packages.sh envs/apt.txt
	@test -x .venv/bin/python || $(PYTHON) -m venv .venv
	$(PIP) install --quiet --require-hashes --no-deps -r envs/driver.lock
	$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

.venv/dev.stamp: .venv/driver.stamp envs/dev.lock
	$(PIP) install --quiet --require-hashes --no-deps -r envs/dev.lock
	@touch $@

# The container image cpulab:latest; envs/container/image.sh names its variables.
image:
	@sh envs/container/image.sh

# Builds it and runs the smoke preset in it, three times; as root on Debian it gets a docker daemon where there is none.
test-image: .venv/dev.stamp
	@sh envs/container/with-docker.sh sh -c 'sh envs/container/image.sh && \
	    PATH="$(CURDIR)/.venv/bin:$$PATH" .venv/bin/python -m pytest -m image tests/image'

clean:
	rm -rf .venv .venv-cpu results .snakemake
