"""A folder for PYTHONPATH: the package `erpo_vllm` in it is what runs inside vLLM's own Python.

It stands apart because that Python has vLLM and torch, but neither JAX nor the trainer's versions of anything.
"""
