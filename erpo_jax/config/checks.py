"""What can be wrong with a configuration before any device, model or data is there."""

from __future__ import annotations

import math
from pathlib import Path

from erpo_jax.config.keys import ConfigError, check_range
from erpo_jax.config.placement import check_placement
from erpo_jax.config.sections import Config
from erpo_jax.config.tree import FIELDS, get


def check(config: Config) -> None:
    """Ranges, choices, and the sizes that must divide. Needs no device and no checkpoint. Raises ConfigError."""
    for name, item in FIELDS.items():
        check_range(name, get(config, name), item)
    if config.update.minibatches > config.train.problems_per_step:
        raise ConfigError(
            f"update.minibatches={config.update.minibatches} is more than train.problems_per_step="
            f"{config.train.problems_per_step}: whole groups are split; use at most {config.train.problems_per_step}"
        )
    if config.train.problems_per_step % config.update.minibatches:
        _must_divide(
            "train.problems_per_step",
            config.train.problems_per_step,
            "update.minibatches",
            config.update.minibatches,
            "whole groups are split into mini-batches",
        )
    shards = config.mesh.data * config.mesh.fsdp
    if config.update.micro_batch_rows % shards:
        _must_divide(
            "update.micro_batch_rows",
            config.update.micro_batch_rows,
            "mesh.data * mesh.fsdp",
            shards,
            "every device holds the same number of packed rows",
        )
    if config.rollout.batch_rows % shards:
        _must_divide(
            "rollout.batch_rows",
            config.rollout.batch_rows,
            "mesh.data * mesh.fsdp",
            shards,
            "every device samples the same number of answers",
        )
    if config.rollout.async_steps and config.loss.importance_cap:
        raise ConfigError(
            f"loss.importance_cap={config.loss.importance_cap:g} with rollout.async_steps=1 would correct twice: the "
            f"ratio is already taken against the sampler's log-probs; set one of them to 0"
        )
    longest = config.rollout.max_prompt_tokens + config.rollout.max_new_tokens
    if config.update.row_tokens and config.update.row_tokens < longest:
        raise ConfigError(
            f"update.row_tokens={config.update.row_tokens} cannot hold one candidate: rollout.max_prompt_tokens + "
            f"rollout.max_new_tokens = {config.rollout.max_prompt_tokens} + {config.rollout.max_new_tokens} "
            f"= {longest}; use 0 or at least {longest}"
        )
    steps = config.mask.calibration
    if len(steps) < 2 or not all(0 <= weight <= 1 for weight in steps):
        raise ConfigError(f"mask.calibration={steps} must be at least two weights in [0, 1], from PCR 0 to PCR 1")
    if config.rollout.engine == "vllm":
        check_placement(config)
    if config.run.name in ("", ".", "..") or config.run.name != Path(config.run.name).name:
        raise ConfigError(
            f"run.name={config.run.name} must be one folder name, without '/'; run.folder says where it is"
        )
    if not config.evaluate.k:
        raise ConfigError("evaluate.k is empty: name at least one k of pass@k, such as [1]")
    for k in config.evaluate.k:
        if not 1 <= k <= config.evaluate.samples:
            raise ConfigError(
                f"evaluate.k has {k}: pass@k needs 1 <= k <= evaluate.samples = {config.evaluate.samples}"
            )
    for temperature in config.evaluate.temperatures:
        if not 0 <= temperature < math.inf:
            raise ConfigError(
                f"evaluate.temperatures has {temperature:g}: a temperature is a number of at least 0 (0 is greedy)"
            )


def _must_divide(name: str, value: int, divisor_name: str, divisor: int, why: str) -> None:
    below, above = value // divisor * divisor, (value // divisor + 1) * divisor
    valid = f"{below} or {above}" if below else f"{above}"
    raise ConfigError(
        f"{name} must be a multiple of {divisor_name}: {value} % {divisor} = {value % divisor} ({why}); "
        f"the nearest valid values are {valid}"
    )
