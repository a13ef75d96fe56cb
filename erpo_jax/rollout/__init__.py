"""Sampling from the policy: the contract of every engine, the one embedded in the trainer, and how one is opened."""

from erpo_jax.rollout.agreement import Agreement, EngineDisagrees, check_agreement, check_prompts
from erpo_jax.rollout.engine import BrokenPolicyError, Completion, Engine, EngineFailed, FinishReason, Sampling
from erpo_jax.rollout.jax_engine import EngineError, JaxEngine
from erpo_jax.rollout.opening import open_engine
from erpo_jax.rollout.requests import RequestError

__all__ = [
    "Agreement",
    "BrokenPolicyError",
    "Completion",
    "Engine",
    "EngineDisagrees",
    "EngineError",
    "EngineFailed",
    "FinishReason",
    "JaxEngine",
    "RequestError",
    "Sampling",
    "check_agreement",
    "check_prompts",
    "open_engine",
]
