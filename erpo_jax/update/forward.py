"""The policy over packed rows: log-probs and entropies of answer tokens at the sampling temperature, and the gradient
of a loss of them.

The one place where the update meets the decoder. Hidden states come from whole rows; the head then sees answer tokens
alone, brought to the front of their rows, so that prompts and padding cost no logits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec

from erpo_jax.config import UpdateConfig
from erpo_jax.policy import Policy, row_sharding
from erpo_jax.update.batch import Batch
from erpo_jax.update.logprobs import Head, Term, loss_and_gradient, token_logprobs
from erpo_jax.update.measures import TokenSums


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Answers:
    """The answer tokens of a micro-batch, at the front of their rows in their order; then padding, candidate -1."""

    candidate_rs: Any
    """int32; flat index."""
    rollout_logprobs_rs: Any
    old_logprobs_rs: Any
    """None with one update per rollout."""


@dataclass(frozen=True)
class Forward:
    """A policy's passes over one micro-batch, split over data and fsdp."""

    policy: Policy
    chunk_slots: int
    temperature: float

    def logprobs(self, params: Any, rows: Batch) -> tuple[jax.Array, jax.Array, Answers]:
        """(log-prob, entropy), float32 [R, S'], and which tokens they are of. S' is S rounded up to whole chunks."""
        slots_rs, answers, count = self._answers(rows)
        (hidden_rsd, unembed_vd), targets_rs = self._hidden(params, rows, slots_rs), _take(rows.tokens_rs, slots_rs)
        return *token_logprobs(self._head(params, unembed_vd), hidden_rsd, targets_rs, count), answers

    def gradient(self, term: Term, params: Any, rows: Batch) -> tuple[TokenSums, Any]:
        """(the sums of `term`, the gradient of its loss by `params`). `term` is given `Answers`, a chunk at a time."""
        slots_rs, answers, count = self._answers(rows)
        (hidden_rsd, unembed_vd), pull = jax.vjp(lambda params: self._hidden(params, rows, slots_rs), params)
        sums, bars = loss_and_gradient(
            term, self._head(params, unembed_vd), hidden_rsd, _take(rows.tokens_rs, slots_rs), answers, count
        )
        return sums, pull(bars)[0]

    def _answers(self, rows: Batch) -> tuple[jax.Array, Answers, Any]:
        """(slots of the answer tokens [R, S'], the tokens, how many the fullest row has)."""
        mask_rs = rows.response_mask_rs
        slots = mask_rs.shape[1]
        width = -(-slots // self.chunk_slots) * self.chunk_slots
        # stable: answers keep their order
        slots_rs = jnp.argsort(~mask_rs, axis=1, stable=True).astype(jnp.int32)
        slots_rs = jnp.pad(slots_rs, ((0, 0), (0, width - slots)))
        count_r = jnp.sum(mask_rs, axis=1)
        real_rs = jnp.arange(width)[None] < count_r[:, None]
        answers = Answers(
            candidate_rs=jnp.where(real_rs, _take(rows.candidate_rs, slots_rs), -1),
            rollout_logprobs_rs=_take(rows.rollout_logprobs_rs, slots_rs),
            old_logprobs_rs=None if rows.old_logprobs_rs is None else _take(rows.old_logprobs_rs, slots_rs),
        )
        return slots_rs, answers, jnp.max(count_r) if rows.answer_slots is None else rows.answer_slots

    def _hidden(self, params: Any, rows: Batch, slots_rs: jax.Array) -> tuple[jax.Array, jax.Array]:
        """(hidden states that predict the tokens at `slots_rs`, the output matrix cast and gathered)."""
        by_rows = row_sharding(self.policy.mesh)
        decoder = nnx.merge(self.policy.graphdef, params)
        tokens_rs, positions_rs, segments_rs, candidate_rs, sources_rs = (
            jax.lax.with_sharding_constraint(value_rs, by_rows)
            for value_rs in (
                rows.tokens_rs,
                rows.positions_rs,
                rows.segments_rs,
                rows.candidate_rs,
                _take(rows.sources_rs, slots_rs),
            )
        )
        hidden_rsd = decoder(tokens_rs, positions_rs, segments_rs, candidate_rs)
        return jax.vmap(lambda hidden_sd, source_s: hidden_sd[source_s])(hidden_rsd, sources_rs), decoder.unembedding()

    def _head(self, params: Any, unembed_vd: jax.Array) -> Head:
        decoder = nnx.merge(self.policy.graphdef, params)
        return Head(decoder.logits, unembed_vd, self.temperature, self.chunk_slots, self.policy.mesh)


def make_forward(policy: Policy, update: UpdateConfig, temperature: float) -> Forward:
    """The passes of a policy at the sampling temperature, with chunks of `update.chunk_tokens` per row shard."""
    shards = policy.mesh.shape["data"] * policy.mesh.shape["fsdp"]
    return Forward(policy, max(1, update.chunk_tokens // max(1, update.micro_batch_rows // shards)), temperature)


def make_scorer(policy: Policy, update: UpdateConfig, temperature: float) -> Callable[[Any, Batch], np.ndarray]:
    """score(params, batch) -> logprob_rs: the trainer's own log-probs, before the first of several updates."""
    forward = make_forward(policy, update, temperature)
    rows = update.micro_batch_rows
    everywhere = NamedSharding(policy.mesh, PartitionSpec())

    @jax.jit
    def score(params: Any, batch: Batch) -> jax.Array:
        def one(number: jax.Array, logprob_rs: jax.Array) -> jax.Array:
            micro = batch.micro_batch(number, rows)
            found_rs, _, _ = forward.logprobs(params, micro)
            found_rs = jax.lax.with_sharding_constraint(found_rs, everywhere)
            # the n-th answer token of a row stands n-th in `found_rs`
            place_rs = jnp.maximum(jnp.cumsum(micro.response_mask_rs, axis=1) - 1, 0)
            found_rs = jnp.where(micro.response_mask_rs, _take(found_rs, place_rs), 0.0)
            return jax.lax.dynamic_update_slice_in_dim(logprob_rs, found_rs, number * rows, axis=0)

        empty_rs = jnp.zeros(batch.tokens_rs.shape, jnp.float32)
        logprob_rs: jax.Array = jax.lax.fori_loop(0, batch.micro_batches, one, empty_rs)
        return logprob_rs

    return lambda params, batch: np.asarray(score(params, jax.device_put(batch, everywhere)))


def _take(value_rs: jax.Array, slots_rs: jax.Array) -> jax.Array:
    return jnp.take_along_axis(value_rs, slots_rs, axis=1)
