"""Plans: the command on a small configuration compiled for GPUs that are not there, and the search for what fits."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from erpo_jax import command
from erpo_jax.config import Config, MeshConfig, ModelConfig, UpdateConfig
from erpo_jax.errors import UserError
from erpo_jax.planning import Cost, Traffic, count, find_gpu, make_plan, roofline
from erpo_jax.policy import ModelSpec, read_json

ROOT = Path(__file__).parents[2]
GIB = 2**30


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    """(result, HLO text) of `launch/plan.py` for a policy of two layers on 4 x H100, as a user runs it."""
    folder = tmp_path_factory.mktemp("plan")
    words = (
        "configs/quickstart.yaml --gpu h100 --gpus 4 mesh.fsdp=4 model.compute_dtype=bfloat16 model.remat=true "
        "rollout.max_new_tokens=192 rollout.group_size=8 train.problems_per_step=1 update.micro_batch_rows=4 "
        f"--out {folder}"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_"))}
    done = subprocess.run(
        [sys.executable, "launch/plan.py", *words.split()], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    return done, (folder / "update.hlo.txt").read_text() if done.returncode in (0, 1) else ""


def test_a_plan_without_a_gpu(planned):
    done, _ = planned
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # no word of missing drivers
    for word in (
        "H100 80GB HBM3",
        "state",
        "temporaries",
        "left for a rollout engine",
        "all-gather",
        "bound by",
        "fits",
    ):
        assert word in done.stdout
    # 8 candidates of 64 + 192 tokens in rows of 256: one a row, 4 rows a micro-batch
    assert "2 micro-batches of 4 rows, 1 of them learnt from" in done.stdout


def test_what_the_gpu_runs(planned):
    _, text = planned
    assert "__cudnn$fmha" in text  # cuDNN's flash attention
    loops = {"token_logprobs": 1, "policy_loss": 1, "entropy_ceiling/while": 1, "entropy_ceiling/cond": 2}
    cost = count(text, branch=0, trips=loops)
    # gradients are reduced into parts: no all-reduce carries a parameter's
    assert cost.collectives["reduce-scatter"].bytes > 100 * cost.collectives["all-reduce"].bytes
    assert cost.flops_in("attend") > 0


def test_the_mesh_must_use_the_gpus():
    done = subprocess.run(
        [sys.executable, "launch/plan.py", "configs/quickstart.yaml", "--gpus", "8"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "mesh.fsdp=8" in done.stderr


def test_without_the_plugin_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "jax")
    for name in ("JAX_PLATFORMS", "TF_CPP_MIN_LOG_LEVEL"):
        monkeypatch.setenv(name, os.environ.get(name, ""))
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: ())
    with pytest.raises(UserError, match=r"pip install --no-deps --target .*gpu_compiler jax-cuda12-plugin=="):
        command.prepare_gpu_compiler()


def test_an_unknown_gpu_names_the_nearest():
    with pytest.raises(UserError, match="nearest is a100-80g"):
        find_gpu("a100-80gb")


def test_the_roofline_is_the_slowest_bound():
    cost = Cost(bytes=2039.04e9, collectives={"all-gather": Traffic(1, 8e9, 3 * 300e9)})
    cost.products["dot"] = 2 * 312e12
    bounds = roofline(cost, find_gpu("a100-80g"), "bfloat16")
    assert (bounds.compute, bounds.memory, bounds.network) == pytest.approx((2.0, 1.0, 3.0))
    assert (bounds.seconds, bounds.bound) == (pytest.approx(3.0), "network")
    assert roofline(cost, find_gpu("a100-80g"), "float32").compute == pytest.approx(4.0)


@dataclass
class Stub:
    """A program of so many bytes: 10 GiB and 4 GiB a row on each device."""

    config: Config

    kept_micro_batches = 16

    @property
    def state_bytes(self) -> int:
        return 10 * GIB

    @property
    def total_bytes(self) -> int:
        mesh = self.config.mesh
        rows = self.config.update.micro_batch_rows // (mesh.data * mesh.fsdp)
        tokens = self.config.rollout.max_prompt_tokens + self.config.rollout.max_new_tokens
        return 10 * GIB + rows * 4 * GIB * tokens // 5120 // mesh.tensor


def plan(gpu, rows, state=None):
    config = Config(
        model=ModelConfig(compute_dtype="bfloat16"), mesh=MeshConfig(fsdp=8), update=UpdateConfig(micro_batch_rows=rows)
    )
    spec = ModelSpec.from_hf(read_json(ROOT / "configs/models/qwen3_8b.json"))
    compiled = []

    def compile_(config, why):
        program = Stub(config)
        if state is not None:
            program = type("Heavy", (Stub,), {"state_bytes": state, "total_bytes": state + GIB})(config)
        compiled.append((why, program))
        return program

    return make_plan(config, spec, find_gpu(gpu), compile_), compiled


def test_the_largest_micro_batch_that_fits():
    found, compiled = plan("a100-80g", 8)
    assert found.fits
    assert found.left_bytes == pytest.approx(0.95 * 85100068864 - 14 * GIB)
    # 0.95 * 79.26 GiB = 75.3 = 10 + 16 * 4 + 1.3
    assert found.largest_rows == 16 * 8
    assert [why for why, _ in compiled] == ["as configured", "2 rows a device", "16 rows a device"]


def test_what_does_not_fit_is_told_what_does():
    found, _ = plan("a100-40g", 8 * 8)  # 42 GiB; 37.4 are usable
    assert not found.fits
    assert found.fitting == ("update.micro_batch_rows=32",)


def test_smaller_settings_are_tried_until_one_fits(monkeypatch):
    monkeypatch.setattr(Stub, "total_bytes", property(lambda self: 30 * GIB + 20 * GIB // self.config.mesh.tensor))
    found, compiled = plan("a100-40g", 8)
    # smaller chunks and a smaller moment did not help, so they are not asked for
    assert found.fitting == ("mesh.fsdp=2", "mesh.tensor=4")
    assert [why.split()[0] for why, _ in compiled[1:3]] == [
        "update.chunk_tokens=128",
        "optimizer.first_moment_dtype=bfloat16",
    ]
    assert len(compiled) == 5


def test_when_no_setting_helps_more_gpus_are_tried(monkeypatch):
    monkeypatch.setattr(Stub, "total_bytes", property(lambda self: 1000 * GIB // self.config.mesh.fsdp))
    found, compiled = plan("a100-40g", 24)
    assert found.fitting == ("--gpus 32", "mesh.fsdp=32", "update.micro_batch_rows=32")
    assert compiled[-2][0] == "--gpus 16 mesh.fsdp=16 update.micro_batch_rows=32"


def test_a_state_that_is_too_large_needs_more_gpus():
    found, compiled = plan("a100-40g", 8, state=60 * GIB)
    assert found.fitting == ("--gpus 16", "mesh.fsdp=16")
    assert len(compiled) == 1
