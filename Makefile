# `make help` tells what each target does.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help setup test lint unit e2e generate format images cluster-up cluster-down cluster-status \
	demo demo-stop bench-reconcile bench-proxy bench-autoscale bench-soak
PYTHON := .venv/bin/python

help: ## This list.
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Install the locked Python packages into .venv.
	@tools/bootstrap.sh

test: setup ## Everything: lint, types, layers, unit, golden, API server, end to end with real engines.
	@$(PYTHON) -m tools.test

lint: setup ## Lint, format, types, layers.
	@$(PYTHON) -m tools.test lint

unit: setup ## Tests that need no cluster.
	@$(PYTHON) -m tools.test unit

e2e: setup ## Tests in the local Kubernetes.
	@$(PYTHON) -m tools.test e2e

format: setup ## Format the code, mend what lint can mend.
	@.venv/bin/ruff check -q --fix . ; .venv/bin/ruff format -q .

generate: setup ## Generate the CRD into crds/ and the chart, and docs/fields.md.
	@PYTHONPATH=operator $(PYTHON) -m pd_operator.api.crd \
		crds/pddeployments.pd-operator.io.yaml charts/pd-operator/files/pddeployments.pd-operator.io.yaml
	@PYTHONPATH=operator $(PYTHON) -m pd_operator.api.fields docs/fields.md
	@PYTHONPATH=operator $(PYTHON) -m pd_operator.checks.compatibility.document docs/compatibility.md
	@$(PYTHON) -m tools.pod_fields operator/pd_operator/checks/pod_fields.json

images: setup ## Build the images (IMAGE=… for one only).
	@$(PYTHON) -m tools.images build $(IMAGE)

cluster-up: setup ## Start the local Kubernetes (CLUSTER=kind or CLUSTER=existing for another one).
	@$(PYTHON) -m tests.cluster up

cluster-down: setup ## Stop the local Kubernetes and remove what it left.
	@$(PYTHON) -m tests.cluster down

cluster-status: setup ## Tell what of the local Kubernetes runs.
	@$(PYTHON) -m tests.cluster status

demo: setup ## From nothing to a first token through a prefill/decode pair (ENGINE=sim: simulated).
	@$(PYTHON) -m demo

demo-stop: setup ## Remove what the demo made, and stop the cluster.
	@$(PYTHON) -m demo stop

bench-reconcile: setup ## Time from apply to all children created; writes build/bench/reconcile.json.
	@$(PYTHON) -m tests.bench.bench_reconcile

bench-proxy: setup ## The proxy beside vllm-router; writes build/bench/proxy.json.
	@$(PYTHON) -m tests.bench.bench_proxy

bench-autoscale: setup ## Autoscaling policies in simulation (ARGS="--trace sg --startup 120"); build/bench/autoscale.json.
	@PYTHONPATH=operator:. $(PYTHON) -m tests.bench.bench_autoscale $(ARGS)

bench-soak: setup ## 200,000 requests under churning engines, 10,000 slow streams; writes build/bench/soak.json.
	@$(PYTHON) -m tests.bench.soak
