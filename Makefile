# Everything a reader or a contributor does here. `make` lists the targets.

STAGES := $(shell sed -n 's/^\([a-z0-9-]*\):.*/\1/p' stages.txt)
LINT := .lab/bin/golangci-lint

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-14s %s\n", $$1, $$2 }'

.PHONY: demo
demo: ## Show the main job, step by step, on a control plane on this machine
	go run ./lab demo

.PHONY: test
test: check ## Pass every test: unit tests, the emulator's, and each stage's script on a real API server
	go test $(patsubst %,./%/...,$(filter-out part6-routes final,$(STAGES)))
	go test -race ./lab/cloud/... ./tools/... ./part6-routes/... ./final/...
	go test -count=1 -timeout 30m ./lab ./lab/bench/... ./lab/cloudctl/... ./lab/cluster/... ./lab/kubelet/... ./lab/stack/...
	go test -count=1 -timeout 30m -p 1 -parallel 4 ./lab/finaltest/...
	go test -count=1 -timeout 60m -parallel 4 ./lab/script

.PHONY: test-stages
test-stages: ## Run each script on its own stage and all later ones, and see it fail on the one before
	CCM_LAB_MATRIX=full go test -count=1 -timeout 60m -run TestScripts -v ./lab/script

.PHONY: check
check: lint ## Check formatting, stages, quotes, links and generated pages
	go run ./tools/stages check
	go run ./tools/quote check
	go run ./lab docs --check

.PHONY: lint
lint: $(LINT) ## Run gofmt, go vet and golangci-lint on all modules, and shellcheck on shell scripts
	@set -e; for module in lab tools $(STAGES); do echo "lint $$module"; (cd $$module && ../$(LINT) run ./...); done
	@if command -v shellcheck > /dev/null || [ -n "$$CI" ]; then shellcheck .ci/run lab/cluster/*.sh; \
	else echo "shellcheck is not installed: shell scripts are not linted"; fi

$(LINT): tools/lint/go.mod tools/lint/go.sum
	@echo "building golangci-lint (once, about two minutes)"
	@cd tools/lint && GOWORK=off go build -o ../../$(LINT) github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@touch $(LINT)

.PHONY: generate
generate: ## Rewrite what is generated: diff pages, tables, quotes, reference pages
	go test ./lab/finaltest -run TestReferencePages -update
	go run ./tools/stages diff
	go run ./tools/quote update
	go run ./lab docs
	go run ./final reference policy > final/deploy/optional/admission.yaml
	cp final/deploy/optional/admission.yaml final/chart/files/admission.yaml

.PHONY: propagate
propagate: ## Carry an edit of stage FROM forward into all later ones: make propagate FROM=part1-skeleton
	go run ./tools/stages propagate --from $(FROM)

.PHONY: build
build: ## Build every stage alone, as a module outside of the workspace
	@set -e; for stage in $(STAGES); do echo "build $$stage"; (cd $$stage && GOWORK=off go build -o ../.lab/bin/$$stage .); done

# The environment on real servers, of docs/part2-devenv.md.
DEV_ENV := part2-devenv/dev-env
STAGE ?= $(lastword $(STAGES))

.PHONY: dev-up
dev-up: ## Start the environment on Hetzner Cloud servers; it costs money until dev-down
	sh $(DEV_ENV)/up.sh

.PHONY: dev-down
dev-down: ## Delete the environment and what its cluster has made, and nothing else
	sh $(DEV_ENV)/down.sh

.PHONY: dev-run
dev-run: ## Run a stage there with skaffold: make dev-run STAGE=part3-nodes [MODE=debug|laptop]
	cd $(STAGE) && sh ../$(DEV_ENV)/run.sh $(MODE)

.PHONY: dev-load
dev-load: ## Run a stage there without a registry: make dev-load STAGE=part3-nodes
	cd $(STAGE) && sh ../$(DEV_ENV)/load.sh

.PHONY: dev-ssh
dev-ssh: ## Open a shell on a server there: make dev-ssh [NODE=worker-1]
	sh $(DEV_ENV)/ssh.sh $(NODE)

.PHONY: dev-logs
dev-logs: ## Follow the log of the program there
	kubectl logs --kubeconfig $(DEV_ENV)/kubeconfig.yaml -n kube-system deployment/cloud-controller-manager --follow

.PHONY: dev-test
dev-test: ## Apply its configuration with the real providers, on the emulated cloud
	go test -count=1 -tags devtest -run TestProvider -v ./lab/devenv

# A machine without tofu and terraform builds one, hence the time.
.PHONY: dev-check
dev-check: ## Test the environment's configuration and scripts without a cloud
	@if command -v shellcheck > /dev/null || [ -n "$$CI" ]; then shellcheck -x -P SCRIPTDIR $(DEV_ENV)/*.sh; \
	else echo "shellcheck is not installed: shell scripts are not linted"; fi
	go test -count=1 -timeout 60m ./lab/devenv

test: dev-check

K8S := v0.37.2
HCLOUD := v2.52.0
K8S_MODULES := $(addprefix k8s.io/,api apimachinery apiserver client-go cloud-provider component-base)

.PHONY: deps
deps: ## Set the versions above in all modules
	@set -e; for module in lab tools $(STAGES); do (cd $$module; \
	  for dep in $(K8S_MODULES:%=%@$(K8S)) github.com/hetznercloud/hcloud-go/v2@$(HCLOUD); do \
	    if grep -q "^	$${dep%@*} v[^ ]*$$" go.mod; then go mod edit -require "$$dep"; fi; \
	  done); done
	go work sync
	@set -e; for module in lab tools $(STAGES); do (cd $$module && GOWORK=off go mod tidy); done

.PHONY: clean
clean: ## Remove what was built here; the control plane's binaries stay in the user's cache folder
	rm -rf .lab
