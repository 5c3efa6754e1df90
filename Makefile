# Everything that a fresh machine with Python >= 3.11 and make needs: each target sets itself up.
# Another Python: make test PYTHON=python3.12

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/installed.stamp
FOR_DEMO := $(VENV)/demo.stamp
ADVICE = name a newer one, for example: make $(or $(MAKECMDGOALS),test) PYTHON=python3.12

.DEFAULT_GOAL := help
.PHONY: help demo test check lint docs clean

help:  ## list the targets
	@sed -n 's/^\([a-z]*\):.*  ## \(.*\)/make \1	\2/p' Makefile

demo: $(FOR_DEMO)  ## a tour of the zoo, without network or GPU
	@$(BIN)/zoo demo

# Tests start hundreds of processes, which would all compile the zoo anew where bytecode is not written.
TESTS := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --maxprocesses 8 --dist worksteal

test: $(INSTALLED)  ## run all tests
	@$(TESTS)

check: $(INSTALLED)  ## run the tests but the slow ones: processes, trainings, whole studies
	@$(TESTS) -m "not slow"

lint: $(INSTALLED)  ## check style, format and types
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy

docs: $(INSTALLED)  ## renew generated parts and pictures of the documentation, and write the API reference to build/reference
	@$(BIN)/python docs/generate.py
	@$(BIN)/python -m docs.pictures
	@$(BIN)/python docs/reference.py

clean:  ## remove the environment and everything that was built or cached here
	rm -rf $(VENV) build dist demo-output .mypy_cache .ruff_cache .pytest_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp is the last thing written, so that an interrupted installation is taken up again. The demo needs a part.
$(FOR_DEMO): EXTRA := demo
$(INSTALLED): EXTRA := dev
$(FOR_DEMO) $(INSTALLED): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "There is no Python called $(PYTHON); $(ADVICE)" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "SSL Zoo needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) -V 2>&1); $(ADVICE)" >&2; exit 1; }
	@echo "Installing SSL Zoo and what $(EXTRA) needs into $(VENV), which takes some minutes the first time."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[$(EXTRA)]'
	@touch $@
