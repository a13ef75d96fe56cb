"""What the update learns from: one `Candidate` per sampled answer, and the `Batch` of packed rows that the step takes.

Token ids come as they were sampled and are scored as they are: nothing here decodes, encodes or cuts text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax


class BatchError(ValueError):
    """Candidates that cannot be packed, or a batch whose layout the step refuses: one line saying which and why."""


@dataclass(frozen=True)
class Candidate:
    """One sampled answer.

    `group` is the place of its problem in the step (0..B-1), `index` its place in sampling order (0..G-1).
    `completion_ids` holds the end token when the answer ended by itself; `rollout_logprobs[t]` is the log-prob of
    `completion_ids[t]` that the sampler drew it with, at the sampling temperature. `reward` NaN: its problem gave no
    reward; its tokens count, its advantage is 0. `present` False (no verdict, lost, truncated and dropped): no part in
    anything, its ids are not looked at. `old_logprobs` is needed for several updates per rollout only.
    """

    prompt_ids: Sequence[int]
    completion_ids: Sequence[int]
    rollout_logprobs: Sequence[float]
    group: int
    index: int
    reward: float
    present: bool = True
    old_logprobs: Sequence[float] | None = None


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Batch:
    """Packed rows of one update. R rows of S slots; B groups of G candidates, flat index b*G + g.

    A segment is one prompt and, after it, the answers of one or more candidates: they share its slots and do not see
    each other. A value at slot s belongs to the token there: `rollout_logprobs_rs[r, s]` is the log-prob of
    `tokens_rs[r, s]`. A micro-batch is a run of rows, all of one size: 0..kept_micro_batches-1 hold every candidate
    that can have a policy gradient, kept_micro_batches..micro_batches-1 the others; later rows are empty.
    """

    tokens_rs: Any
    """int32; 0 in padding."""
    positions_rs: Any
    """int32; 0, 1, ... in every prompt; every answer goes on from its prompt."""
    segments_rs: Any
    """int32; 1, 2, ... in each row, 0 in padding."""
    candidate_rs: Any
    """int32; the flat index of the candidate whose answer token this is, -1 in prompts and padding."""
    sources_rs: Any
    """int32; the slot of the token before an answer token in its text, whose hidden state predicts it; else 0."""
    rollout_logprobs_rs: Any
    """float32; the sampler's log-probs, 0 outside answers."""
    old_logprobs_rs: Any
    """float32, the trainer's log-probs before the first of several updates, or None (the ratio is then 1 in value)."""
    reward_bg: Any
    """float32; NaN where there is none."""
    present_bg: Any
    """bool."""
    kept_micro_batches: Any
    """int32 scalar. A traced value, not a shape: one compilation serves every split. A Python int compiles it in."""
    micro_batches: Any
    """int32 scalar, as above."""
    answer_slots: int | None = field(default=None, metadata={"static": True})
    """For inspection alone: compiles in how many answer tokens the fullest row has. None: read off each micro-batch."""

    @property
    def response_mask_rs(self) -> Any:
        """bool; answer tokens, the end token among them."""
        return self.candidate_rs >= 0

    def micro_batch(self, number: Any, rows: int) -> Batch:
        """The rows of micro-batch `number` (may be traced) of `rows` rows; everything else as it is."""

        def cut(value_rs: jax.Array) -> jax.Array:
            return jax.lax.dynamic_slice_in_dim(value_rs, number * rows, rows, axis=0)

        return replace(
            self,
            tokens_rs=cut(self.tokens_rs),
            positions_rs=cut(self.positions_rs),
            segments_rs=cut(self.segments_rs),
            candidate_rs=cut(self.candidate_rs),
            sources_rs=cut(self.sources_rs),
            rollout_logprobs_rs=cut(self.rollout_logprobs_rs),
            old_logprobs_rs=None if self.old_logprobs_rs is None else cut(self.old_logprobs_rs),
        )
