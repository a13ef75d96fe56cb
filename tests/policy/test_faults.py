"""W2: each way a checkpoint can be broken is an error that names the tensor or the file."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from erpo_jax.policy import CheckpointError, load, make_mesh

Q = "model.layers.1.self_attn.q_proj.weight"
INDEX = "model.safetensors.index.json"


@pytest.fixture
def copy(tiny, tmp_path):
    """copy(family, **options): a checkpoint of one's own to break."""

    def get(family: str, **options) -> Path:
        return Path(shutil.copytree(tiny(family, **options).folder, tmp_path / "broken"))

    return get


def edit(file: Path, change) -> None:
    tensors = load_file(file)
    change(tensors)
    save_file(tensors, file, metadata={"format": "pt"})


def holding(folder: Path, name: str) -> Path:
    return folder / json.loads((folder / INDEX).read_text())["weight_map"][name]


def refused(folder: Path, match: str) -> None:
    with pytest.raises(CheckpointError, match=match):
        load(folder, make_mesh())


def test_missing_tensor(copy):
    folder = copy("qwen3_tied")
    edit(folder / "model.safetensors", lambda tensors: tensors.pop(Q))
    refused(folder, f"tensor {Q} is missing")


def test_missing_head_of_an_untied_model_says_so(copy):
    folder = copy("qwen3_untied")
    edit(folder / "model.safetensors", lambda tensors: tensors.pop("lm_head.weight"))
    refused(folder, "tensor lm_head.weight is missing; config.json has tie_word_embeddings false")


def test_renamed_tensor(copy):
    folder = copy("qwen3_tied")
    edit(folder / "model.safetensors", lambda t: t.update({Q.replace("q_proj", "query"): t.pop(Q)}))
    refused(folder, f"self_attn.query.weight of model.safetensors is not one of this model's; {Q} is missing")


def test_tensor_of_a_layer_too_many(copy):
    folder = copy("qwen3_tied")
    extra = "model.layers.2.self_attn.q_norm.weight"
    edit(folder / "model.safetensors", lambda t: t.update({extra: t["model.layers.1.self_attn.q_norm.weight"].clone()}))
    refused(folder, f"tensor {extra} of model.safetensors is not one of this model's")


@pytest.mark.parametrize("change", [lambda w: w[:-1].clone(), lambda w: w.T.contiguous(), lambda w: w[None].clone()])
def test_tensor_of_another_shape(copy, change):
    folder = copy("qwen3_tied")
    edit(folder / "model.safetensors", lambda t: t.update({Q: change(t[Q])}))
    refused(folder, rf"tensor {Q} has shape .* config.json makes it \[128, 64\]")


def test_doubled_tensor(copy):
    folder = copy("qwen2", shard="60KB")
    home = holding(folder, Q)
    value = load_file(home)[Q]
    other = next(file for file in sorted(folder.glob("*.safetensors")) if file != home)
    edit(other, lambda t: t.update({Q: value}))
    refused(folder, f"tensor {Q} is in .* and again in ")


def test_tensor_listed_in_the_wrong_shard(copy):
    folder = copy("qwen2", shard="60KB")
    home = holding(folder, Q)
    other = next(file for file in sorted(folder.glob("*.safetensors")) if file != home)
    index = json.loads((folder / INDEX).read_text())
    index["weight_map"][Q] = other.name
    (folder / INDEX).write_text(json.dumps(index))
    refused(folder, f"lists tensor {Q} in {other.name}, but it lies in {home.name}")


def test_tensor_listed_nowhere_or_twice_or_in_no_file(copy):
    folder = copy("qwen2", shard="60KB")
    text = (folder / INDEX).read_text()
    index = json.loads(text)
    home = index["weight_map"].pop(Q)
    (folder / INDEX).write_text(json.dumps(index))
    refused(folder, f"tensor {Q} of {home} is not listed in {INDEX}")
    (folder / INDEX).write_text(text.replace('"weight_map": {', f'"weight_map": {{ "{Q}": "{home}",'))
    refused(folder, f"the key {Q} stands twice")
    index["weight_map"][Q] = home
    index["weight_map"]["model.ghost.weight"] = home
    (folder / INDEX).write_text(json.dumps(index))
    refused(folder, f"lists tensor model.ghost.weight in {home}, but no file holds it")
    index["weight_map"]["model.ghost.weight"] = "../elsewhere.safetensors"
    (folder / INDEX).write_text(json.dumps(index))
    refused(folder, r"model.ghost.weight is listed in '../elsewhere.safetensors'")


def test_missing_stray_and_truncated_files(copy):
    folder = copy("qwen2", shard="60KB")
    home = holding(folder, Q)
    whole = home.read_bytes()
    home.unlink()
    refused(folder, f"the file {home.name} is missing")
    home.write_bytes(whole[: len(whole) // 2])
    refused(folder, f"{home.name} is not a whole safetensors file")
    home.write_bytes(whole)
    shutil.copy(home, folder / "model-00009-of-00009.safetensors")
    refused(folder, "model-00009-of-00009.safetensors is not named in")
    (folder / "model-00009-of-00009.safetensors").unlink()
    shutil.copy(home, folder / "model.safetensors")
    refused(folder, f"holds both model.safetensors and {INDEX}")


def test_integer_tensor_is_not_a_weight(copy):
    folder = copy("qwen3_tied")
    edit(folder / "model.safetensors", lambda t: t.update({Q: t[Q].round().char()}))
    refused(folder, f"tensor {Q} has dtype I8")


def test_second_head_of_a_tied_model_must_equal_the_embedding(copy):
    folder = copy("qwen3_tied")
    file = folder / "model.safetensors"
    edit(file, lambda t: t.update({"lm_head.weight": t["model.embed_tokens.weight"].clone()}))
    assert "unembed_vd" not in load(folder, make_mesh()).params
    edit(file, lambda t: t["lm_head.weight"].__setitem__((95, 63), 1.0))
    refused(folder, "lm_head.weight differs from model.embed_tokens.weight")


def test_places_that_hold_no_checkpoint(tmp_path, tiny, monkeypatch):
    refused(tmp_path, "has no config.json")
    shutil.copy(tiny("qwen2").folder / "config.json", tmp_path)
    refused(tmp_path, f"has neither model.safetensors nor {INDEX}")
    refused(tmp_path / "config.json", "is a file; a checkpoint is a folder")
    (tmp_path / "my_model").mkdir()
    refused(tmp_path / "my_modle", "there is no folder .* did you mean .*my_model")
    refused("nobody/has-this-model", "nobody/has-this-model is neither a folder here nor in the local hub cache")
    (tmp_path / "config.json").write_text("{")
    refused(tmp_path, "config.json cannot be read")
