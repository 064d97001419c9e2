# The two commands of the README are `make demo` and `make test`; both need only Python (>= 3.11), git and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2

.PHONY: demo test test-all test-jax fuzz stress bench peers lint types check docs site clean

$(VENV)/.demo: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[demo]'
	touch $@

$(VENV)/.dev: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@ $(VENV)/.demo

$(VENV)/.bench: $(VENV)/.demo
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	touch $@

# Trains a classifier of handwritten digits with a step built by XlaBuilder, then runs the saved step again.
demo: $(VENV)/.demo
	$(BIN)/xlapy demo --output demo-output

# All tests except those marked slow.
test: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m 'not slow'

test-all: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

# Runs JAX's own tests on the plugin and on JAX's CPU. JAX is a checkout of its repository; if it is not set, git fetches one.
test-jax: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check absl-py hypothesis
	$(BIN)/python -m tests.system.jax_suite $(if $(JAX),--jax $(JAX)) --every $(or $(EVERY),$(if $(EACH),1,20)) $(if $(EACH),--each $(EACH)) $(if $(FAILED),--failed) $(FILES)

# Compares modules of fixed seeds with XLA, and reads mutated texts. Takes about a minute.
fuzz: $(VENV)/.dev
	$(BIN)/xlapy fuzz --seeds 0-249 --jobs $(JOBS) --output fuzz-output
	$(BIN)/xlapy fuzz --mutate --seeds 0-99 --corpus tests/programs --jobs $(JOBS) --output fuzz-output

# Stress tests in their long forms, which take hours: threads, long runs, random modules, damaged input. NAMES selects some,
# FLAGS are options such as --short or --seed 2. `python -m tests.stress --list` shows them.
stress: $(VENV)/.dev
	$(BIN)/python -m tests.stress $(NAMES) $(FLAGS)

# Runs all benchmarks beside XLA:CPU, and beside torch and ONNX Runtime if they are installed, as by `make peers`: prints
# tables, and writes them to bench-output. NAMES selects some. Takes some twenty minutes, in which nothing else may run on
# the machine.
bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks $(NAMES) --output bench-output

# Installs torch and ONNX Runtime for `make bench`. The registry's torch brings libraries for GPUs, of some gigabytes; a
# torch that is installed before stays.
peers: $(VENV)/.bench
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[peers]'

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check xlapy tests benchmarks examples docs

types: $(VENV)/.dev
	$(BIN)/mypy

check: lint types test

# Writes the generated pages of docs/reference.
docs: $(VENV)/.dev
	$(BIN)/python -m docs._generate

# Builds the site of the documentation: build/site/index.html. Warnings are errors.
site: $(VENV)/.dev
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet --jobs auto -d build/site-cache docs build/site

clean:
	rm -rf $(VENV) jax-tests demo-output fuzz-output bench-output build dist *.egg-info
