"""What runs inside vLLM's processes: the worker extension (refresh), a server (serve), a small worker (process).

Imports torch, safetensors and vllm alone, when they are needed.
"""
