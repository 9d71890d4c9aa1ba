# The two commands a newcomer needs: make demo, make test.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test bench clean

demo: $(VENV)/ready          ## simulate the quickstart scenario, with training
	$(BIN)/netsim run quickstart

test: $(VENV)/ready-test     ## style, types, tests
	$(BIN)/ruff check .
	rm -rf $(VENV)/typed && mkdir $(VENV)/typed && cp -r netsim $(VENV)/typed/ && cp -r models scenarios $(VENV)/typed/netsim/
	cd $(VENV)/typed && ../bin/mypy --config-file ../../pyproject.toml   # the layout as installed: models inside netsim
	$(BIN)/pytest

bench: $(VENV)/ready-bench   ## ratios against peers and limits
	$(BIN)/python benchmarks/allocation.py
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/trace.py

# pip alone; a wheel or an editable install reads pyproject.toml, so a change there installs again
$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/ready: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/ready-test: $(VENV)/ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	@touch $@

$(VENV)/ready-bench: $(VENV)/ready-test
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[bench]'
	@touch $@

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
