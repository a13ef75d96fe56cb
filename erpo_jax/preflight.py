"""All that can be checked before a model loads: files, the model's shape, sizes that must divide, free disk.

Left out: devices and weights. A run meets those next, and says as clearly what is wrong.
"""

from __future__ import annotations

import re
from pathlib import Path

from jax.sharding import AbstractMesh

from erpo_jax.config import Config
from erpo_jax.errors import UserError
from erpo_jax.policy import HUB_ID, MESH_AXES, QUICKSTART, ModelSpec, check_fit, read_json, resolve
from erpo_jax.problems import check_templates, load_problems


def check(config: Config, *, needs_data: bool = False) -> list[str]:
    """Lines saying what was checked and found. Raises UserError for the first mistake.

    A problem file that is not there yet is a line, not a mistake, unless `needs_data`.
    """
    if config.evaluate.before_and_after and config.problems.path != config.evaluate.problems == "quickstart":
        raise UserError(
            f"problems.path={config.problems.path}, but evaluate.problems=quickstart would be measured; "
            f"set evaluate.problems and evaluate.hidden to yours, or evaluate.before_and_after=false"
        )
    check_templates(config.prompt)
    return [*check_model(config), *_check_problems(config, needs_data)]


def model_spec(config: Config) -> ModelSpec | None:
    """The model's shape, from its folder or from model.shape; None when neither is there. Raises UserError."""
    folder = QUICKSTART if config.model.path == "quickstart" else Path(config.model.path)
    if folder.is_dir():
        return ModelSpec.from_hf(read_json(folder / "config.json"))
    if not re.fullmatch(HUB_ID, config.model.path):
        resolve(config.model.path)  # says what is wrong with it
    return ModelSpec.from_hf(read_json(Path(config.model.shape))) if config.model.shape else None


def check_model(config: Config) -> list[str]:
    """The part of `check` that is about the model's shape."""
    spec = model_spec(config)
    if spec is None:
        return [f"model     {config.model.path}: not on this machine and no model.shape, so its sizes are not checked"]
    mesh = config.mesh
    check_fit(spec, AbstractMesh((mesh.data, mesh.fsdp, mesh.tensor), MESH_AXES))
    longest = config.rollout.max_prompt_tokens + config.rollout.max_new_tokens
    if longest > spec.max_positions:
        raise UserError(
            f"rollout.max_prompt_tokens + rollout.max_new_tokens = {config.rollout.max_prompt_tokens} + "
            f"{config.rollout.max_new_tokens} = {longest}, but {config.model.path} takes at most "
            f"{spec.max_positions} positions"
        )
    return [
        f"model     {config.model.path}: {spec.family}, {spec.layers} layers, sizes divide over "
        f"{mesh.data} data x {mesh.fsdp} fsdp x {mesh.tensor} tensor devices"
    ]


def _check_problems(config: Config, needs_data: bool) -> list[str]:
    path = config.problems.path
    if path != "quickstart" and not Path(path).exists() and not needs_data:
        return [f"problems  {path}: not there yet (launch/prepare.py makes it), so its problems are not checked"]
    problems = load_problems(path)[: config.problems.limit or None]
    if len(problems) < config.train.problems_per_step:
        raise UserError(
            f"train.problems_per_step={config.train.problems_per_step}, but {path} has {len(problems)} problems; "
            f"set train.problems_per_step to at most {len(problems)}"
        )
    found = [f"problems  {path}: {len(problems)}, {config.train.problems_per_step} a step"]
    if config.reward.kind == "public":
        tested = sum(bool(problem.public_tests) for problem in problems)
        if not tested:
            raise UserError(f"reward.kind=public, but no problem of {path} has public tests; use reward.kind=pcr")
        found.append(
            f"reward    public tests: {tested} of {len(problems)} problems have some, the others teach nothing"
        )
    return found
