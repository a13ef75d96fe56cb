"""New weights: served by vLLM from the next answer on, whole and undamaged, or refused by name."""

import os
import shutil

import jax
import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from transformers import Qwen3ForCausalLM

from erpo_jax.errors import UserError
from erpo_jax.policy import export
from erpo_jax.rollout import EngineDisagrees, EngineFailed, Sampling, check_agreement
from erpo_jax.rollout.vllm.folders import Folders
from tests.rollout.vllm.conftest import changed, random_prompts

CHECKED = random_prompts([300, 40, 5])


@pytest.fixture(params=["tied", "untied"])
def pair(request):
    """An engine and the policy that it was started with; put back after the test."""
    engine, policy = request.getfixturevalue(f"{request.param}_engine"), request.getfixturevalue(request.param)
    yield engine, policy
    engine.refresh(policy, 0)


def test_after_a_refresh_every_answer_is_of_the_new_weights(pair, tmp_path):
    """CASES W5, against transformers: a prompt of 300 tokens, asked under the old weights, then under the new."""
    engine, policy = pair
    prompts = random_prompts([300, 9])
    greedy = Sampling(0.0, 12)
    before = [answer.token_ids for (answer,) in engine.generate(prompts, 1, greedy, [0, 1])]
    new = changed(policy)
    engine.refresh(new, 7)
    after = [group[0] for group in engine.generate(prompts, 1, greedy, [0, 1])]
    assert {answer.weights_version for answer in after} == {7}
    reference = Qwen3ForCausalLM.from_pretrained(export(new, tmp_path / "new"), dtype=torch.float32).eval()
    reference.generation_config.eos_token_id = [3, 11]
    for prompt, answer, old in zip(prompts, after, before, strict=True):
        with torch.inference_mode():
            out = reference.generate(
                torch.tensor([prompt]), max_new_tokens=12, do_sample=False, temperature=None, top_k=None, pad_token_id=0
            )
        assert list(answer.token_ids) == out[0, len(prompt) :].tolist()
        assert answer.token_ids != old


def test_the_check_sees_the_right_weights_as_right_and_others_as_wrong(pair):
    engine, policy = pair
    new = changed(policy)
    engine.refresh(new, 1)
    right = check_agreement(engine, new, CHECKED)
    assert right.tokens >= 16
    assert right.gap_max < 1e-4
    with pytest.raises(EngineDisagrees):
        check_agreement(engine, policy, CHECKED)


def test_a_scaled_tensor_that_was_exported_faithfully_is_found_by_the_check(tied_engine, tied):
    """CASES W6: what no checksum can know."""
    scaled = tied.with_params(_scaled(tied.params, "final_norm_d", 1.01))
    tied_engine.refresh(scaled, 2)
    with pytest.raises(EngineDisagrees):
        check_agreement(tied_engine, tied, CHECKED)
    tied_engine.refresh(tied, 0)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("dropped", r"has no tensor model.layers.1.mlp.up_proj.weight"),
        ("renamed", r"has no tensor model.layers.1.mlp.up_proj.weight"),
        ("added", r"has a tensor model.layers.1.mlp.up_proj.bias, which the served model has not"),
        ("reshaped", r"tensor model.layers.1.mlp.up_proj.weight has shape \[64, 96\]; the served model has \[96, 64\]"),
        ("scaled", r"tensor model.layers.1.mlp.up_proj.weight is not what the trainer wrote"),
        ("cut", r"Error"),
        ("gone", r"holds no safetensors file"),
    ],
)
def test_a_damaged_folder_is_refused_by_name_and_the_old_weights_go_on(tied_engine, tied, tmp_path, fault, said):
    """CASES W6."""
    folder = export(changed(tied), tmp_path / "new", dtype="float32", checksums=True)
    file, name = folder / "model.safetensors", "model.layers.1.mlp.up_proj.weight"
    tensors = load_file(file)
    if fault == "dropped":
        del tensors[name]
    elif fault == "renamed":
        tensors["model.layers.1.mlp.upp_proj.weight"] = tensors.pop(name)
    elif fault == "added":
        tensors[name.replace("weight", "bias")] = np.zeros(96, np.float32)
    elif fault == "reshaped":
        tensors[name] = np.ascontiguousarray(tensors[name].T)
    elif fault == "scaled":
        tensors[name] = tensors[name] * np.float32(1.001)
    if fault == "gone":
        shutil.rmtree(folder)
    elif fault == "cut":
        file.write_bytes(file.read_bytes()[:-100])
    else:
        save_file(tensors, file, {"format": "pt"})
    with pytest.raises(EngineFailed, match=said):
        tied_engine.load(folder, 9)
    assert tied_engine.weights_version == 0
    ((answer,),) = tied_engine.generate([[5, 6, 7]], 1, Sampling(1.0, 4), [0])
    assert answer.weights_version == 0
    assert check_agreement(tied_engine, tied, CHECKED).gap_max < 1e-4


def test_two_folders_are_kept_and_none_of_a_killed_run(tied, tmp_path):
    folders = Folders(str(tmp_path), tmp_path / "run", tied, "float32")
    written = [folders.write(tied, version, {}) for version in range(4)]
    assert [folder.exists() for folder in written] == [False, False, True, True]
    killed = Folders(str(tmp_path), tmp_path / "run", tied, "float32")  # a run that was killed left two
    assert killed.path == folders.path
    assert not killed.path.exists()


def test_what_a_killed_run_left_in_shared_memory_is_cleared_by_the_next_run(tied, tmp_path, monkeypatch):
    """And nothing of a run that lives, nor of anybody else."""
    monkeypatch.setattr("erpo_jax.rollout.vllm.folders.SHARED_MEMORY", tmp_path)
    alive = Folders("auto", tmp_path / "alive", tied, "float32")
    written = alive.write(tied, 0, {})
    dead, other = tmp_path / f"erpo_jax-{os.getuid()}-dead-0123456789", tmp_path / "erpo_jax-somebody"
    dead.mkdir()
    other.mkdir()
    (dead / "model.safetensors").write_bytes(b"weights")
    following = Folders("auto", tmp_path / "following", tied, "float32")
    assert not dead.exists()
    assert written.exists()
    assert other.exists()
    with pytest.raises(UserError, match="is in use: another process samples for this run"):
        Folders("auto", tmp_path / "alive", tied, "float32")
    for folders in (alive, following):
        folders.clear()
    assert list(tmp_path.iterdir()) == [other]


def _scaled(params, name, factor):
    def one(path, value):
        return value * np.float32(factor) if name in jax.tree_util.keystr(path) else value

    return jax.tree_util.tree_map_with_path(one, params)
