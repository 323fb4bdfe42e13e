# `make` lists the targets. Works with GNU make from 3.81.
.DEFAULT_GOAL := help
.PHONY: help setup setup/browser setup/peers start demo dev gen build check check-gen audit format test test/full
.PHONY: bench bench/smoke bench/table bench/compare flame soak faults faults/soak

BIN := node_modules/.bin
TS := node --import tsx
# In this order: later ones read what earlier ones wrote. Any other generator comes last.
GENERATORS := $(wildcard scripts/gen-schema.ts scripts/gen-lua.ts scripts/gen-openapi.ts scripts/gen-docs.ts)
GENERATORS += $(filter-out $(GENERATORS),$(wildcard scripts/gen-*.ts))
# Directories too: theirs is the time that changes when a file goes away.
SOURCES := $(shell find src)

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z%\/-]+:.*## / { sub("%", "<room>", $$1); printf "  make %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: ## Install Redis and the packages, where missing
	@sh scripts/setup.sh

setup/browser: ## The same, and what only tests need: Chromium, promtool
	@sh scripts/setup.sh browser

setup/peers: setup bench/peers/node_modules/.package-lock.json ## The packages that the benches compare with

start: setup build ## Build and run the server; localhost is allowed as a target
	@$(allow-private); exec bin/sluice serve

demo: setup build ## See it work: a server, a receiver, a batch
	@$(allow-private); exec $(TS) scripts/demo.ts

dev: setup ## Run the server from src, again after each change
	@$(allow-private); exec node --watch --import tsx src/main.ts

gen: ## Write every generated file
	@for generator in $(GENERATORS); do $(TS) $$generator || exit 1; done

build: dist/.stamp ## Build dist from src and the packages, where they are newer

check: setup setup/peers check-gen ## Generated files, types, style, Lua
	$(BIN)/tsc --noEmit
	$(BIN)/tsc --noEmit -p src/dashboard
	$(BIN)/tsc --noEmit -p bench/peers
	$(BIN)/biome check --error-on-warnings .
	$(TS) scripts/lint-lua.ts

check-gen:
	@mkdir -p .make; $(fingerprint) >.make/gen-before
	@$(MAKE) --no-print-directory gen
	@$(fingerprint) >.make/gen-after
	@diff .make/gen-before .make/gen-after || { echo 'Generated files were stale. They are right now: look at them and keep them.' >&2; exit 1; }

audit: setup ## Known faults of what runs in production; passes where nobody tells
	@$(TS) scripts/audit.ts

format: ## Put the style right where a machine can
	$(BIN)/biome check --write .

test: setup/browser build check audit ## Check, then all tests; each file has its own Redis
	@$(call run-tests,find test -name '*.test.ts')

test/full: TEST_MS_MAX := 900000
test/full: export TEST_RUNS ?= 5
test/full: setup/browser build check audit ## The same, and the long ones
	@$(call run-tests,find test -name '*.test.ts' -o -path 'test/full/*.full.ts')

test/%: setup/browser build ## The tests of one room: make test/store
	@$(call run-tests,find test/$* -name '*.test.ts')

bench: setup/peers build ## Measure, about as long as it takes to trust a figure; then the table of bench/table: REPEATS=5
	@$(TS) bench/main.ts $(if $(REPEATS),--repeats $(REPEATS))
	@$(TS) bench/table.ts $(if $(REPEATS),--repeats $(REPEATS))

bench/smoke: setup/peers build ## All benches in seconds: does every one still run?
	@$(TS) bench/main.ts --smoke
	@$(TS) bench/table.ts --smoke

bench/table: setup/peers build ## Sluice beside its peers, one table: REPEATS=5, ROWS="flow create"
	@$(TS) bench/table.ts $(if $(REPEATS),--repeats $(REPEATS)) $(ROWS)

bench/compare: setup build ## This tree beside another commit: BASE=main, REPEATS=5, ROWS="flow create"
	@$(TS) bench/compare.ts --base "$(BASE)" $(if $(REPEATS),--repeats $(REPEATS)) $(ROWS)

flame: setup build ## Profile a server under load, as flame graphs: ROW=end_to_end, SMOKE=1
	@$(TS) bench/flame.ts $(if $(ROW),--row "$(ROW)") $(if $(SMOKE),--smoke)

soak: setup build ## A mixed load for long, does anything grow? MINUTES=10, RATE=500
	@$(TS) bench/soak.ts $(if $(MINUTES),--minutes $(MINUTES)) $(if $(RATE),--rate $(RATE))

faults: setup build ## Break everything there is, row by row: ROW=6, SEED=7, QUICK=1
	@$(TS) faults/main.ts $(if $(ROW),--row "$(ROW)") $(if $(SEED),--seed $(SEED)) $(if $(QUICK),--quick)

faults/soak: setup build ## Load and a fault a minute for SOAK=20 minutes; SEED=7
	@$(TS) faults/soak/main.ts $(if $(SOAK),--minutes "$(SOAK)") $(if $(SEED),--seed $(SEED))

# A failed build leaves the last good one in place.
dist/.stamp: $(SOURCES) scripts/build.sh scripts/node-globals.js package.json package-lock.json tsconfig.json tsconfig.build.json | setup
	@rm -rf dist.next
	sh scripts/build.sh dist.next
	@rm -rf dist && mv dist.next dist && touch $@

# npm writes this file last. A linked directory belongs to another checkout: npm would empty it.
bench/peers/node_modules/.package-lock.json: bench/peers/package-lock.json
	@[ -L bench/peers/node_modules ] || npm ci --prefix bench/peers --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

# A first receiver is on localhost, which the egress guard refuses elsewhere.
define allow-private
if [ -z "$${SLUICE_ALLOW_PRIVATE_TARGETS+given}" ]; then \
  echo 'SLUICE_ALLOW_PRIVATE_TARGETS is not set: private addresses such as localhost are allowed as targets.'; \
  export SLUICE_ALLOW_PRIVATE_TARGETS=true; \
fi
endef

# Whatever a generator may write.
fingerprint = find README.md src docs deploy -type f \( -name README.md -o -name '*.gen.*' -o -path 'docs/*' -o -path 'deploy/*' \) -exec cksum {} + | sort -k 3

# Node 20 expands no patterns and is content with no file at all, so the files are named, and none is a failure.
define run-tests
mkdir -p .make; files=$$($(1) | sort); \
if [ -z "$$files" ]; then echo 'No test files found.' >&2; exit 1; fi; \
code=0; TEST_DIST=dist node --import tsx --test --test-concurrency=3 --test-timeout=$(or $(TEST_MS_MAX),300000) \
  --test-reporter=spec --test-reporter-destination=stdout \
  --test-reporter=./scripts/slowest-files.js --test-reporter-destination=.make/slowest \
  $$files || code=$$?; \
cat .make/slowest; exit $$code
endef
