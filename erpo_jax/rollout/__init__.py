"""Sampling from the policy: the contract of every engine, the one embedded in the trainer, and how one is opened."""

from erpo_jax.rollout.engine import BrokenPolicyError, Completion, Engine, EngineFailed, FinishReason, Sampling
from erpo_jax.rollout.jax_engine import EngineError, JaxEngine
from erpo_jax.rollout.opening import open_engine
from erpo_jax.rollout.requests import RequestError

__all__ = [
    "BrokenPolicyError",
    "Completion",
    "Engine",
    "EngineError",
    "EngineFailed",
    "FinishReason",
    "JaxEngine",
    "RequestError",
    "Sampling",
    "open_engine",
]
