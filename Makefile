# Cutaway: set-up, run, test and checks. `make help` lists the targets.
#
# Works with GNU Make 3.81 (macOS) and POSIX sh. What must hold: a second `make run` starts at
# once (the stamps below), and everything that is installed is checked against a hash.

PYTHON ?= python3
ARGS ?=
PYTEST_ARGS ?=
LOCK_FLAGS ?=
LLAMA_WHEEL ?=

VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check
RUFF := $(VENV)/bin/ruff
APP_STAMP := $(VENV)/installed-app
DEV_STAMP := $(VENV)/installed-dev

# pip's wheel cache does not know CMAKE_ARGS: with them set, a wheel built without them must not
# be taken, and the one built with them must not be kept.
PIP_CACHE := $(if $(strip $(CMAKE_ARGS)),--no-cache-dir,)

# GCC before 11.5, 12.4, 13.3 and 14 tells the optimiser that ldtilecfg reads 8 of its 64 bytes
# (GCC's PR 114098). llama.cpp's tile code, taken on Intel's newer servers, then crashes in the
# first step; without it those machines use AVX-512. The fault is looked for in the header itself.
CXX_USED = $(if $(filter default undefined,$(origin CXX)),c++,$(CXX))
NO_AMX = $(shell $(CXX_USED) -march=native -include immintrin.h -E -x c++ /dev/null 2>/dev/null | \
  grep -q 'ldtilecfg.*const void \*\*' && echo '-mno-amx-tile -mno-amx-int8 -mno-amx-bf16')
COMPILE_FLAGS = CFLAGS="$$CFLAGS $(NO_AMX)" CXXFLAGS="$$CXXFLAGS $(NO_AMX)"

.PHONY: help run test check lock bench soak engine clean

help:
	@echo 'make run                 install what is missing, then open the window (ARGS="…" goes to main.py)'
	@echo 'make test                run the tests (PYTEST_ARGS="…" goes to pytest)'
	@echo 'make check               format, lint, types, import rule'
	@echo 'make bench               compare the app with a bare llama.cpp loop on this machine'
	@echo 'make soak                the long tests, and all made-up examples of the others; installs 90 MB once'
	@echo 'make lock                resolve requirements/*.in again (LOCK_FLAGS=--upgrade for newer releases)'
	@echo 'make engine              build llama-cpp-python again, with CMAKE_ARGS="…"'
	@echo 'make clean               remove the virtual environment and all caches of the tools'
	@echo 'PYTHON=python3.12        choose the interpreter; LLAMA_WHEEL=file.whl: a prebuilt llama-cpp-python'

run: $(APP_STAMP)
	@$(PY) main.py $(ARGS)

# Two workers more than there are cores, four at most: a test of the window waits half of its time,
# for a timer, a child or the disk, and another one runs meanwhile. More would only take memory. A
# file's tests stay in one worker, which loads weights once for all (tests/workers.py).
# PYTEST_ARGS="--workers=0" runs one test after another in this process.
COUNT_WORKERS = import os; print(min(4, (os.cpu_count() or 1) + 2))
WORKERS = --workers=$(shell $(PY) -c '$(COUNT_WORKERS)')

# Without an X server to start, the tests that press real keys are left out, and that is said.
# .ci/run installs one.
test: $(DEV_STAMP)
	@if command -v Xvfb >/dev/null 2>&1 && command -v xdotool >/dev/null 2>&1; then \
	  marks='not soak'; \
	else \
	  marks='not soak and not xvfb'; \
	  echo 'Xvfb and xdotool are not both installed: the tests that press real keys are skipped.'; \
	fi; \
	$(PY) -m pytest -m "$$marks" $(WORKERS) $(PYTEST_ARGS)

check: $(DEV_STAMP)
	$(RUFF) format --check .
	$(RUFF) check .
	$(PY) -m mypy
	$(PY) -m pytest -q tests/test_imports.py

bench: $(APP_STAMP)
	@$(PY) main.py bench $(ARGS)

soak: $(DEV_STAMP)
	CUTAWAY_ALL_EXAMPLES=1 $(PY) -m pytest -m 'soak or hypothesis' -o faulthandler_timeout=3600 $(PYTEST_ARGS)

# The environment. An interrupted installation leaves no stamp and is taken up again.

$(APP_STAMP): requirements/pip.txt requirements/app.txt requirements/data.txt
	@command -v $(PYTHON) >/dev/null 2>&1 || { \
	  echo 'Cutaway needs Python 3.11 or newer, and "$(PYTHON)" was not found. Install it, or name one: make run PYTHON=python3.12'; \
	  exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Cutaway needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) --version 2>&1). Name a newer one: make run PYTHON=python3.12"; \
	  exit 1; }
	@if ! $(PY) -m pip --version >/dev/null 2>&1; then \
	  $(PYTHON) -m venv --clear $(VENV) || { \
	    echo 'The virtual environment could not be made. On Debian and Ubuntu, install the package python3-venv, then run make again.'; \
	    exit 1; }; \
	fi
	@$(PIP) install --quiet --require-hashes -r requirements/pip.txt
ifneq ($(strip $(LLAMA_WHEEL)),)
	@$(PIP) install --no-deps '$(LLAMA_WHEEL)'
endif
	@$(PIP) show --quiet llama-cpp-python >/dev/null 2>&1 || \
	  echo 'Installing. Unless pip has it in its cache, llama-cpp-python is compiled now: about twelve minutes on two cores, once.'
	@$(COMPILE_FLAGS) $(PIP) install $(PIP_CACHE) --require-hashes -r requirements/app.txt || { \
	  echo 'The installation did not finish. If llama-cpp-python could not be compiled, look under "What a fresh machine needs" in README.md. Then run make again: it goes on from here.'; \
	  exit 1; }
	@$(PIP) install --no-deps --require-hashes -r requirements/data.txt
	@touch $@

$(DEV_STAMP): $(APP_STAMP) requirements/dev.txt requirements/data-dev.txt
	@$(PIP) install --require-hashes -r requirements/dev.txt
	@$(PIP) install --no-deps --require-hashes -r requirements/data-dev.txt
	@touch $@

# The same release of llama-cpp-python from its hashed source, compiled with CMAKE_ARGS. Where
# nothing is installed yet, installing compiles it.
engine:
	@if [ ! -f $(APP_STAMP) ]; then $(MAKE) $(APP_STAMP); else \
	  awk '/^[A-Za-z]/ { wanted = ($$1 ~ /^llama-cpp-python==/) } wanted' requirements/app.txt \
	    > $(VENV)/engine.txt && \
	  $(COMPILE_FLAGS) $(PIP) install --force-reinstall --no-deps --no-cache-dir --no-binary llama-cpp-python \
	    --require-hashes -r $(VENV)/engine.txt; fi

# A lock that names an index or an address would bind the project to one; grep sees to it.

COMPILE := $(VENV)/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
  --no-emit-index-url --no-header $(LOCK_FLAGS)

lock: $(DEV_STAMP)
	$(COMPILE) requirements/pip.in -o requirements/pip.txt
	$(COMPILE) requirements/app.in -o requirements/app.txt
	$(COMPILE) --no-deps requirements/data.in -o requirements/data.txt
	$(COMPILE) --no-deps requirements/data-dev.in -o requirements/data-dev.txt
	$(COMPILE) --no-deps requirements/data-soak.in -o requirements/data-soak.txt
	$(COMPILE) --constraints requirements/app.txt requirements/dev.in -o requirements/dev.txt
	@if grep -nE '://|^ *(-i|-f|--(extra-)?index-url|--find-links)' requirements/*.in requirements/*.txt; then \
	  echo 'The lines above name an index or an address. Remove them before you commit.'; exit 1; fi

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .benchmarks .coverage build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
