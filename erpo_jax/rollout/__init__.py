"""Sampling from the policy: the contract of every engine, and the engine that is embedded in the trainer."""

from erpo_jax.rollout.engine import BrokenPolicyError, Completion, Engine, FinishReason, Sampling
from erpo_jax.rollout.jax_engine import EngineError, JaxEngine
from erpo_jax.rollout.requests import RequestError

__all__ = [
    "BrokenPolicyError",
    "Completion",
    "Engine",
    "EngineError",
    "FinishReason",
    "JaxEngine",
    "RequestError",
    "Sampling",
]
