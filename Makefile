# A menu over CMake and scripts/. `make` alone prints it.
JOBS ?= 2
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 60
SEED ?= 1
SEEDS ?= 10000
KILLS ?= 500
CHURN_S ?= 3600
NET_ROUNDS ?= 2000
CRASH_SEED = $(if $(filter command line environment,$(origin SEED)),--seed $(SEED))
export JOBS FUZZ_SECONDS

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help build demo test check units asan tsan tidy fuzz sim soak crash restarts netkills netfuzz
.PHONY: pressure format install clean need-build need-demo need-test

help: ## print this menu
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: need-build ## build goblin, goblin-bench and libgoblin into build/release
	scripts/build release

demo: need-demo build ## DATA=/usr/share as objects, measured beside RocksDB, in about a minute
	scripts/demo build/release $(DATA)

test: check units asan tsan tidy ## everything below up to tidy; what CI runs

check: need-test ## format, sizes, includes, headers, words
	scripts/check

units: need-test ## build with -Werror and run every test
	scripts/run-tests dev

asan: need-test ## every test again under the address and undefined behaviour sanitizers
	scripts/run-tests asan

tsan: need-test ## the threaded tests again under the thread sanitizer
	scripts/run-tests tsan

tidy: need-test ## clang-tidy over src/ (scripts/tidy --changed looks at your changes only)
	scripts/tidy

fuzz: need-test ## run every fuzz target for FUZZ_SECONDS (60) each
	scripts/fuzz

sim: need-test ## one simulated life of a store, step by step: make sim SEED=7
	@scripts/build dev goblin-sim
	build/dev/tests/goblin-sim --seed $(SEED)

soak: need-test ## SEEDS (10,000) simulated lives, in a few minutes
	@scripts/build dev goblin-sim
	build/dev/tests/goblin-sim --seeds $(SEEDS)

crash: need-test ## KILLS (500) times kill -9 of a loaded store, each looked over; SEED= replays
	@scripts/build dev goblin-crash goblin
	build/dev/tests/goblin-crash --kills $(KILLS) --goblin build/dev/goblin $(CRASH_SEED)

restarts: need-test ## CHURN_S (3600) seconds of churn, then 20 clean and 20 dirty restarts
	@scripts/build dev goblin-crash goblin
	build/dev/tests/goblin-crash --churn $(CHURN_S) --goblin build/dev/goblin $(CRASH_SEED)

netkills: need-test ## KILLS (500) times kill -9 of a loaded server, each looked over; SEED=
	@scripts/build dev goblin
	GOBLIN=$(CURDIR)/build/dev/goblin GOBLIN_KILLS=$(KILLS) \
	    $(if $(filter command line environment,$(origin SEED)),GOBLIN_SEED=$(SEED)) \
	    bash tests/e2e/restarts.sh

netfuzz: need-test ## NET_ROUNDS (2000) rounds of split, mixed and cut network streams; SEED= replays
	@scripts/build dev integration_netfuzz_threads
	GOBLIN_NETFUZZ_ROUNDS=$(NET_ROUNDS) \
	    $(if $(filter command line environment,$(origin SEED)),GOBLIN_SEED=$(SEED)) \
	    build/dev/tests/integration_netfuzz_threads

pressure: need-test ## ten minutes of load in 128 MiB of RAM
	@scripts/build dev
	FAULT_SECONDS=600 FAULTLOAD=$(CURDIR)/build/dev/tests/faultload bash tests/fault/pressure.sh

clients: need-clients ## every client and tool of others against the server, in some minutes
	@scripts/build dev goblin
	CLIENTS_ALL=yes GOBLIN=$(CURDIR)/build/dev/goblin bash tests/e2e/clients.sh
	CLIENTS_ALL=yes GOBLIN=$(CURDIR)/build/dev/goblin bash tests/e2e/http_tools.sh
	CLIENTS_ALL=yes GOBLIN=$(CURDIR)/build/dev/goblin bash tests/e2e/http_caches.sh

format: need-test ## put every C file into the house's shape
	scripts/check-format --fix

install: build ## install under PREFIX (/usr/local), below DESTDIR if set
	cmake --install build/release --prefix $(PREFIX)

clean: ## remove what was built
	rm -rf build/dev build/release build/asan build/tsan build/fuzz build/results

need-build:
	@scripts/bootstrap build

need-demo:
	@scripts/bootstrap demo

need-test:
	@scripts/bootstrap test

need-clients:
	@scripts/bootstrap clients
