"""What keeps vLLM from starting is one line that says what to do. Each is what real vLLM does."""

import json
import os
import socket
import sys
from pathlib import Path

import pytest
from safetensors.numpy import load_file, save_file

from erpo_jax.errors import UserError
from erpo_jax.rollout import EngineFailed
from erpo_jax.rollout.vllm import VllmEngine
from erpo_jax.rollout.vllm.child import Python
from erpo_jax.rollout.vllm.http_server import check_version
from erpo_jax.rollout.vllm.own_process import OwnProcess
from tests.rollout.vllm.conftest import settings


def test_a_python_that_is_not_there_and_one_without_vllm():
    with pytest.raises(UserError, match=r"vllm.python=/nowhere/python is not there; `make vllm` makes .venv-vllm"):
        Python("/nowhere/python")
    with pytest.raises(UserError, match=r"has no vLLM"):
        Python(sys.executable)


def test_a_version_that_is_too_old():
    with pytest.raises(EngineFailed, match=r"it is vLLM 0.11.2; 0.32 or newer is needed"):
        check_version("it", "0.11.2")
    check_version("it", "0.32.0")
    check_version("it", "1.0.0rc1")


def test_a_port_in_use(tied, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=rf"port {port} on 127.0.0.1 is in use .*; set vllm.port"):
            VllmEngine(settings("vllm.kind=server", f"vllm.port={port}"), tied, tmp_path)


def test_a_server_that_is_nowhere(tied, tmp_path):
    with pytest.raises(EngineFailed, match=r"http://127.0.0.1:9 did not answer within vllm.start_timeout_s=1 "):
        VllmEngine(settings("vllm.urls=[http://127.0.0.1:9]", "vllm.start_timeout_s=1"), tied, tmp_path)


def test_what_ends_a_start_is_read_off_its_log(tied_folder, tmp_path, monkeypatch):
    """Not enough memory (refused before any is taken), a model that vLLM has not, one that it cannot run on CPUs, a
    folder that cannot be loaded: real starts, side by side."""
    config = settings("vllm.kind=process").vllm
    faults = {
        "memory": r"not enough memory \(.*GiB.*\); give vLLM",
        "model": r"vLLM does not support this model here \(.*GptUnheardOf",
        "head": r"vLLM does not support this model here \(.*16",
        "folder": r"the folder of weights cannot be loaded \(.*",
    }
    processes = {}
    for name in faults:
        folder = tmp_path / name
        folder.mkdir()
        described = json.loads((tied_folder / "config.json").read_text())
        tensors = load_file(tied_folder / "model.safetensors")
        if name == "model":
            described["architectures"] = ["GptUnheardOf"]
        if name == "head":
            described["num_attention_heads"] = 2 * described["num_attention_heads"]
            described["num_key_value_heads"] = 2 * described["num_key_value_heads"]
            described["head_dim"] = 16
            tensors |= {part: value[:16] for part, value in tensors.items() if "q_norm" in part or "k_norm" in part}
        (folder / "config.json").write_text(json.dumps(described))
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})
        if name == "folder":
            whole = (folder / "model.safetensors").read_bytes()
            (folder / "model.safetensors").write_bytes(whole[: len(whole) // 2])
        if name == "memory":
            monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "100000")
        processes[name] = OwnProcess(
            config, Python(config.python), tmp_path / f"log-{name}", dtype="float32", longest=64
        )
        processes[name].start(folder)
        monkeypatch.delenv("VLLM_CPU_KVCACHE_SPACE", raising=False)
    for name, said in faults.items():
        with pytest.raises(EngineFailed, match=said) as failed:
            processes[name].wait()
        assert f"log-{name}" in str(failed.value)
        assert "\n" not in str(failed.value)
        processes[name].stop()


def test_the_log_of_every_start_is_kept(tied_engine):
    log = Path(tied_engine.backends[0].child.log)
    assert log.parent.name == "vllm"
    assert log.read_text().startswith("--- ")


def test_vllm_gets_the_trainers_environment_but_not_its_modules(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/somewhere/of/the/trainer")
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    environment = Python(settings().vllm.python).environment([2, 3])
    assert environment["PYTHONPATH"].endswith("server_side")
    assert environment["CUDA_VISIBLE_DEVICES"] == "2,3"
    assert environment["OMP_NUM_THREADS"] == "2"
    assert environment["PATH"] == os.environ["PATH"]
