"""W1: the same logits as transformers, and the same files back."""

from __future__ import annotations

import filecmp
import json
from pathlib import Path

import jax
import numpy as np
import pytest
import torch
from safetensors import safe_open
from transformers import AutoModelForCausalLM

from erpo_jax.policy import export, load, make_mesh

FAMILIES = ("qwen3_tied", "qwen3_untied", "qwen2", "llama", "llama_biases")


def stored(folder: Path) -> dict[str, tuple[str, torch.Tensor]]:
    found = {}
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, framework="pt") as handle:
            assert handle.metadata() == {"format": "pt"}
            found |= {name: (file.name, handle.get_tensor(name)) for name in handle.keys()}  # noqa: SIM118
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_equal_those_of_transformers(tiny, forward, tokens_rs, family, record_property):
    checkpoint = tiny(family)
    ours = forward(load(checkpoint.folder, make_mesh()), tokens_rs)
    theirs = checkpoint.logits(tokens_rs)
    worst = float(np.abs(ours - theirs).max())
    record_property("max_logit_difference", worst)
    assert np.abs(theirs).max() > 1.0
    assert worst <= 1e-4


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("family", FAMILIES)
def test_files_come_back_bitwise(tiny, tmp_path, family, dtype):
    source = tiny(family, shard="60KB", dtype=dtype).folder
    assert len(list(source.glob("*.safetensors"))) > 2
    folder = export(load(source, make_mesh(fsdp=4, tensor=2)), tmp_path / "out")

    assert sorted(file.name for file in folder.iterdir()) == sorted(file.name for file in source.iterdir())
    before, after = stored(source), stored(folder)
    assert before.keys() == after.keys()
    for name, (file, value) in before.items():
        assert after[name][0] == file
        assert after[name][1].dtype == value.dtype == dtype
        assert torch.equal(after[name][1].view(torch.uint8), value.view(torch.uint8)), name
    side = [file.name for file in source.iterdir() if file.name not in ("config.json", "model.safetensors.index.json")]
    assert {"generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"} <= set(side)
    same, differ, failed = filecmp.cmpfiles(source, folder, side, shallow=False)
    assert sorted(same) == sorted(side)
    assert differ == failed == []
    index = [json.loads((at / "model.safetensors.index.json").read_text()) for at in (source, folder)]
    assert index[0]["weight_map"] == index[1]["weight_map"]
    total = sum(value.numel() * value.element_size() for _, value in before.values())
    assert index[1]["metadata"]["total_size"] == total


@pytest.mark.parametrize("family", ["qwen3_tied", "qwen2", "llama_biases"])
def test_transformers_loads_the_export(tiny, tmp_path, tokens_rs, family):
    checkpoint = tiny(family)
    folder = export(load(checkpoint.folder, make_mesh()), tmp_path / "out")
    again = AutoModelForCausalLM.from_pretrained(folder).eval()
    with torch.no_grad():
        logits = again(torch.from_numpy(tokens_rs.astype(np.int64))).logits.numpy()
    np.testing.assert_array_equal(logits, checkpoint.logits(tokens_rs))


def test_bfloat16_compute_stays_near_float32(tiny, forward, tokens_rs):
    folder = tiny("qwen3_untied").folder
    exact = forward(load(folder, make_mesh()), tokens_rs)
    policy = load(folder, make_mesh(), compute_dtype="bfloat16")
    rough = forward(policy, tokens_rs)
    assert rough.dtype == np.float32
    assert {str(leaf.dtype) for leaf in jax.tree.leaves(policy.params)} == {"float32"}
    gap = np.abs(rough - exact)
    assert 1e-4 < gap.max() < 0.15
    assert gap.mean() < 0.015
