# make train: set up, train the recommended model on the bundled MNIST, print what it learned
# make test:  set up, run the whole test suite
# make check: lint and types
# make docs:  fill the tables of the documents from results/
# make site:  build the site of the documents in build/site; warnings and dead links are errors
# make figures: draw the documents' figures again from the data in results/figures
# make test-slow: tests that train on all of MNIST, some minutes
# make test-faults: kills, signals, full disks and damaged files by the thousand, an hour on a busy core
# make weights PRESETS=rotation/fast: train presets and put their weights into the package; default: all that are there
# make test-slurm: sweeps on a Slurm that the tests bring up here; as root it installs slurm-wlm and munge if need be
# make test-browser: the demo page in a real browser; as root it installs chromium if need be
# make test-trackers: installs Weights & Biases, Trackio and a notebook kernel beside the rest, and tests them for real

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

PRESETS ?= mnist/fast rotation/fast torus/fast dihedral/fast mnist/jepa-mlp rotation/additive torus/additive

.PHONY: train test test-slow test-faults test-slurm test-trackers test-browser check docs site figures weights setup \
	clean

train: $(VENV)/.installed
	$(BIN)/brojepa train

test: $(VENV)/.installed
	$(BIN)/pytest -n 2

test-slow: $(VENV)/.installed
	$(BIN)/pytest -m slow

test-faults: $(VENV)/.installed
	$(BIN)/python tests/faults/inject.py
	$(BIN)/python tests/faults/fuzz.py

test-slurm: $(VENV)/.installed
	@PATH="$$PATH:/usr/sbin"; if ! { command -v slurmctld && command -v slurmd && command -v munged; } >/dev/null; then \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; \
		then apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y install slurm-wlm munge; \
		else echo "make test-slurm needs Slurm and munge: install the packages slurm-wlm and munge" >&2; exit 1; fi; fi
	$(BIN)/pytest -m slurm tests/sweep/test_slurm_for_real.py

test-trackers: $(VENV)/.installed
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[track]' nbclient ipykernel
	$(BIN)/pytest tests/training/test_trackers.py tests/training/test_display.py

test-browser: $(VENV)/.installed
	@if ! { command -v chromium || command -v chromium-browser || command -v google-chrome; } >/dev/null; then \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; \
		then apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y install chromium; \
		else echo "make test-browser needs a browser: install the package chromium" >&2; exit 1; fi; fi
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[demo]' playwright
	$(BIN)/pytest -m 'browser or not browser' tests/demo

check: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

docs: $(VENV)/.installed
	$(BIN)/python docs/fill.py

site: $(VENV)/.installed
	$(BIN)/python tools/site_pages.py

figures: $(VENV)/.installed
	$(BIN)/brojepa figures results/figures --out docs/figures
	mv docs/figures/*.npz results/figures/
	rm docs/figures/*.svg

weights: $(VENV)/.installed
	for name in $(PRESETS); do \
		$(BIN)/brojepa train $$name --seed 0 && \
		case $$name in */fast) $(BIN)/brojepa decode runs/$$name/seed-0;; esac && \
		$(BIN)/python tools/pack_weights.py runs/$$name/seed-0 || exit; done

setup: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis
