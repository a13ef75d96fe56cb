"""The policy's forward pass over packed rows: token log-probs and entropies at the sampling temperature.

The one place where the update meets the decoder; the compiled step and the scoring of old log-probs share it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec

from erpo_jax.config import UpdateConfig
from erpo_jax.policy import Policy, row_sharding
from erpo_jax.update.batch import Batch
from erpo_jax.update.logprobs import token_logprobs

Forward = Callable[[Any, Batch], tuple[jax.Array, jax.Array]]


def make_forward(policy: Policy, update: UpdateConfig, temperature: float) -> Forward:
    """forward(params, rows) -> (logprob_rs, entropy_rs), float32. `rows`: one micro-batch, split over data and fsdp."""
    shards = policy.mesh.shape["data"] * policy.mesh.shape["fsdp"]
    chunk_slots = max(1, update.chunk_tokens // max(1, update.micro_batch_rows // shards))
    by_rows = row_sharding(policy.mesh)

    def forward(params: Any, rows: Batch) -> tuple[jax.Array, jax.Array]:
        decoder = nnx.merge(policy.graphdef, params)
        tokens_rs, positions_rs, segments_rs = (
            jax.lax.with_sharding_constraint(value_rs, by_rows)
            for value_rs in (rows.tokens_rs, rows.positions_rs, rows.segments_rs)
        )
        hidden_rsd = decoder(tokens_rs, positions_rs, segments_rs)
        return token_logprobs(
            decoder.logits,
            decoder.unembedding(),  # cast and gathered once, not in every chunk
            hidden_rsd,
            tokens_rs,
            temperature=temperature,
            chunk_slots=chunk_slots,
            mesh=policy.mesh,
        )

    return forward


def make_scorer(policy: Policy, update: UpdateConfig, temperature: float) -> Callable[[Any, Batch], np.ndarray]:
    """score(params, batch) -> logprob_rs: the trainer's own log-probs, before the first of several updates."""
    forward = make_forward(policy, update, temperature)
    rows = update.micro_batch_rows
    everywhere = NamedSharding(policy.mesh, PartitionSpec())

    @jax.jit
    def score(params: Any, batch: Batch) -> jax.Array:
        def one(number: jax.Array, logprob_rs: jax.Array) -> jax.Array:
            found_rs, _ = forward(params, batch.micro_batch(number, rows))
            found_rs = jax.lax.with_sharding_constraint(found_rs, everywhere)
            return jax.lax.dynamic_update_slice_in_dim(logprob_rs, found_rs, number * rows, axis=0)

        empty_rs = jnp.zeros(batch.tokens_rs.shape, jnp.float32)
        logprob_rs: jax.Array = jax.lax.fori_loop(0, batch.micro_batches, one, empty_rs)
        return logprob_rs

    return lambda params, batch: np.asarray(score(params, jax.device_put(batch, everywhere)))
