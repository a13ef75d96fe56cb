"""vLLM as the sampler: servers started and watched, or reached by their address; weights through a folder."""

from erpo_jax.rollout.vllm.engine import VllmEngine

__all__ = ["VllmEngine"]
