"""One device and any split of eight give the same; sizes that do not fit are named."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx
from jax.sharding import PartitionSpec as P

from erpo_jax.policy import (
    ModelSpec,
    ShardingError,
    abstract,
    check_fit,
    init,
    load,
    make_mesh,
    parameters,
    partition,
    row_sharding,
)
from erpo_jax.policy import sharding as sharding_module
from erpo_jax.policy.checkpoint_files import CheckpointFiles

SPLITS = ((1, 8, 1), (2, 2, 2), (4, 1, 2))


def _logits_and_gradient(policy, tokens_rs):
    positions = np.tile(np.arange(tokens_rs.shape[1], dtype=np.int32), (len(tokens_rs), 1))

    @jax.jit
    def run(params: nnx.State, tokens: jax.Array) -> tuple[nnx.State, jax.Array]:
        def loss(params: nnx.State) -> tuple[jax.Array, jax.Array]:
            decoder = nnx.merge(policy.graphdef, params)
            logits = decoder.logits(decoder(tokens, positions, jnp.ones_like(tokens)))
            return -jnp.mean(jax.nn.log_softmax(logits)[:, :-1, :5]), logits

        return jax.grad(loss, has_aux=True)(params)

    return run(policy.params, jax.device_put(tokens_rs, row_sharding(policy.mesh)))


@pytest.fixture(scope="module")
def on_one_device(tiny, tokens_rs):
    return _logits_and_gradient(load(tiny("qwen2").folder, make_mesh()), tokens_rs[:, :24])


@pytest.mark.parametrize("split", SPLITS)
def test_any_split_gives_the_same_logits_and_gradient(tiny, tokens_rs, on_one_device, split):
    reference, expected = on_one_device
    ours, logits = _logits_and_gradient(load(tiny("qwen2").folder, make_mesh(*split)), tokens_rs[:, :24])
    np.testing.assert_allclose(logits, np.asarray(expected), atol=2e-5)
    for (path, a), b in zip(jax.tree_util.tree_leaves_with_path(ours), jax.tree.leaves(reference), strict=True):
        assert np.linalg.norm(a - np.asarray(b)) <= 1e-5 * np.linalg.norm(b), path


def test_a_tensor_split_of_four(forward, tokens_rs, tmp_path):
    spec = ModelSpec(
        family="llama",
        vocabulary=96,
        model=32,
        feed_forward=64,
        layers=2,
        heads=8,
        kv_heads=8,
        head_dim=8,
        max_positions=64,
        rope_theta=1e4,
        norm_eps=1e-6,
    )
    tokens = tokens_rs[:, :16]
    expected = forward(init(spec, make_mesh(), 0, tmp_path), tokens)
    many = forward(init(spec, make_mesh(1, 2, 4), 0, tmp_path), tokens)
    np.testing.assert_allclose(many, expected, atol=2e-5)


def test_parameters_rest_where_the_table_says(tiny):
    policy = load(tiny("qwen3_untied").folder, make_mesh(2, 2, 2))
    layers = policy.params["layers"]
    assert layers["q_dnh"][...].sharding.spec == P(None, "fsdp", "tensor", None)
    assert layers["o_nhd"][...].sharding.spec == P(None, "tensor", None, "fsdp")
    assert layers["down_fd"][...].sharding.spec == P(None, "tensor", "fsdp")
    assert layers["attention_norm_d"][...].sharding.spec == P(None, None)
    assert policy.params["unembed_vd"][...].sharding.spec == P("tensor", "fsdp")
    # [2, 64, 4, 32] over fsdp 2 and tensor 2: each device holds a quarter
    assert {shard.data.shape for shard in layers["q_dnh"][...].addressable_shards} == {(2, 32, 2, 32)}


def test_an_abstract_policy_has_the_shapes_and_shardings_of_a_real_one(tiny):
    mesh = make_mesh(1, 4, 2)
    real = load(tiny("llama_biases").folder, mesh)
    planned = abstract(real.spec, mesh, real.source)
    assert planned.graphdef == real.graphdef
    leaves = jax.tree.leaves(planned.params)
    assert all(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in leaves)
    for a, b in zip(leaves, jax.tree.leaves(real.params), strict=True):
        assert (a.shape, a.dtype, a.sharding) == (b.shape, b.dtype, b.sharding)
    assert jax.tree.structure(planned.params) == jax.tree.structure(real.params)


def test_random_weights_are_the_same_on_every_mesh(tiny):
    folder = tiny("qwen3_tied").folder
    spec = load(folder, make_mesh()).spec
    one, many = init(spec, make_mesh(), 7, folder), init(spec, make_mesh(2, 2, 2), 7, folder)
    other = init(spec, make_mesh(), 8, folder)
    for a, b in zip(jax.tree.leaves(one.params), jax.tree.leaves(many.params), strict=True):
        np.testing.assert_array_equal(a, np.asarray(b))
    assert not np.array_equal(one.params["embed_vd"][...], other.params["embed_vd"][...])
    assert float(jnp.std(one.params["embed_vd"][...])) == pytest.approx(0.02, rel=0.05)
    np.testing.assert_array_equal(one.params["layers"]["q_norm_h"][...], np.ones((2, 32), np.float32))
    assert many.params["layers"]["q_dnh"][...].sharding.spec == P(None, "fsdp", "tensor", None)


def test_every_parameter_is_read_once_and_in_parts(tiny, monkeypatch):
    folder = tiny("qwen3_untied", dtype=torch.bfloat16).folder
    reads: list[tuple[str, int]] = []
    original = CheckpointFiles.read

    def counted(self, name, slices):
        part = original(self, name, slices)
        reads.append((name, part.size))
        return part

    monkeypatch.setattr(CheckpointFiles, "read", counted)
    policy = load(folder, make_mesh(fsdp=4, tensor=2))
    spec = policy.spec
    total = sum(np.prod(row.shape(spec)) for row in parameters(spec).values() if row.kind == "matrix")
    matrices = [size for name, size in reads if "norm" not in name]
    assert sum(matrices) == total
    assert max(matrices) == 64 * 128 // 8  # an eighth of the largest tensor of one layer, q_proj


def test_sizes_that_do_not_divide_are_named(tiny):
    spec = load(tiny("qwen3_tied").folder, make_mesh()).spec
    with pytest.raises(ShardingError, match=r"layers/k_djh: axis kv_heads has 2 .* mesh.tensor = 4; .* fits is 2"):
        check_fit(spec, make_mesh(tensor=4))
    with pytest.raises(ShardingError, match=r"embed_vd: axis model has 63 .* mesh.fsdp = 8"):
        check_fit(dataclasses.replace(spec, model=63), make_mesh(fsdp=8))
    policy = load(tiny("qwen3_tied").folder, make_mesh(2, 2, 2))
    ids = jnp.zeros((3, 4), jnp.int32)
    with pytest.raises(ShardingError, match=r"axis rows has 3 .* mesh.data \* mesh.fsdp = 4; use 0 or 4"):
        nnx.merge(policy.graphdef, policy.params)(ids, ids, ids)


def test_collisions_unknown_axes_and_missing_devices_are_errors(monkeypatch):
    with pytest.raises(ShardingError, match=r"heads and feed_forward .* both want the mesh axis tensor"):
        partition(("heads", "feed_forward"))
    with pytest.raises(ShardingError, match="unknown logical axis 'haeds'"):
        partition(("haeds",))
    monkeypatch.setitem(sharding_module.AXES, "head_dim", ("tensor",))
    with pytest.raises(ShardingError, match="heads and head_dim"):
        partition(("layers", "model", "heads", "head_dim"))
    with pytest.raises(ShardingError, match=r"2 \* 4 \* 2 = 16 devices, but there are 8"):
        make_mesh(2, 4, 2)
    with pytest.raises(ShardingError, match=r"mesh.tensor=0"):
        make_mesh(tensor=0)


def test_shipped_shapes_fit_a_node_of_eight():
    shapes = Path(__file__).parents[2] / "configs" / "models"
    for name in ("qwen3_0.6b", "qwen3_1.7b", "qwen3_4b", "qwen3_8b"):
        spec = ModelSpec.from_hf(json.loads((shapes / f"{name}.json").read_text()))
        for split in ((1, 8, 1), (2, 2, 2), (1, 1, 8)):
            check_fit(spec, make_mesh(*split))
