"""Log-prob and entropy of every token, from chunks of the sequence: no array of all logits ever exists.

    log p(token) = l[token] - logsumexp(l)          d log p(token) / dl = [token] - p
    H            = logsumexp(l) - sum p * l         dH / dl             = -p * (log p + H)

with l = logits / temperature, in float32, nats, over the full vocabulary. Each chunk's logits are computed, reduced and
dropped; the backward pass makes them again and needs two numbers per token from the first time. A logit of -inf has
probability 0 and contributes 0 to the entropy and to every gradient. Only reductions over the vocabulary are used, no
gather: split over devices, it stays split.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding

from erpo_jax.policy import partition

Logits = Callable[[jax.Array, jax.Array], jax.Array]


def token_logprobs(
    logits: Logits,
    unembed_vd: jax.Array,
    hidden_rsd: jax.Array,
    tokens_rs: jax.Array,
    *,
    temperature: float,
    chunk_slots: int,
    mesh: Mesh | None = None,
) -> tuple[jax.Array, jax.Array]:
    """(log-prob, entropy), float32 [R, S]: at slot s those of token s given the tokens before it.

    `logits(hidden [..., D], unembed_vd)` gives float32 logits [..., V]; nothing else that it reads is differentiated.
    `chunk_slots` is the number of slots of every row whose logits exist at once. Rows are split over the data and fsdp
    axes of the mesh. Slot 0 of a row has no predecessor in it: both values are 0 there. At the first token of a segment
    the values mean nothing, being taken given the segment before it; no response starts there.
    """
    rows, slots, width = hidden_rsd.shape
    chunk_slots = min(chunk_slots, slots)
    chunks = -(-slots // chunk_slots)
    padding = chunks * chunk_slots - slots
    next_rs = jnp.pad(tokens_rs[:, 1:], ((0, 0), (0, 1 + padding)))
    hidden_rsd = jnp.pad(hidden_rsd, ((0, 0), (0, padding), (0, 0)))
    next_nrc = next_rs.reshape(rows, chunks, chunk_slots).swapaxes(0, 1)
    hidden_nrcd = hidden_rsd.reshape(rows, chunks, chunk_slots, width).swapaxes(0, 1)
    values = _by_chunk(logits, temperature, mesh, unembed_vd, hidden_nrcd, next_nrc)
    logprob_rs, entropy_rs = (
        jnp.pad(value.swapaxes(0, 1).reshape(rows, -1)[:, : slots - 1], ((0, 0), (1, 0))) for value in values
    )
    return logprob_rs, entropy_rs


def reduce_logits(logits_xv: jax.Array, target_x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(log-prob of `target_x`, entropy, logsumexp), float32 [...], of float32 logits [..., V] / temperature."""
    peak_x = jnp.max(logits_xv, axis=-1)
    shifted_xv = _finite(logits_xv - peak_x[..., None])
    mass_xv = jnp.exp(shifted_xv)
    total_x = jnp.sum(mass_xv, axis=-1)
    log_total_x = jnp.log(total_x)
    entropy_x = log_total_x - jnp.sum(mass_xv * shifted_xv, axis=-1) / total_x
    chosen_x = jnp.sum(jnp.where(_is_target(target_x, logits_xv), shifted_xv, 0.0), axis=-1)
    return chosen_x - log_total_x, entropy_x, peak_x + log_total_x


def logits_gradient(
    logits_xv: jax.Array,
    target_x: jax.Array,
    entropy_x: jax.Array,
    log_sum_x: jax.Array,
    logprob_bar_x: jax.Array,
    entropy_bar_x: jax.Array,
) -> jax.Array:
    """The gradient by `logits_xv` of sum(logprob_bar * log-prob + entropy_bar * entropy); the formulas at the top."""
    logprob_xv = _finite(logits_xv - log_sum_x[..., None])
    per_p_xv = logprob_bar_x[..., None] + entropy_bar_x[..., None] * (logprob_xv + entropy_x[..., None])
    chosen_xv = jnp.where(_is_target(target_x, logits_xv), logprob_bar_x[..., None], 0.0)
    return chosen_xv - jnp.exp(logprob_xv) * per_p_xv


def _finite(logprob_xv: jax.Array) -> jax.Array:
    """-inf becomes a number whose exponential is 0 all the same, so that p * log p is 0 there and not NaN."""
    return jnp.maximum(logprob_xv, -1e30)


def _is_target(target_x: jax.Array, logits_xv: jax.Array) -> jax.Array:
    return jax.lax.broadcasted_iota(jnp.int32, logits_xv.shape, logits_xv.ndim - 1) == target_x[..., None]


@partial(jax.custom_vjp, nondiff_argnums=(0, 1, 2))
def _by_chunk(
    logits: Logits,
    temperature: float,
    mesh: Mesh | None,
    unembed_vd: jax.Array,
    hidden_nrcd: jax.Array,
    next_nrc: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """(log-prob of the next token, entropy) [N, R, C], one chunk N after another."""
    (logprob_nrc, entropy_nrc), _ = _forward(logits, temperature, mesh, unembed_vd, hidden_nrcd, next_nrc)
    return logprob_nrc, entropy_nrc


def _forward(
    logits: Logits, temperature: float, mesh: Mesh | None, unembed_vd: jax.Array, hidden_nrcd: jax.Array, next_nrc: Any
) -> tuple[Any, Any]:
    def chunk(_: None, given: tuple[jax.Array, jax.Array]) -> tuple[None, Any]:
        hidden_rcd, next_rc = given
        return None, reduce_logits(logits(hidden_rcd, unembed_vd) / temperature, next_rc)

    _, (logprob_nrc, entropy_nrc, log_sum_nrc) = jax.lax.scan(chunk, None, (hidden_nrcd, next_nrc))
    return (logprob_nrc, entropy_nrc), (unembed_vd, hidden_nrcd, next_nrc, entropy_nrc, log_sum_nrc)


def _backward(
    logits: Logits, temperature: float, mesh: Mesh | None, kept: Any, bars: Any
) -> tuple[jax.Array, jax.Array, None]:
    unembed_vd, *values = kept
    shards = 1 if mesh is None else mesh.shape["data"] * mesh.shape["fsdp"]

    def shard(hidden_rcd: jax.Array, *others_rc: jax.Array) -> tuple[jax.Array, jax.Array]:
        logits_rcv, pull = jax.vjp(logits, hidden_rcd, unembed_vd)
        hidden_bar_rcd, unembed_bar_vd = pull(logits_gradient(logits_rcv / temperature, *others_rc) / temperature)
        return hidden_bar_rcd, unembed_bar_vd

    def chunk(unembed_bar_kvd: jax.Array, given: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        by_shard = [value.reshape(shards, -1, *value.shape[1:]) for value in given]
        hidden_bar_krcd, part_kvd = jax.vmap(shard)(*by_shard)
        return unembed_bar_kvd + part_kvd.astype(jnp.float32), hidden_bar_krcd.reshape(given[0].shape)

    # Each shard of rows sums its own part of the matrix's gradient over the chunks, in float32; the parts are added
    # once, at the end. One sum for all would be sent around the devices in every chunk.
    zeros_kvd = jnp.zeros((shards, *unembed_vd.shape), jnp.float32)
    if mesh is not None:
        own = NamedSharding(mesh, partition(("rows", "vocabulary", "features")))
        zeros_kvd = jax.lax.with_sharding_constraint(zeros_kvd, own)
    unembed_bar_kvd, hidden_bar_nrcd = jax.lax.scan(chunk, zeros_kvd, (*values, *bars))
    unembed_bar_vd = jnp.sum(unembed_bar_kvd, axis=0)
    if mesh is not None:  # left where the parameter rests: each device gets its part of the sum alone
        at_rest = NamedSharding(mesh, partition(("vocabulary", "model")))
        unembed_bar_vd = jax.lax.with_sharding_constraint(unembed_bar_vd, at_rest)
    return unembed_bar_vd.astype(unembed_vd.dtype), hidden_bar_nrcd, None


_by_chunk.defvjp(_forward, _backward)
