# Each target sets up .venv if it must. A stamp a set of extras, so that `make demo` installs no test tools.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo demo-rewards test check integration bench format clean

demo: .venv/.local
	$(BIN)/leadsman demo $(ARGS)

demo-rewards: .venv/.local
	$(BIN)/leadsman demo rewards $(ARGS)

test: .venv/.test
	$(BIN)/pytest $(ARGS)

integration: .venv/.test
	$(BIN)/pytest -m integration $(ARGS)

check: .venv/.check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/.check
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/.bench
	for run in decide extender prober store agent "estimates --matrix tests/data/rtt/planetlab_1.txt.gz"; do \
		$(BIN)/python -m benchmarks.$$run || exit 1; done

clean:
	rm -rf .venv build *.egg-info

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Leadsman needs Python 3.11 or newer")'
	$(PYTHON) -m venv .venv

.venv/.local: $(BIN)/python setup.cfg
	$(BIN)/pip install --quiet --editable '.[local]'
	touch $@

.venv/.test: $(BIN)/python setup.cfg
	$(BIN)/pip install --quiet --editable '.[local,test]'
	touch $@

.venv/.check: $(BIN)/python setup.cfg
	$(BIN)/pip install --quiet --editable '.[check,test]'
	touch $@

.venv/.bench: $(BIN)/python setup.cfg
	$(BIN)/pip install --quiet --editable '.[local,test,bench]'
	touch $@
