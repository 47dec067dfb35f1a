# Two commands do everything on a fresh machine: `make demo` and `make test`.
SHELL := /bin/sh
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv
# Every installation gets the same versions, and only files whose hashes are in constraints.txt.
INSTALL = $(UV) pip install --quiet --python $(BIN)/python --constraint constraints.txt --build-constraint constraints.txt --editable
export UV_PYTHON_DOWNLOADS := never
export SAM_CLI_TELEMETRY := 0
# What was compiled once is kept: a command takes twice as long where nothing may be.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo story test soak check bicep mutate lock bundle sbom dist bench bench-peers docs pictures prices clean
.DEFAULT_GOAL := help

help: ## List the targets.
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

$(UV):
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	@# Without ensurepip, which Debian packages apart, half a virtual environment would be left behind.
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || $(PYTHON) -c 'import sys; sys.exit( \
		"This Python lacks its module venv. On Debian and Ubuntu, install it with: apt install python%d.%d-venv" % sys.version_info[:2])'
	$(PYTHON) -m venv $(VENV)
	@# pip accepts no hashes from constraints, so uv's own entry becomes a requirement: from its line to the first without a continuation.
	sed -n '/^uv==/,/[^\]$$/p' constraints.txt > $(VENV)/uv.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement $(VENV)/uv.txt

$(VENV)/.cli: $(UV) pyproject.toml constraints.txt
	$(INSTALL) '.[aws,azure]'
	@touch $@

$(VENV)/.demo: $(UV) pyproject.toml constraints.txt
	$(INSTALL) '.[demo]'
	@touch $@

$(VENV)/.dev: $(UV) pyproject.toml constraints.txt
	$(INSTALL) '.[dev]'
	@touch $@ $(VENV)/.demo

demo: $(VENV)/.demo ## Sweep a simulated fleet. Writes demo/report.html and demo/report.json.
	$(BIN)/reaper demo --output demo
	@printf '%s\n' '' 'To run reaper yourself, paste the first line. The second one sets up completion for new shells.' '' \
		'    export PATH="$(CURDIR)/$(BIN):$$PATH"' '    reaper --install-completion'

story: $(VENV)/.demo ## Play two weeks of notices, stops and restores on a simulated fleet, in the terminal.
	$(BIN)/reaper demo --story --output demo

CHECKED = tests/docs tests/test_boundaries.py tests/test_house.py
test: $(VENV)/.dev ## Run every test that can run here, but those of `make check`.
	$(BIN)/pytest -n 2 --dist loadscope --no-loadscope-reorder $(CHECKED:%=--ignore=%)

soak: $(VENV)/.dev ## Play three weeks of enforcement on both clouds, and all that is random, from fresh seeds. SEEDS=3,4: from these.
	seeds=$${SEEDS:-$$($(BIN)/python -c 'import random; print(random.randrange(10**6), random.randrange(10**6), sep=",")')}; \
		echo "SEEDS=$$seeds"; REAPER_SOAK=$$seeds $(BIN)/pytest -q -n 2 --dist load -m "fresh or hypothesis" --hypothesis-seed=$${seeds%%,*}

check: $(VENV)/.dev ## Check format, lint, types, import boundaries, templates and generated files.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	PYTHONPATH=functions:sandbox $(BIN)/lint-imports
	$(BIN)/python -m docs.kinds --check
	$(BIN)/python -m docs.costs --check
	$(BIN)/pytest -q -n 2 $(CHECKED)
	$(BIN)/python tests/deploy/translate.py template.yaml build/template.json
	$(BIN)/python infra/aws/target_role.py --check
	$(BIN)/cfn-lint template.yaml build/template.json infra/aws/target-role.yaml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-actions action.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-forms $(filter-out %/config.yml,$(wildcard .github/ISSUE_TEMPLATE/*.yml))

BICEP ?= az bicep
BICEP_FILE = $(if $(filter az,$(BICEP)),--file)
bicep: ## Compile the Bicep files with the real compiler, which must be installed. BICEP=bicep: without the Azure CLI.
	set -e; for file in infra/*.bicep; do $(BICEP) build --stdout $(BICEP_FILE) "$$file" >/dev/null; done
	set -e; for file in infra/*.bicepparam; do $(BICEP) build-params --stdout $(BICEP_FILE) "$$file" >/dev/null; done

lock: $(UV) ## Compile the lock files of both bundles, and constraints.txt, from pyproject.toml.
	$(UV) pip compile --quiet --universal --python-version 3.13 --generate-hashes --no-header --no-annotate --extra lambda pyproject.toml -o functions/requirements.txt
	$(UV) pip compile --quiet --universal --python-version 3.12 --generate-hashes --no-header --no-annotate --extra functions pyproject.toml -o requirements.txt
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --extra dev pyproject.toml -o constraints.txt

bundle: $(VENV)/.dev ## Build the Lambda bundle with SAM (arm64) into .aws-sam/.
	$(BIN)/python tests/deploy/sam.py

sbom: $(VENV)/.dev ## Write bills of materials (CycloneDX) of both bundles: build/sbom-lambda.json, build/sbom-functions.json.
	$(BIN)/python tests/deploy/sbom.py build

dist: $(VENV)/.dev ## Build a release into dist/: wheel, source, both bundles, bills of materials. TAG=v1.2.3 must be the version.
	rm -rf dist
	$(BIN)/python tests/deploy/release.py dist "$$TAG"

mutate: $(VENV)/.dev ## Break the code that decides and acts in small ways. Prints what no test notices.
	$(BIN)/python tests/mutate.py

bench: $(VENV)/.dev ## Measure calls, memory, CPU, wall time and loading on large fleets. Writes benchmarks/RESULTS.md.
	$(BIN)/python benchmarks/imports.py
	$(BIN)/python benchmarks/endpoints.py $(BENCH)
	$(BIN)/python benchmarks/endpoints.py --endpoints 10000 --idle 5 --policy fifteen --fleet night
	$(BIN)/python benchmarks/azure_deployments.py

$(VENV)-c7n/.done: $(UV)
	$(UV) venv --quiet --python $(BIN)/python $(VENV)-c7n
	$(UV) pip install --quiet --python $(VENV)-c7n/bin/python 'c7n==0.9.53'
	@touch $@

bench-peers: $(VENV)/.dev $(VENV)-c7n/.done ## Compare with Cloud Custodian and a plain script.
	$(BIN)/python benchmarks/peers.py

pictures: $(VENV)/.dev ## Renew the pictures in docs/images.
	PICTURES=1 $(BIN)/pytest -q -n 2 tests/e2e/test_report_page.py tests/e2e/test_mail_look.py tests/e2e/test_snooze_page.py

docs: $(VENV)/.dev ## Write what follows from the kinds: docs/kinds.md, docs/permissions.md, the README's table; docs/costs.md; infra/aws/target-role.yaml.
	$(BIN)/python -m docs.kinds
	$(BIN)/python -m docs.costs
	$(BIN)/python infra/aws/target_role.py

prices: $(VENV)/.demo ## Write the price snapshot from price lists: AWS=index.json AZURE='page1.json page2.json' AS_OF=2026-11-20.
	$(BIN)/python infra/prices.py $(if $(AWS),--aws $(AWS)) $(if $(AZURE),--azure $(AZURE)) $(if $(AS_OF),--as-of $(AS_OF))

clean: ## Remove everything that these targets created.
	rm -rf $(VENV) $(VENV)-sam $(VENV)-c7n .aws-sam build demo dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
