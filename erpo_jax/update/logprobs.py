"""Log-prob and entropy of answer tokens, from chunks of the sequence: no array of all logits ever exists.

    log p(token) = l[token] - logsumexp(l)          d log p(token) / dl = [token] - p
    H            = logsumexp(l) - sum p * l         dH / dl             = -p * (log p + H)

with l = logits / temperature, in float32, nats, over the full vocabulary. A logit of -inf has probability 0 and
contributes 0 to the entropy and to every gradient. Only reductions over the vocabulary are used, no gather: split over
devices, it stays split.

Each chunk's logits are computed, reduced and dropped. What a token adds to the loss depends on its own log-prob and
entropy alone, so `loss_and_gradient` makes the chunk's part of the gradient from the same logits: nothing of the head
is computed twice, nothing is kept for a backward pass, and loops need not be differentiable. `count` is a value, not a
shape: chunks that hold no token cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding

from erpo_jax.policy import partition
from erpo_jax.update.measures import TokenSums

Term = Callable[[jax.Array, jax.Array, Any], tuple[jax.Array, TokenSums]]
"""term(log-prob [R, C], entropy [R, C], more of the tokens [R, C]) -> (loss of these tokens, their sums)."""


class Head(NamedTuple):
    """What turns hidden states into logits, and how many at once."""

    logits: Callable[[jax.Array, jax.Array], jax.Array]
    """logits(hidden [..., D], unembed_vd) gives float32 logits [..., V]: a product with the matrix, plus a constant."""
    unembed_vd: jax.Array
    temperature: float
    chunk_slots: int
    """The number of slots of every row whose logits exist at once; divides the slots of a row."""
    mesh: Mesh | None = None
    """Rows are split over its data and fsdp axes, the vocabulary over tensor."""

    def cut(self, values_rs: Any, number: jax.Array) -> Any:
        """The slots of chunk `number` of every array in a tree."""

        def one(value_rs: jax.Array) -> jax.Array:
            return jax.lax.dynamic_slice_in_dim(value_rs, number * self.chunk_slots, self.chunk_slots, axis=1)

        return jax.tree.map(one, values_rs)

    def put(self, value_rs: jax.Array, part_rc: jax.Array, number: jax.Array) -> jax.Array:
        """`value_rs` with the slots of chunk `number` replaced."""
        return jax.lax.dynamic_update_slice_in_dim(value_rs, part_rc, number * self.chunk_slots, axis=1)


def token_logprobs(head: Head, hidden_rsd: jax.Array, target_rs: jax.Array, count: Any) -> tuple[jax.Array, jax.Array]:
    """(log-prob of `target_rs`, entropy), float32 [R, S], given the hidden states that predict them. Only the chunks of
    the first `count` slots (int, may be traced) are computed, the rest is 0."""

    def chunk(number: jax.Array, values: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        hidden_rcd, target_rc = head.cut((hidden_rsd, target_rs), number)
        logits_rcv = head.logits(hidden_rcd, head.unembed_vd) / head.temperature
        logprob_rc, entropy_rc, _ = reduce_logits(logits_rcv, target_rc)
        return head.put(values[0], logprob_rc, number), head.put(values[1], entropy_rc, number)

    zeros_rs = jnp.zeros(target_rs.shape, jnp.float32)
    with jax.named_scope("token_logprobs"):
        found: tuple[jax.Array, jax.Array] = jax.lax.fori_loop(0, _chunks(head, count), chunk, (zeros_rs, zeros_rs))
    return found


def loss_and_gradient(
    term: Term, head: Head, hidden_rsd: jax.Array, target_rs: jax.Array, given_rs: Any, count: Any
) -> tuple[TokenSums, tuple[jax.Array, jax.Array]]:
    """(sums of `term`, gradient of its loss by hidden_rsd and head.unembed_vd), over the first `count` slots."""
    shards = 1 if head.mesh is None else head.mesh.shape["data"] * head.mesh.shape["fsdp"]
    dtype = head.unembed_vd.dtype
    differentiated = jax.value_and_grad(term, argnums=(0, 1), has_aux=True)

    def chunk(number: jax.Array, carry: tuple[TokenSums, jax.Array, jax.Array]) -> Any:
        sums, hidden_bar_rsd, unembed_bar_kvd = carry
        hidden_rcd, target_rc, given_rc = head.cut((hidden_rsd, target_rs, given_rs), number)
        logits_rcv = head.logits(hidden_rcd, head.unembed_vd) / head.temperature
        logprob_rc, entropy_rc, log_sum_rc = reduce_logits(logits_rcv, target_rc)
        (_, found), (logprob_bar_rc, entropy_bar_rc) = differentiated(logprob_rc, entropy_rc, given_rc)
        logits_bar_rcv = logits_gradient(logits_rcv, target_rc, entropy_rc, log_sum_rc, logprob_bar_rc, entropy_bar_rc)
        logits_bar_rcv = (logits_bar_rcv / head.temperature).astype(dtype)
        hidden_bar_rcd = jnp.einsum("rcv,vd->rcd", logits_bar_rcv, head.unembed_vd)
        by_shard = [x.reshape(shards, -1, x.shape[-1]) for x in (logits_bar_rcv, hidden_rcd.astype(dtype))]
        part_kvd = jnp.einsum("kxv,kxd->kvd", *by_shard, preferred_element_type=jnp.float32)
        hidden_bar_rsd = head.put(hidden_bar_rsd, hidden_bar_rcd.astype(hidden_rsd.dtype), number)
        return sums.add(found), hidden_bar_rsd, unembed_bar_kvd + part_kvd

    # Each shard of rows sums its own part of the matrix's gradient over the chunks, in float32; the parts are added
    # once, at the end. One sum for all would be sent around the devices in every chunk.
    zeros_kvd = jnp.zeros((shards, *head.unembed_vd.shape), jnp.float32)
    if head.mesh is not None:
        own = NamedSharding(head.mesh, partition(("rows", "vocabulary", "features")))
        zeros_kvd = jax.lax.with_sharding_constraint(zeros_kvd, own)
    zeros = (TokenSums.zero(), jnp.zeros_like(hidden_rsd), zeros_kvd)
    with jax.named_scope("token_logprobs"):
        sums, hidden_bar_rsd, unembed_bar_kvd = jax.lax.fori_loop(0, _chunks(head, count), chunk, zeros)
    unembed_bar_vd = jnp.sum(unembed_bar_kvd, axis=0)
    if head.mesh is not None:  # left where the parameter rests: each device gets its part of the sum alone
        at_rest = NamedSharding(head.mesh, partition(("vocabulary", "model")))
        unembed_bar_vd = jax.lax.with_sharding_constraint(unembed_bar_vd, at_rest)
    return sums, (hidden_bar_rsd, unembed_bar_vd.astype(dtype))


def _chunks(head: Head, count: Any) -> Any:
    return (count + head.chunk_slots - 1) // head.chunk_slots


def reduce_logits(logits_xv: jax.Array, target_x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(log-prob of `target_x`, entropy, logsumexp), float32 [...], of float32 logits [..., V] / temperature."""
    peak_x = jnp.max(logits_xv, axis=-1)
    shifted_xv = logits_xv - peak_x[..., None]
    mass_xv = jnp.exp(shifted_xv)
    total_x = jnp.sum(mass_xv, axis=-1)
    log_total_x = jnp.log(total_x)
    # where a logit is -inf, 0 * -inf must be 0
    spread_x = jnp.sum(jnp.where(mass_xv > 0.0, mass_xv * shifted_xv, 0.0), axis=-1)
    chosen_x = jnp.sum(jnp.where(_is_target(target_x, logits_xv), shifted_xv, 0.0), axis=-1)
    return chosen_x - log_total_x, log_total_x - spread_x / total_x, peak_x + log_total_x


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
