# Two commands on a fresh machine: `make demo` and `make test`. Each makes its environment first.

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.ready
STAMP_ALL := .venv/.ready-all
JOBS ?= 2

.PHONY: env env-all demo test test-all torture docs lint types contract clean

env: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "scyc needs Python 3.11 or newer; name one with PYTHON=...")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

env-all: $(STAMP_ALL)

$(STAMP_ALL): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev-all]'
	@command -v chromium >/dev/null || (apt-get update -qq && apt-get install -y -qq chromium) || \
	  (echo 'the tests of pages need Chromium: install it as chromium on the PATH'; false)
	@touch $@

demo: env
	$(BIN)/scyc run digits

test: env
	$(BIN)/python -m pytest -n $(JOBS) -m "not slow"

test-all: env-all
	$(BIN)/python -m pytest -n $(JOBS) -m slow

torture: env-all
	$(BIN)/python -m pytest -n $(JOBS) -m torture --full

docs: env-all
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo 'the guides and the reference: build/site/index.html'

lint: env
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: env
	$(BIN)/mypy

contract: env
	$(BIN)/lint-imports

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache
