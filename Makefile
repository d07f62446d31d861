# Mindport: `make help` lists what there is to run.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Two of these at once would only fight over the same cores and the same environment.
.NOTPARALLEL:

# The first interpreter that will do; `make PYTHON=/path/to/python` takes another.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.10 python3; do \
	"$$p" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] < (3, 13))' 2>/dev/null \
	&& echo "$$p" && break; done)

VENV := .venv
VENV_MF := .venv-mindformers
VENV_MS := .venv-mindspore-2.7
PY := $(VENV)/bin/python
PY_MF := $(VENV_MF)/bin/python
PY_MS := $(VENV_MS)/bin/python
STAMP := $(VENV)/.ready
STAMP_MF := $(VENV_MF)/.ready
CONSTRAINTS_MF := src/mindport/verify/mindformers/constraints.txt
STAMP_MS := $(VENV_MS)/.ready

# Releases of MindFormers before the one that the rest is tested with, each with an environment of its own. They can
# all run with one MindSpore, of more than 2 GB, which is therefore installed once, beside them.
RELEASES := 1.6 1.7 1.8
VENV_RELEASES := $(RELEASES:%=.venv-mindformers-%)
STAMP_RELEASES := $(VENV_RELEASES:%=%/.ready)
PACKAGES_1.6 := mindformers==1.6.0 transformers==4.51.3 tokenizers==0.21.0
PACKAGES_1.7 := mindformers==1.7.0 transformers==4.51.3 tokenizers==0.21.0
PACKAGES_1.8 := mindformers==1.8.0 transformers==4.57.1 tokenizers==0.22.2

PYTEST_ARGS ?=
PIP_FLAGS := --quiet --quiet --no-input --disable-pip-version-check --progress-bar off --no-compile
PIP_INSTALL := -m pip install $(PIP_FLAGS)

# Where this is set, Python would compile the frameworks anew at each start of ours: some ten seconds every time.
unexport PYTHONDONTWRITEBYTECODE
# MindFormers writes its logs where it is imported, unless told otherwise.
export LOCAL_DEFAULT_PATH ?= $(CURDIR)/.cache/mindformers

comma := ,
WARM := accelerate$(comma) gguf$(comma) jinja2$(comma) matplotlib.pyplot$(comma) mindspore$(comma) torch$(comma) transformers$(comma) typer
WARM_MF := mindformers$(comma) mindspore$(comma) torch$(comma) transformers

# make_venv DIR, PACKAGES, CONSTRAINTS, MODULES: makes DIR, or brings it up to date, with one call of the resolver.
# PACKAGES is what pip is to install, in its own words.
# A current pip first: it is much quicker than the one that comes with Python. No bytecode for the tens of thousands
# of files that nobody imports: importing MODULES compiles what is needed, in a tenth of the time.
define make_venv
@if ! $(1)/bin/python -m pip --version >/dev/null 2>&1; then \
	py='$(PYTHON)'; py="$${py:-python3}"; \
	"$$py" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] < (3, 13))' 2>/dev/null || { \
		echo "error: Mindport needs Python 3.10, 3.11 or 3.12, and '$$py' is not one; try: make PYTHON=/path/to/python3.11" >&2; \
		exit 1; }; \
	echo "Making $(1) with $$("$$py" --version)"; \
	rm -rf $(1); "$$py" -m venv $(1); \
fi; \
echo "Installing into $(1): a minute or more, and the time of a download of about one gigabyte"; \
$(1)/bin/python $(PIP_INSTALL) --constraint $(3) --upgrade pip; \
$(1)/bin/python $(PIP_INSTALL) --prefer-binary --constraint $(3) $(2); \
$(1)/bin/python -W ignore -c 'import $(4)' >/dev/null
endef

.PHONY: help
help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

.PHONY: venv
venv: $(STAMP) ## Make or update the environment in .venv

$(STAMP): pyproject.toml constraints.txt
	$(call make_venv,$(VENV),--editable '.[all$(comma)dev]',constraints.txt,$(WARM))
	@touch $@

$(STAMP_MF): pyproject.toml $(CONSTRAINTS_MF)
	$(call make_venv,$(VENV_MF),--editable '.[mindformers$(comma)verify$(comma)examples$(comma)dev]',$(CONSTRAINTS_MF),$(WARM_MF))
	@touch $@

$(STAMP_MS): constraints-mindspore-2.7.txt
	$(call make_venv,$(VENV_MS),--no-deps --requirement constraints-mindspore-2.7.txt,constraints-mindspore-2.7.txt,mindspore)
	@touch $@

# A release sees the packages of the shared environment after its own.
$(STAMP_RELEASES): .venv-mindformers-%/.ready: Makefile $(STAMP_MS)
	@echo "Making $(@D)"; \
	rm -rf $(@D); \
	$(PY_MS) -m venv --without-pip $(@D); \
	packages='import sysconfig; print(sysconfig.get_path("purelib"))'; \
	$(PY_MS) -c "$$packages" > "$$($(@D)/bin/python -c "$$packages")/shared.pth"; \
	$(PY_MS) -m pip --python $(@D)/bin/python install $(PIP_FLAGS) --no-deps $(PACKAGES_$*); \
	$(@D)/bin/python -W ignore -c 'import mindformers' >/dev/null
	@touch $@

.PHONY: demo
demo: $(STAMP) ## Fetch the example models and run the whole tour
	$(PY) examples/fetch_models.py
	$(PY) examples/demo.py

.PHONY: test
test: $(STAMP) ## Run the tests, but for the slow ones
	$(PY) -m pytest -m "not slow" --numprocesses auto --maxprocesses 8 --dist loadgroup $(PYTEST_ARGS)

.PHONY: slow
slow: $(STAMP) $(STAMP_RELEASES) ## Run the slow tests, and every mutation of every test model
	$(PY) -m pytest -m slow $(PYTEST_ARGS)
	MINDPORT_EVERY_MUTATION=1 $(PY) -m pytest tests/architectures/test_mutations.py \
		--numprocesses auto --maxprocesses 8 --dist loadgroup $(PYTEST_ARGS)

.PHONY: conformance
conformance: $(STAMP_MF) ## Run the tests that need MindFormers or transformers 4, in .venv-mindformers
	MINDPORT_CONFORMANCE=1 $(PY_MF) -m pytest tests/conformance tests/architectures/test_defaults.py \
		--override-ini faulthandler_timeout=600 $(PYTEST_ARGS)
	$(PY_MF) -m pytest tests/architectures/test_parity.py -k "test_outputs and -0-" $(PYTEST_ARGS)

.PHONY: lint
lint: $(STAMP) ## Check style, format and types
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

.PHONY: format
format: $(STAMP) ## Put the code into the agreed format
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

.PHONY: docs
docs: $(STAMP) ## Write the pages that are derived from the code
	$(PY) docs/generate.py

.PHONY: clean
clean: ## Remove the environments, the caches and what the demo wrote
	rm -rf $(VENV) $(VENV_MF) $(VENV_MS) $(VENV_RELEASES) build dist demo-output .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find src tests examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
