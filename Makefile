# Two commands for a fresh machine (Debian or Ubuntu, Python 3.11 or newer, g++): `make optimize` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
SPEC ?= pointwise_chain

.PHONY: optimize test lint types imports check doctor bench clean

optimize: $(INSTALLED)
	$(BIN)/kernelevolve optimize $(SPEC)

test: $(INSTALLED)
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile

doctor: $(INSTALLED)
	$(BIN)/kernelevolve doctor

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(INSTALLED)
	$(BIN)/mypy

imports: $(INSTALLED)
	$(BIN)/lint-imports

check: lint types imports test

bench: $(INSTALLED)
	$(BIN)/kernelevolve batch starter

# torch comes first and pinned, so that nothing else decides which build is installed.
$(INSTALLED): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $(INSTALLED)

clean:
	rm -rf $(VENV) build *.egg-info
