"""Which GPUs train and which serve: refused before a device or vLLM is touched."""

import os
import subprocess
import sys

import pytest

from erpo_jax import config as configuration
from erpo_jax.config import ConfigError
from erpo_jax.update import largest_gap
from tests.rollout.vllm.conftest import ROOT

COLOCATED = ["vllm.placement=colocated", "vllm.servers=2", "vllm.devices=[0,1]"]
SPLIT = ["vllm.placement=split", "mesh.fsdp=4", "vllm.servers=2", "vllm.tensor_parallel=2", "rollout.batch_rows=64"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            [*COLOCATED, "vllm.jax_memory_fraction=0.6", "vllm.memory_fraction=0.4"],
            r"0.4 \+ 0.6 = 1 of one GPU is over 0.95; use vllm.memory_fraction=0.35, or vllm.sleep=1",
        ),
        ([*COLOCATED, "vllm.servers=3"], r"vllm.devices names 2 GPUs; vllm.servers \* vllm.tensor_parallel = 3"),
        ([*COLOCATED, "vllm.devices=[1,1]"], r"vllm.devices=\[1, 1\] names a GPU twice"),
        ([*COLOCATED, "rollout.async_steps=1"], r"on the same GPUs at once; use vllm.placement=split"),
        ([*COLOCATED, "vllm.train_devices=[0]"], r"colocated trains on every visible GPU"),
        (
            [*SPLIT, "vllm.devices=[3,4,5,6]", "vllm.train_devices=[0,1,2,3]"],
            r"GPU 3 is in vllm.devices and in vllm.train_devices",
        ),
        (
            [*SPLIT, "vllm.devices=[4,5,6,7]", "vllm.train_devices=[0,1]"],
            r"vllm.train_devices names 2 GPUs; mesh.data \* mesh.fsdp \* mesh.tensor = 4",
        ),
        (["vllm.devices=[0]"], r"need vllm.placement=colocated or vllm.placement=split"),
        (["vllm.urls=[node1:8000]"], r"vllm.urls has node1:8000: a server's address is like http://node1:8000"),
        (["vllm.urls=[http://node1:99999]"], r"vllm.urls has http://node1:99999: a server's address is like"),
        (["vllm.urls=['http://[::1']"], r"vllm.urls has http://\[::1: a server's address is like"),
        (["vllm.port=65535", "vllm.servers=2"], r"ports end at 65535; use at most 65534"),
        ([*COLOCATED, "vllm.urls=[http://node1:8000]"], r"use vllm.placement=none"),
        (["vllm.kind=process", "vllm.servers=2"], r"vllm.kind=process is one process of one device"),
        (["vllm.kind=process", "vllm.arguments=[--any]"], r"vllm.kind=process is one process of one device"),
        (["rollout.temperature=2.5"], r"vLLM takes temperatures from 0.01 to 2, and 0; 2.5 is asked for"),
        (["rollout.temperature=0.001"], r"vLLM takes temperatures from 0.01 to 2, and 0; 0.001 is asked for"),
    ],
)
def test_a_placement_that_cannot_be_is_refused_with_its_numbers(words, said):
    with pytest.raises(ConfigError, match=said):
        configuration.load([], ["rollout.engine=vllm", *words])


@pytest.mark.parametrize(
    "words",
    [
        [*COLOCATED, "vllm.jax_memory_fraction=0.55", "vllm.memory_fraction=0.4"],
        [*COLOCATED, "vllm.jax_memory_fraction=0.9", "vllm.memory_fraction=0.9", "vllm.sleep=1"],
        [*SPLIT, "vllm.devices=[4,5,6,7]", "vllm.train_devices=[0,1,2,3]"],
    ],
)
def test_a_placement_that_can_be_is_taken(words):
    configuration.load([], ["rollout.engine=vllm", *words])


def place(words: list[str], before: str, environment: dict[str, str]) -> subprocess.CompletedProcess:
    script = (
        f"import os, sys; {before}\nfrom erpo_jax import command, config\n"
        f"command.place_jax(config.load([], sys.argv[1:])); print({{n: v for n, v in os.environ.items() if "
        f"n.startswith(('XLA_PYTHON', 'CUDA_V'))}})"
    )
    words = [sys.executable, "-c", script, "rollout.engine=vllm", *words]
    return subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)


def test_jax_gets_its_share_before_it_is_imported_or_not_at_all():
    """CASES W8."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("XLA_PYTHON", "CUDA_V"))}
    assert "'XLA_PYTHON_CLIENT_MEM_FRACTION': '0.5'" in place(COLOCATED, "", clean).stdout
    split = [*SPLIT, "vllm.devices=[4,5,6,7]", "vllm.train_devices=[0,1,2,3]"]
    assert "'CUDA_VISIBLE_DEVICES': '0,1,2,3'" in place(split, "", clean).stdout
    asleep = place([*COLOCATED, "vllm.sleep=1"], "", clean).stdout
    assert "'XLA_PYTHON_CLIENT_PREALLOCATE': 'false'" in asleep
    late = place(COLOCATED, "import jax", clean)
    assert "must be set before JAX is imported" in late.stderr
    other = place(COLOCATED, "", {**clean, "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.8"})
    assert "the environment has XLA_PYTHON_CLIENT_MEM_FRACTION=0.8" in other.stderr


@pytest.mark.parametrize(
    ("words", "allowed"),
    [
        ([], 1e-3),
        (["vllm.dtype=bfloat16"], 0.05),
        (["model.compute_dtype=bfloat16", "vllm.dtype=float32"], 0.05),
        (["vllm.dtype=bfloat16", "rollout.engine=jax"], 1e-3),
    ],
)
def test_the_gap_allowed_is_that_of_the_less_exact_side(words, allowed):
    assert largest_gap(configuration.load([], ["rollout.engine=vllm", *words])) == allowed
