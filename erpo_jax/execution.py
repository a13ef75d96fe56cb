"""The sandbox as a configuration asks for it: the package itself knows no configuration of ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from erpo_jax.config import SandboxConfig
from erpo_jax.errors import Failure, UserError
from erpo_jax.problems import Problem
from erpo_jax.ray_sandbox import RaySandbox
from erpo_jax.sandbox import Limits, Sandbox, SandboxError


@contextmanager
def open_sandbox(config: SandboxConfig) -> Iterator[Sandbox]:
    """The configured sandbox, tested and running. Raises UserError where it is not to be had as asked, and
    Failure where it breaks later."""
    open_backend = Sandbox if config.backend == "local" else partial(RaySandbox, config.ray_address)
    try:
        sandbox = open_backend(
            workers=config.workers,
            tier=config.tier,
            preload_numpy=config.preload_numpy,
            skip_after_timeout=config.skip_after_timeout,
            unsafe=config.unsafe,
        )
    except SandboxError as error:
        raise UserError(str(error)) from error
    with sandbox:
        try:
            yield sandbox
        except SandboxError as error:
            raise Failure(str(error)) from error


def limits_for(problem: Problem, config: SandboxConfig) -> Limits:
    """The limits of the configuration; where they are 0, the problem's own."""
    return Limits(
        cpu_s=config.cpu_limit_s or problem.time_limit_s,
        memory_mb=config.memory_limit_mb or problem.memory_limit_mb,
        output_bytes=config.output_limit_kb * 1000,
    )
