"""The optimizer against numbers computed by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from erpo_jax.config import OptimizerConfig
from erpo_jax.policy import ModelSpec, init, make_mesh
from erpo_jax.update import learning_rate, make_optimizer
from erpo_jax.update.optimizer import decays, init_optimizer


@pytest.mark.parametrize(
    ("count", "rate"), [(0, 2.5e-8), (1, 5e-8), (18, 4.75e-7), (19, 5e-7), (20, 5e-7), (1000, 5e-7)]
)
def test_warm_up(count, rate):
    assert float(learning_rate(OptimizerConfig(), jnp.int32(count))) == pytest.approx(rate, rel=1e-6)


def test_no_warm_up():
    assert float(learning_rate(OptimizerConfig(warmup_steps=0), jnp.int32(0))) == pytest.approx(5e-7)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_u8_a_weight_moves_under_a_small_rate(dtype):
    config = OptimizerConfig(learning_rate=1e-6, warmup_steps=0, weight_decay=0.0, first_moment_dtype=dtype)
    optimizer = make_optimizer(config)
    params = {"w": jnp.ones((3,))}

    @jax.jit
    def step(params, state):
        changes, state = optimizer.update({"w": jnp.full((3,), 0.01)}, state, params)
        return optax.apply_updates(params, changes), state

    state = optimizer.init(params)
    for _ in range(100):
        params, state = step(params, state)
    # a bfloat16 moment rests up to 3 % short of a constant gradient
    np.testing.assert_allclose(1.0 - params["w"], 1e-4, rtol=0.02 if dtype == "float32" else 0.03)
    assert params["w"].dtype == jnp.float32
    assert (state[1][0].mu["w"].dtype, state[1][0].nu["w"].dtype) == (dtype, jnp.float32)


def test_first_update_by_hand():
    # gradient (3, 4), norm 5, clipped to (0.6, 0.8); the first AdamW direction is g / |g| = 1 each (epsilon aside)
    optimizer = make_optimizer(OptimizerConfig(learning_rate=0.1, warmup_steps=2))
    params = {"w": jnp.asarray([2.0, -1.0]), "norm": jnp.asarray([2.0])}
    state = optimizer.init(params)
    changes, state = optimizer.update({"w": jnp.asarray([3.0, 4.0]), "norm": jnp.asarray([0.0])}, state, params)
    # rate 0.05: -(0.05) * (1 + 0.01 * w); no decay on the norm
    np.testing.assert_allclose(changes["w"], [-0.05 * 1.02, -0.05 * 0.99], rtol=1e-5)
    assert changes["norm"].tolist() == [0.0]
    np.testing.assert_allclose(state[1][0].mu["w"], [0.06, 0.08], rtol=1e-5)
    np.testing.assert_allclose(state[1][0].nu["w"], [0.36e-3, 0.64e-3], rtol=1e-5)


def test_decay_spares_norms_and_biases_of_a_real_policy():
    spec = ModelSpec(
        family="qwen2",
        vocabulary=16,
        model=8,
        feed_forward=16,
        layers=2,
        heads=2,
        kv_heads=1,
        head_dim=4,
        max_positions=32,
        rope_theta=1e4,
        norm_eps=1e-6,
        tied=False,
        qk_norm=True,
        qkv_bias=True,
        mlp_bias=True,
    )
    params = init(spec, make_mesh(1, 2, 1), 0, ".").params
    decayed = {jax.tree_util.keystr(path): on for path, on in jax.tree_util.tree_leaves_with_path(decays(params))}
    spared = {name for name, on in decayed.items() if not on}
    assert {name for name in decayed if "norm" in name or "bias" in name} == spared
    assert len(spared) == 11
    assert len(decayed) - len(spared) == 9

    state = init_optimizer(OptimizerConfig(), params)
    for value, moment in zip(jax.tree.leaves(params), jax.tree.leaves(state[1][0].mu), strict=True):
        assert moment.sharding == value.sharding
        assert moment.dtype == jnp.float32
