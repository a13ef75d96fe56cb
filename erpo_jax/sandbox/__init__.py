"""Run untrusted programs on inputs: a verdict and an output each. Standard library only."""

from erpo_jax.sandbox.outcome import Job, Limits, Outcome, SandboxError, Verdict
from erpo_jax.sandbox.sandbox import Sandbox
from erpo_jax.sandbox.values import decode_value, encode_value

__all__ = ["Job", "Limits", "Outcome", "Sandbox", "SandboxError", "Verdict", "decode_value", "encode_value"]
