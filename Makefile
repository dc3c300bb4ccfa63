# Two commands for a fresh machine (Debian or Ubuntu, Python 3.11 or newer, g++): `make optimize` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
# What `make optimize` does: a first look, so few candidates. `kernelevolve optimize` itself judges up to 24.
SPEC ?= pointwise_chain
EVALUATIONS ?= 6

.PHONY: optimize test lint types imports check doctor bench clean

optimize: $(INSTALLED)
	$(BIN)/kernelevolve optimize $(SPEC) --evaluations $(EVALUATIONS)
	@echo
	@echo "That was $(EVALUATIONS) candidates at most, for a first look. A search proper: $(BIN)/kernelevolve optimize $(SPEC)"
	@echo "(24, some minutes), or make optimize SPEC=layernorm EVALUATIONS=12; the specs that ship: $(BIN)/kernelevolve specs"

# A file's tests share what they start. Files in their own order: xdist would leave those of few tests, some of minutes each, for the end.
test: $(INSTALLED)
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder

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
	@echo "setting up $(VENV): PyTorch, then the rest; some minutes, only the first time"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	PYTHONWARNINGS="ignore:Editable installation" $(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	@touch $(INSTALLED)

clean:
	rm -rf $(VENV) build *.egg-info
