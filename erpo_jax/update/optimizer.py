"""AdamW as METHOD sets it: global gradient norm clipped, linear warm-up then constant, no decay on norms and biases.

    update n = 0, 1, ...: learning rate = lr * min(1, (n + 1) / warmup_steps)

Moments lie where their parameter lies, in float32; the first may rest in bfloat16 (`first_moment_dtype`). The second
may not: with a decay of 0.999 it changes by less than half of bfloat16's spacing a step: it would never fall again.
Left out: other schedules.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.sharding import NamedSharding, PartitionSpec

from erpo_jax.config import OptimizerConfig


def learning_rate(config: OptimizerConfig, count: jax.Array) -> jax.Array:
    """float32 scalar: the rate of update number `count` (int32, from 0; skipped updates have no number)."""
    steps = max(config.warmup_steps, 1)
    reached = jnp.minimum((count + 1).astype(jnp.float32) / steps, 1.0)
    return jnp.asarray(config.learning_rate, jnp.float32) * reached


def decays(params: Any) -> Any:
    """A tree of bool: whether weight decay acts on the parameter. Not on norms and biases, told by their names."""

    def decay(path: tuple[Any, ...], _: Any) -> bool:
        name = jax.tree_util.keystr(path).lower()
        return "norm" not in name and "bias" not in name

    return jax.tree_util.tree_map_with_path(decay, params)


def make_optimizer(config: OptimizerConfig) -> optax.GradientTransformation:
    """The whole chain: gradient in, parameter change out."""
    chain = optax.chain(
        optax.clip_by_global_norm(config.max_grad_norm),
        optax.adamw(
            lambda count: learning_rate(config, count),
            b1=config.beta1,
            b2=config.beta2,
            eps=config.epsilon,
            weight_decay=config.weight_decay,
            mu_dtype=config.first_moment_dtype,
            mask=decays,
        ),
    )

    def update(grads: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        with jax.numpy_dtype_promotion("standard"):  # optax raises Python floats to the power of its int32 counter
            changed: tuple[Any, Any] = chain.update(grads, state, params)
            return changed

    return optax.GradientTransformation(chain.init, update)


def optimizer_shardings(config: OptimizerConfig, params: Any) -> Any:
    """The optimizer state's tree, shardings for leaves: a moment lies like its parameter, counters everywhere."""
    optimizer = make_optimizer(config)
    shardings = jax.tree.map(lambda value: value.sharding, params)
    first = jax.tree.leaves(shardings)[0]
    everywhere = NamedSharding(first.mesh, PartitionSpec()) if isinstance(first, NamedSharding) else first
    return optax.tree_utils.tree_map_params(
        optimizer,
        lambda _, sharding: sharding,
        jax.eval_shape(optimizer.init, params),
        shardings,
        transform_non_params=lambda _: everywhere,
    )


def init_optimizer(config: OptimizerConfig, params: Any) -> Any:
    """Fresh optimizer state, sharded at birth."""
    return jax.jit(make_optimizer(config).init, out_shardings=optimizer_shardings(config, params))(params)
