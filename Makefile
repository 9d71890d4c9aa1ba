# The two commands a newcomer needs: make demo, make test.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
unexport PYTHONDONTWRITEBYTECODE      # where that is set, every process that a test starts would compile all of it

.PHONY: demo test quick test-all types tests bench docs reference images clean

demo: $(VENV)/ready          ## simulate the quickstart scenario, with training
	$(BIN)/netsim run quickstart

PYTEST := $(BIN)/pytest -n auto --dist worksteal
TESTS := not extended

quick: $(VENV)/ready-test    ## style and the quick tests, in under a minute
	$(BIN)/ruff check .
	$(PYTEST) -m "not slow and not extended"

test: $(VENV)/ready-test     ## style, types and all tests but the extended ones, in six minutes on two cores
	$(BIN)/ruff check .
	@$(MAKE) --no-print-directory -j2 types tests

test-all: $(VENV)/ready-test     ## style, types and every test: what CI runs
	$(BIN)/ruff check .
	@$(MAKE) --no-print-directory -j2 types tests TESTS="slow or not slow"

types:     # the layout as installed, with models inside netsim; mypy's cache stays there
	@mkdir -p $(VENV)/typed && rm -rf $(VENV)/typed/netsim && cp -r netsim $(VENV)/typed/ && cp -r models scenarios $(VENV)/typed/netsim/
	cd $(VENV)/typed && ../bin/mypy --config-file ../../pyproject.toml

tests:
	$(PYTEST) -m "$(TESTS)"

bench: $(VENV)/ready-bench   ## ratios against peers and limits
	$(BIN)/python benchmarks/allocation.py
	$(BIN)/python benchmarks/kernel.py
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/flower.py
	$(BIN)/python benchmarks/trace.py
	$(BIN)/python benchmarks/lab.py

docs: $(VENV)/ready-test     ## the documentation as a static site in build/docs
	$(BIN)/python -m sphinx -W -q -b html docs build/docs
	@echo "open build/docs/index.html"

reference: $(VENV)/ready-test    ## write docs/reference again from the program, after a change of keys, commands, columns or layers
	$(BIN)/python docs/make_reference.py
	$(BIN)/python docs/make_layers.py

images: $(VENV)/ready-test   ## draw the documentation's pictures and the gallery again: minutes; needs Chromium
	$(BIN)/python docs/make_images.py
	$(BIN)/python docs/make_gallery.py

PIP_INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check

# pip alone; an editable install reads pyproject.toml, so a change there installs again
$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "netsim needs Python 3.11 or newer: make PYTHON=python3.11 …")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/ready: pyproject.toml | $(VENV)/bin/python
	@echo "installing netsim into $(VENV), which takes a minute or two …"
	@$(PIP_INSTALL) -e .
	@touch $@

$(VENV)/ready-test: $(VENV)/ready
	@echo "installing what the tests need into $(VENV), which takes a minute or two …"
	@$(PIP_INSTALL) -e '.[test,lab,docs]'
	@touch $@

$(VENV)/ready-bench: $(VENV)/ready-test
	@echo "installing what the benchmarks need into $(VENV), which takes a minute or two …"
	@$(PIP_INSTALL) -e '.[bench]'
	@touch $@

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
