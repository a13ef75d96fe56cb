"""The sandbox as a configuration asks for it: the package itself knows no configuration and imports nothing of ours."""

from __future__ import annotations

from erpo_jax.config import SandboxConfig
from erpo_jax.problems import Problem
from erpo_jax.sandbox import Limits, Sandbox


def open_sandbox(config: SandboxConfig) -> Sandbox:
    """The configured sandbox, not yet entered. Raises SandboxError where its isolation is not to be had."""
    return Sandbox(
        workers=config.workers,
        tier=config.tier,
        preload_numpy=config.preload_numpy,
        skip_after_timeout=config.skip_after_timeout,
        unsafe=config.unsafe,
    )


def limits_for(problem: Problem, config: SandboxConfig) -> Limits:
    """The limits of the configuration; where they are 0, the problem's own."""
    return Limits(
        cpu_s=config.cpu_limit_s or problem.time_limit_s,
        memory_mb=config.memory_limit_mb or problem.memory_limit_mb,
        output_bytes=config.output_limit_kb * 1000,
    )
