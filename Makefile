# make train: set up, train the recommended model on the bundled MNIST, print what it learned
# make test:  set up, run the whole test suite
# make check: lint and types

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

.PHONY: train test check setup clean

train: $(VENV)/.installed
	$(BIN)/brojepa train

test: $(VENV)/.installed
	$(BIN)/pytest -n 2

check: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

setup: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis
