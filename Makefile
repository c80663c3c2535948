# What can be done with this repository. `make help` lists it.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Linters live in a module of their own, so that they do not choose the versions
# of what we ship.
TOOL := go tool -modfile=tools/go.mod
PKG ?= ./...

# The race detector needs a C compiler; without one the tests run without it.
RACE := $(shell [ "$$(go env CGO_ENABLED)" = 1 ] && command -v "$$(go env CC)" >/dev/null && echo -race)

.PHONY: help run build test lint fmt fuzz cover bench bench-cluster search-quality

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: build ## run the demo: a gateway and three sample servers behind it
	@exec bin/causeway demo

build: ## build bin/causeway
	@CGO_ENABLED=0 go build -trimpath -o bin/causeway ./cmd/causeway

test: ## run all tests; installs the programs they need (PKG=./gateway for some)
	@scripts/peers go test $(RACE) -timeout 20m $(PKG)

lint: ## look for bugs, bad style and known vulnerabilities
	@go mod verify >/dev/null
	@$(TOOL) golangci-lint run $(PKG)
	@scripts/vulncheck

fmt: ## format the Go files
	@gofmt -w $$(git ls-files --cached --others --exclude-standard '*.go')

fuzz: ## run each fuzz target for 10 s (FUZZTIME=1m for longer)
	@scripts/fuzz $(PKG)

cover: ## run all tests and show what they cover (out/cover.html has the lines)
	@mkdir -p out
	@scripts/peers go test -coverpkg=./... -coverprofile=out/cover.out $(PKG)
	@go tool cover -html=out/cover.out -o out/cover.html
	@go tool cover -func=out/cover.out | tail -n 1

bench: ## measure the gateway against a bare reverse proxy and others
	@go run ./loadtest

bench-cluster: ## measure three replicas with Redis, into loadtest/RESULTS.md
	@scripts/peers go run ./loadtest cluster -out loadtest/RESULTS.md

search-quality: ## measure how well search_tools finds, with the catalogue in ../shared/toolsearch (CAUSEWAY_TOOLSEARCH for another place)
	@go test ./federation -run '^TestSearchQuality$$' -count=1 -v
