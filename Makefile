# Every verb sets up what it needs by itself: a virtual environment with pinned packages and the built core.
# Each can also be run by hand: see CONTRIBUTING.md.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
SCENARIO ?= examples/llama3-70b-1024-h100.yaml
# Bytecode is kept, also where containers ask Python not to: without it every run of the tests compiles all of them anew.
export PYTHONDONTWRITEBYTECODE :=
CORE := CMakeLists.txt pyproject.toml $(shell find cpp -name '*.cpp' -o -name '*.hpp' 2>/dev/null)

FUZZ ?= --seconds 600
SECONDS ?= 60

# A package is installed only where its file has a hash that its lock file names, and none is built from source on the way.
LOCKED := $(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all:
OURS := $(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable

.PHONY: FORCE help run test test-all lint types layers core-test sanitize digests fuzz swarm docs fresh bench frontend wheel \
  lock sbom audit release schemathesis clean

help:
	@echo "make run        compare six fabrics for Llama 3 70B on 1,024 H100 (SCENARIO=... for another)"
	@echo "make test       the test suite; test-all: with the slow ones"
	@echo "make lint       ruff, mypy --strict, the layers and budgets of the rooms"
	@echo "make core-test  the C++ core's own tests under the address and undefined-behaviour sanitizers"
	@echo "make sanitize   the same, the extension's tests under them, and runs on several threads under TSan"
	@echo "make digests    the same results to the bit: GCC, Clang, 1, 2 and 16 threads; PYTHONS=python3.14 adds Pythons"
	@echo "make swarm      random networks, fabrics, faults and flows on a core with its invariants: SECONDS=$(SECONDS), SEED=..."
	@echo "make fuzz       looks for files that break a reader, as long as FUZZ says ($(FUZZ))"
	@echo "make schemathesis  every operation of the API, asked with what fits its description and what does not"
	@echo "make docs       build the documentation"
	@echo "make fresh      fail when a generated page or the front-end bundle is stale"
	@echo "make bench      the benchmarks; frontend: rebuild the bundle (needs Node)"
	@echo "make wheel      build the wheels, equal to the byte to what is installed, label them manylinux, and try one without a compiler"
	@echo "make lock       write the hashes of the pinned packages; sbom: the CycloneDX document; audit: known vulnerabilities"
	@echo "make release    what is released, in build/release; KEY=FILE signs it"

run: $(VENV)/.run
	$(BIN)/railyard compare $(SCENARIO)

# Each process begins with half of the tests in order: what tests of a module share is made once, not once a process.
test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

test-all: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: types layers
	$(BIN)/python tools/budgets.py
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

layers: $(VENV)/.dev
	$(BIN)/lint-imports

core-test: $(VENV)/.dev
	tools/sanitize core

sanitize: $(VENV)/.dev
	tools/sanitize core python threads

digests: $(VENV)/.dev
	tools/digests

fuzz: $(VENV)/.fuzz
	$(BIN)/python -m tests.fuzz.campaign $(FUZZ)

swarm: $(VENV)/.dev
	SWARM_SECONDS=$(SECONDS) SWARM_SEED=$(SEED) tools/sanitize swarm

schemathesis: $(VENV)/.dev
	$(BIN)/python -c 'import schemathesis' || { echo "Schemathesis is not installed: $(BIN)/pip install schemathesis" >&2; exit 1; }
	$(BIN)/python -m pytest -n 0 -m slow tests/face/web/test_schemathesis.py

docs: $(VENV)/.dev
	$(BIN)/zensical build --clean
	$(BIN)/mkdocs build --quiet --strict --site-dir site-mkdocs

fresh: $(VENV)/.dev
	PATH="$(abspath $(BIN)):$$PATH" tools/fresh

bench: $(VENV)/.dev
	PATH="$(abspath $(BIN)):$$PATH" benchmarks/run

frontend: $(VENV)/.dev
	$(BIN)/python tools/result_types.py
	cd frontend && npm ci --no-audit --no-fund && npm run build
	$(BIN)/python tools/notices.py

release: $(VENV)/.release
	rm -rf build/release
	$(BIN)/python tools/release.py build/release $(if $(KEY),--key $(KEY))

wheel: $(VENV)/.release
	rm -rf build/release
	$(BIN)/python tools/release.py build/release --core $$($(BIN)/python -c 'import railyard._core as core; print(core.__file__)')
	tools/try-wheel build/release/railyard-*.whl

lock: $(VENV)/.release
	$(BIN)/python tools/lock.py

sbom: $(VENV)/.release
	$(BIN)/python tools/sbom.py

audit: $(VENV)/.release
	$(BIN)/python tools/audit.py

clean:
	rm -rf build dist site site-mkdocs $(VENV)

$(VENV)/.python:
	$(PYTHON) -c 'import sys; sys.exit("Railyard needs Python 3.11 or newer, this is " + sys.version) if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.packages: requirements/run.txt | $(VENV)/.python
	$(LOCKED) -r requirements/run.txt
	touch $@

# An editable install knows the modules that were there when it was made: a new one wants a new install (2 s).
$(VENV)/.modules: FORCE | $(VENV)/.python
	@find src -name '*.py' | sort | cmp -s - $@ || find src -name '*.py' | sort >$@

$(VENV)/.run: $(VENV)/.packages $(VENV)/.modules $(CORE)
	$(OURS) .
	touch $@

$(VENV)/.fuzz: requirements/fuzz.txt | $(VENV)/.dev
	$(LOCKED) -r requirements/fuzz.txt
	touch $@

$(VENV)/.release: requirements/release.txt | $(VENV)/.dev
	$(LOCKED) -r requirements/release.txt
	touch $@

$(VENV)/.dev: requirements/dev.txt validation/pyproject.toml $(VENV)/.run
	$(LOCKED) -r requirements/dev.txt
	$(OURS) validation
	touch $@
