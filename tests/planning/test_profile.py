"""A profile of a tiny update on two virtual devices, and what is read from traces and from recorded steps."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import pytest
import zstandard

from erpo_jax.config import Config, MeshConfig, RolloutConfig, TrainConfig, UpdateConfig
from erpo_jax.errors import UserError
from erpo_jax.planning import profile_lines, profile_update, read_trace, recorded_candidates, shares
from erpo_jax.planning.synthetic import synthetic_candidates
from erpo_jax.planning.trace import _own_times
from erpo_jax.policy import init, make_mesh
from erpo_jax.update import batch_shape, pack
from tests.planning.test_cost import SPEC

CONFIG = Config(
    mesh=MeshConfig(fsdp=2),
    rollout=RolloutConfig(group_size=4, max_prompt_tokens=16, max_new_tokens=48),
    train=TrainConfig(problems_per_step=2),
    update=UpdateConfig(micro_batch_rows=2, chunk_tokens=64),
)


@pytest.fixture(scope="module")
def profiled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("profile")
    policy = init(SPEC, make_mesh(fsdp=2), 0, ".", remat=False)
    return profile_update(policy, CONFIG, synthetic_candidates(CONFIG, SPEC.vocabulary), folder, steps=2), folder


def test_every_part_takes_time(profiled):
    profile, _ = profiled
    found = shares(profile.operations)
    assert sum(found.values()) == pytest.approx(1.0)
    assert min(found.values()) > 0.0
    lines = "\n".join(profile_lines(profile))
    for part in ("attention", "matmul", "loss", "optimizer", "collectives", "tokens/s"):
        assert part in lines


def test_operations_are_counted_over_steps_devices_and_loops(profiled):
    profile, _ = profiled
    assert (profile.program.kept_micro_batches, profile.program.micro_batches) == (2, 4)
    forward = [
        operation
        for operation in profile.operations
        if operation.part == "matmul" and re.search(r"policy_loss/while/body/jvp\(\)/while/.*rsf,fd", operation.scope)
    ]
    # two steps, two devices, two kept micro-batches, two layers
    assert {operation.count for operation in forward} == {2 * 2 * 2 * 2}
    # the branch above the ceiling was not taken
    assert not any("entropy_ceiling/cond/branch_1" in operation.scope for operation in profile.operations)


def test_what_is_left_to_look_at(profiled):
    _, folder = profiled
    assert "HloModule" in (folder / "update.hlo.txt").read_text()
    assert (folder / "memory.pprof").stat().st_size > 0
    assert list((folder / "trace").rglob("*.xplane.pb"))


def test_a_folder_without_a_trace(tmp_path):
    with pytest.raises(UserError, match="holds no trace"):
        read_trace(tmp_path, "HloModule jit_f\n\nENTRY %main () -> f32[] {\n}\n")


def test_time_inside_an_operation_is_not_its_own():
    events = [("while.1", 0.0, 100.0), ("dot.1", 10.0, 30.0), ("dot.1", 40.0, 60.0), ("add.1", 100.0, 105.0)]
    assert _own_times(events) == [("while.1", 60.0), ("dot.1", 20.0), ("dot.1", 20.0), ("add.1", 5.0)]


def test_candidates_of_a_recorded_step(tmp_path):
    rows = [
        {
            "problem": problem,
            "candidate": index,
            "prompt_ids": [1, 2],
            "token_ids": [3, 4, 5],
            "logprobs": [-1.0, -2.0, -3.0],
            "reward": None if problem == "b" else 0.5,
            "present": index == 0,
        }
        for problem in ("a", "b")
        for index in range(2)
    ]
    file = tmp_path / "step-000000.jsonl.zst"
    file.write_bytes(zstandard.compress("\n".join(map(json.dumps, rows)).encode()))
    found = recorded_candidates(file, CONFIG)
    assert [(c.group, c.index, c.present) for c in found] == [(0, 0, True), (0, 1, False), (1, 0, True), (1, 1, False)]
    assert found[0].reward == 0.5
    assert math.isnan(found[2].reward)
    # a step that needs old log-probs has them
    stale = replace(CONFIG, rollout=replace(CONFIG.rollout, async_steps=1))
    for candidates in (found, synthetic_candidates(stale, SPEC.vocabulary)):
        assert pack(candidates, batch_shape(stale), stale.mask, stale.loss).old_logprobs_rs is not None
    with pytest.raises(UserError, match="there is no rollout file"):
        recorded_candidates(tmp_path / "other", CONFIG)
