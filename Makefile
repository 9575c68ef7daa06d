# Commands for people who work on countersign. `make` prints this list.

GO        ?= go
GOLANGCI  := v2.15.0
# A number of inputs, not a duration: Go before 1.27 now and then reports the end
# of a duration as a failure (go.dev/issue/75804).
FUZZTIME  ?= 1000000x
BENCHTIME ?= 12000x
# Runs a command with a Postgres and a MongoDB, which it finds or starts.
SERVERS   := $(GO) run ./internal/testservers --
# Tools are installed here, never into the user's own folders.
BIN       := $(CURDIR)/.cache/bin

.DEFAULT_GOAL := help

.PHONY: help
help: ## print the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

# What each request in a transaction of its own need not prove again in each run:
# the rules are the same, and other groups send the same statements. make thorough does.
REPEATED  := ^TestConformance$$/^transactions$$/^(schema|constraint|scope|events|namespace|log_random|log_concurrency|schema_and_constraint|concurrency_scope|sequence)$$
# On the MongoDB that tests start by themselves each of them takes seconds.
REPEATED_SLOWLY := ^TestConformance$$/^transactions$$/^(schema|constraint|scope|events|namespace|log_.*|schema_and_constraint|concurrency_scope|sequence|identity|payload|limit|integer|alias|page|context|handle|recover|outbox|concurrency|linear|wait|random|kill|join)$$

.PHONY: test
test: ## run every test with servers, under the race detector too where there is a C compiler
	@$(SERVERS) $(MAKE) --no-print-directory -j2 test-mongo test-others

# With the servers that the environment names, if any. The MongoDB that tests start
# by themselves keeps one processor busy, and the tests wait for it: the others need
# not wait too.
.PHONY: test-mongo
test-mongo:
	@$(GO) test -timeout 25m -skip '$(REPEATED_SLOWLY)' ./store/mongo

.PHONY: test-others
test-others:
	@$(GO) test -timeout 25m -skip '$(REPEATED)' $$($(GO) list ./... | grep -v /store/mongo$$)
	@if [ "$$($(GO) env CGO_ENABLED)" = 1 ] && command -v "$$($(GO) env CC)" >/dev/null; then \
		$(MAKE) --no-print-directory race-here; \
	else \
		echo "no C compiler: the race detector was left out"; \
	fi

.PHONY: race
race: ## run the tests with servers under the race detector only, the suite once for each store
	@$(SERVERS) $(MAKE) --no-print-directory race-here

.PHONY: race-here
race-here:
	@echo "with the race detector:"
	@$(GO) test -race -timeout 25m $$($(GO) list ./... | grep -vE '/store/(mongo|postgres|sqlite)$$')
	@$(GO) test -race -timeout 25m -run '^TestConformance$$/^(concurrency|atomically|log_concurrency|log_atomically|join)$$' ./store/sqlite ./store/postgres
	@$(GO) test -race -timeout 25m -run '^TestConformance$$/^(concurrency|atomically|log_concurrency)$$' ./store/mongo
	@$(GO) test -race -timeout 25m -skip '^Test(Conformance|Crash|Killed)' ./store/sqlite
	@$(GO) test -race -timeout 25m -skip '^TestC' ./store/postgres ./store/mongo

.PHONY: thorough
thorough: ## run the suite in every mode of every driver, and 10000 random histories on all stores
	@COUNTERSIGN_TEST_THOROUGH=1 $(SERVERS) $(MAKE) --no-print-directory thorough-here

.PHONY: thorough-here
thorough-here:
	@$(GO) test -timeout 0 ./store/postgres ./store/mongo
	@$(GO) test -timeout 0 -v ./internal/differential -rapid.checks=10000

.PHONY: servers
servers: ## start the servers, print their variables and wait, for a go test by hand
	@$(GO) run ./internal/testservers

.PHONY: fuzz
fuzz: ## fuzz each target with FUZZTIME inputs (1000000x)
	@$(GO) list -f '{{if .TestGoFiles}}{{.Dir}}{{else if .XTestGoFiles}}{{.Dir}}{{end}}' ./... | while read -r dir; do \
		for target in $$(grep -hoE '^func Fuzz[A-Za-z0-9_]*' "$$dir"/*_test.go | sed 's/func //'); do \
			echo "$$target in $${dir#$(CURDIR)/}"; \
			(cd "$$dir" && $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x .) || exit 1; \
		done; \
	done

.PHONY: bench
bench: ## run the benchmarks with servers and print them as a table of ratios
	@$(SERVERS) $(MAKE) --no-print-directory bench-here | tee /dev/stderr | $(GO) run ./internal/benchtable

.PHONY: bench-here
bench-here:
	@$(GO) test -run '^$$' -bench 'Commit|AppendWithReceipt|AppendToMany' -benchtime $(BENCHTIME) -timeout 60m ./store/sqlite ./store/postgres
	@$(GO) test -run '^$$' -bench 'AppendBatch|ReadEvents' -benchtime 300x -timeout 60m ./store/sqlite ./store/postgres
	@$(GO) test -run '^$$' -bench 'Behind(Log|Events)' -benchtime 4000x -timeout 60m ./store/sqlite ./store/postgres
	@$(GO) test -run '^$$' -bench 'Commit|AppendWithReceipt' -benchtime 2000x -timeout 60m ./store/mongo
	@$(GO) test -run '^$$' -bench 'AppendBatch|BehindEvents' -benchtime 50x -timeout 60m ./store/mongo
	@$(GO) test -run '^$$' -bench ReadHistory -benchtime 10x ./store/sqlite
	@$(GO) test -run '^$$' -bench 'Handle|Prepare|Validate' -benchmem ./durable ./eventlog ./internal/jsonschema
	@cd bench && $(GO) test -run '^$$' -bench SingleAppend -benchtime 20000x -timeout 60m . && $(GO) test -run '^$$' -bench Observer -benchtime 2x -timeout 60m .

.PHONY: fmt
fmt: ## format the code
	gofmt -w .

.PHONY: tidy
tidy: ## tidy go.mod and go.sum
	$(GO) mod tidy

.PHONY: lint
lint: $(BIN)/golangci-lint-$(GOLANGCI) ## check format, go vet, golangci-lint and go.mod
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "run make fmt"; exit 1; }
	$(GO) vet ./...
	$(BIN)/golangci-lint-$(GOLANGCI) run ./...
	$(GO) mod tidy -diff

$(BIN)/golangci-lint-$(GOLANGCI):
	GOBIN=$(BIN) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI)
	mv $(BIN)/golangci-lint $@
