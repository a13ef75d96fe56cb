"""W3 and W4: what an export holds, and how it comes to be there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
from flax import nnx
from safetensors.torch import load_file, save_file
from transformers import AutoConfig

from erpo_jax.policy import CheckpointError, ModelSpec, export, exporting, init, load, make_mesh


def config_of(folder: Path) -> dict:
    return json.loads((folder / "config.json").read_text())


@pytest.mark.parametrize("family", ["qwen3_untied", "llama"])
def test_config_reads_in_both_layouts(tiny, tmp_path, family):
    source = tiny(family).folder
    folder = export(load(source, make_mesh()), tmp_path / "out")
    config = config_of(folder)
    assert config["rope_theta"] == {"qwen3_untied": 1e6, "llama": 5e5}[family]
    # version 5 reads what it wrote
    assert AutoConfig.from_pretrained(folder).rope_parameters == AutoConfig.from_pretrained(source).rope_parameters
    # version 4 knows rope_theta and rope_scaling alone
    old = {name: value for name, value in config.items() if name != "rope_parameters"}
    assert ModelSpec.from_hf(old) == ModelSpec.from_hf(config) == ModelSpec.from_hf(config_of(source))
    assert {name: config[name] for name in config_of(source)} == config_of(source)


def test_a_config_in_the_old_layout_stays_as_it_is(tiny, tmp_path):
    source = Path(shutil.copytree(tiny("qwen2").folder, tmp_path / "source"))
    config = config_of(source)
    config["rope_theta"] = config.pop("rope_parameters")["rope_theta"]
    (source / "config.json").write_text(json.dumps(config, indent=3))
    folder = export(load(source, make_mesh()), tmp_path / "out")
    assert (folder / "config.json").read_bytes() == (source / "config.json").read_bytes()


def test_export_in_another_dtype(tiny, tmp_path):
    policy = load(tiny("qwen3_tied").folder, make_mesh())
    folder = export(policy, tmp_path / "out", dtype="bfloat16")
    before, after = (load_file(at / "model.safetensors") for at in (policy.source, folder))
    assert before.keys() == after.keys()
    for name, value in before.items():
        assert torch.equal(after[name], value.to(torch.bfloat16)), name
    assert config_of(folder)["dtype"] == "bfloat16"
    with pytest.raises(CheckpointError, match="'int8' is not one of float32, bfloat16, float16"):
        export(policy, tmp_path / "no", dtype="int8")


def test_a_tied_model_has_one_matrix_everywhere(tiny, tmp_path):
    policy = load(tiny("qwen3_tied").folder, make_mesh(fsdp=2))
    assert sum(leaf.size for leaf in jax.tree.leaves(policy.params) if leaf.shape == (96, 64)) == 96 * 64
    optimizer = optax.adamw(1e-2)
    state = optimizer.init(policy.params)
    assert sum(leaf.shape == (96, 64) for leaf in jax.tree.leaves(state)) == 2  # two moments of one matrix

    def loss(params: nnx.State) -> jax.Array:
        decoder = nnx.merge(policy.graphdef, params)
        ids = jnp.arange(8, dtype=jnp.int32).reshape(2, 4)
        return jnp.square(decoder.logits(decoder(ids, ids, jnp.ones_like(ids)))).mean()

    with jax.numpy_dtype_promotion("standard"):  # optax counts its steps in int32 and mixes them in
        updates, _ = optimizer.update(jax.jit(jax.grad(loss))(policy.params), state, policy.params)
    changed = policy.with_params(optax.apply_updates(policy.params, updates))
    folder = export(changed, tmp_path / "out")
    assert "lm_head.weight" not in load_file(folder / "model.safetensors")
    again = load(folder, make_mesh(tensor=2))
    for a, b, old in zip(*(jax.tree.leaves(p.params) for p in (changed, again, policy)), strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
        assert not np.array_equal(np.asarray(a), np.asarray(old))


def test_a_second_head_in_the_source_is_written_from_the_embedding(tiny, tmp_path):
    source = Path(shutil.copytree(tiny("qwen3_tied").folder, tmp_path / "source"))
    tensors = load_file(source / "model.safetensors")
    save_file(tensors | {"lm_head.weight": tensors["model.embed_tokens.weight"].clone()}, source / "model.safetensors")
    policy = load(source, make_mesh())
    doubled = jax.tree.map(lambda leaf: leaf * 2, policy.params)
    written = load_file(export(policy.with_params(doubled), tmp_path / "out") / "model.safetensors")
    assert torch.equal(written["lm_head.weight"], 2 * tensors["model.embed_tokens.weight"])
    assert torch.equal(written["model.embed_tokens.weight"], written["lm_head.weight"])


def test_a_source_without_weights_is_enough(tiny, tmp_path, monkeypatch):
    source = Path(shutil.copytree(tiny("qwen3_untied").folder, tmp_path / "source"))
    (source / "model.safetensors").unlink()
    policy = init(ModelSpec.from_hf(config_of(source)), make_mesh(), 0, source)
    single = export(policy, tmp_path / "single")
    assert {file.name for file in single.iterdir()} == {file.name for file in source.iterdir()} | {"model.safetensors"}
    monkeypatch.setattr(exporting, "_SHARD_BYTES", 100_000)
    many = export(policy, tmp_path / "many")
    index = json.loads((many / "model.safetensors.index.json").read_text())
    assert len(set(index["weight_map"].values())) > 1
    assert index["metadata"]["total_size"] == 4 * sum(leaf.size for leaf in jax.tree.leaves(policy.params))
    for folder in (single, many):
        again = load(folder, make_mesh())
        for a, b in zip(jax.tree.leaves(policy.params), jax.tree.leaves(again.params), strict=True):
            np.testing.assert_array_equal(a, b)


def test_an_existing_folder_is_kept_unless_told_otherwise(tiny, tmp_path):
    policy = load(tiny("qwen3_tied").folder, make_mesh())
    folder = export(policy, tmp_path / "out")
    stamp = (folder / "model.safetensors").stat().st_mtime_ns
    assert export(policy, folder) == folder  # the same content again: nothing to do
    assert (folder / "model.safetensors").stat().st_mtime_ns == stamp
    changed = policy.with_params(jax.tree.map(lambda leaf: leaf * 2, policy.params))
    with pytest.raises(CheckpointError, match="out exists and holds something else"):
        export(changed, folder)
    assert torch.equal(
        load_file(folder / "model.safetensors")["model.norm.weight"],
        load_file(policy.source / "model.safetensors")["model.norm.weight"],
    )
    export(changed, folder, overwrite=True)
    assert torch.equal(
        load_file(folder / "model.safetensors")["model.norm.weight"],
        2 * load_file(policy.source / "model.safetensors")["model.norm.weight"],
    )
    with pytest.raises(CheckpointError, match="is the policy's own source"):
        export(changed, policy.source, overwrite=True)
    assert [item.name for item in tmp_path.iterdir()] == ["out"]


def test_a_failed_export_leaves_nothing(tiny, tmp_path, monkeypatch):
    policy = load(tiny("qwen3_tied").folder, make_mesh())

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(exporting, "write_safetensors", full)
    with pytest.raises(OSError, match="No space left"):
        export(policy, tmp_path / "deep" / "out")
    assert list((tmp_path / "deep").iterdir()) == []
