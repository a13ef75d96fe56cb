"""The engine that a configuration asks for: the one place where training, probes and evaluation get theirs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from erpo_jax.config import Config
from erpo_jax.policy import Policy
from erpo_jax.rollout.engine import Engine
from erpo_jax.rollout.jax_engine import JaxEngine


@contextmanager
def open_engine(config: Config, policy: Policy, folder: Path | None = None) -> Iterator[Engine]:
    """The engine that `rollout.engine` names, sampling from `policy` as version 0; closed at the end.

    `folder` is where an engine of its own process keeps exports and logs; None: a temporary folder, gone at the end.
    Raises UserError for an engine that cannot be had, EngineFailed for one that does not start.
    """
    if folder is None:
        with (
            tempfile.TemporaryDirectory(prefix="erpo_jax-") as temporary,
            open_engine(config, policy, Path(temporary)) as engine,
        ):
            yield engine
        return
    with closing(make_engine(config, policy, folder)) as engine:
        yield engine


def make_engine(config: Config, policy: Policy, folder: Path) -> Engine:
    """See open_engine. Whoever calls this closes it."""
    rollout = config.rollout
    if rollout.engine == "vllm":
        from erpo_jax.rollout.vllm import VllmEngine

        return VllmEngine(config, policy, folder)
    return JaxEngine(policy, batch_rows=rollout.batch_rows, max_prompt_tokens=rollout.max_prompt_tokens)
