"""What a step measures, as sums over tokens that are divided once, at the end, by their one global count.

So every value is that of the whole step, however it was cut into micro-batches, rows or devices.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import jax
import jax.numpy as jnp

from erpo_jax.update.advantages import taking_part, tied
from erpo_jax.update.batch import Batch

GAP_EDGES = (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0)
"""Lower edges, in nats, of the histogram of |trainer's - sampler's log-prob|; the last bin is open."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class TokenSums:
    """Sums and maxima over response tokens, float32; ratio and clipped over kept candidates' tokens alone."""

    entropy: jax.Array
    gap: jax.Array
    gap_max: jax.Array
    objective: jax.Array
    ratio: jax.Array
    ratio_max: jax.Array
    clipped: jax.Array
    gap_counts: jax.Array
    """Tokens in each bin of GAP_EDGES; the rest are scalars."""

    @classmethod
    def zero(cls) -> TokenSums:
        scalars = {item.name: jnp.zeros((), jnp.float32) for item in fields(cls)}
        return cls(**scalars | {"gap_counts": jnp.zeros(len(GAP_EDGES), jnp.float32)})

    def add(self, other: TokenSums) -> TokenSums:
        return TokenSums(
            entropy=self.entropy + other.entropy,
            gap=self.gap + other.gap,
            gap_max=jnp.maximum(self.gap_max, other.gap_max),
            objective=self.objective + other.objective,
            ratio=self.ratio + other.ratio,
            ratio_max=jnp.maximum(self.ratio_max, other.ratio_max),
            clipped=self.clipped + other.clipped,
            gap_counts=self.gap_counts + other.gap_counts,
        )


def entropy_and_gap(logprob_rs: jax.Array, entropy_rs: jax.Array, rollout_rs: jax.Array, mask_rs: Any) -> TokenSums:
    """The sums every answer token enters: its entropy, and |trainer's - sampler's log-prob|."""
    gap_rs = jnp.where(mask_rs, jnp.abs(logprob_rs - rollout_rs), 0.0)
    over_e = [jnp.sum((mask_rs & (gap_rs >= edge)).astype(jnp.float32)) for edge in GAP_EDGES]
    beyond_e = [*over_e[1:], jnp.zeros((), jnp.float32)]
    return replace(
        TokenSums.zero(),
        entropy=jnp.sum(jnp.where(mask_rs, entropy_rs, 0.0)),
        gap=jnp.sum(gap_rs),
        gap_max=jnp.max(gap_rs),
        gap_counts=jnp.stack(over_e) - jnp.stack(beyond_e),
    )


def share(part: jax.Array, whole: jax.Array) -> jax.Array:
    """part / whole in float32; 0 when there is nothing to share."""
    whole = whole.astype(jnp.float32)
    return jnp.where(whole > 0.0, part.astype(jnp.float32) / jnp.maximum(whole, 1.0), 0.0)


def group_metrics(batch: Batch, advantage_c: jax.Array, kept_c: jax.Array) -> dict[str, jax.Array]:
    """Shares and means over candidates and groups. A candidate is kept when its weight and advantage are nonzero."""
    part_bg = taking_part(batch.reward_bg, batch.present_bg)
    live_b = jnp.any(part_bg, axis=1)
    here, kept = jnp.sum(batch.present_bg), jnp.sum(kept_c)
    return {
        "kept_fraction": share(kept, here),
        "kept_positive_share": share(jnp.sum(kept_c & (advantage_c > 0.0)), kept),
        "tied_groups_share": share(jnp.sum(live_b & tied(batch.reward_bg, batch.present_bg)), jnp.sum(live_b)),
        "advantage_mean": share(jnp.sum(advantage_c), jnp.sum(part_bg)),
        "advantage_abs_mean": share(jnp.sum(jnp.abs(advantage_c)), jnp.sum(part_bg)),
        "reward_mean": share(jnp.sum(jnp.where(part_bg, batch.reward_bg, 0.0)), jnp.sum(part_bg)),
        "candidates": here.astype(jnp.float32),
    }


def token_metrics(sums: TokenSums, response_tokens: jax.Array, kept_tokens: jax.Array) -> dict[str, jax.Array]:
    """Means and maxima over tokens."""
    return {
        "entropy": share(sums.entropy, response_tokens),
        "logprob_gap_mean": share(sums.gap, response_tokens),
        "logprob_gap_max": sums.gap_max,
        "ratio_mean": share(sums.ratio, kept_tokens),
        "ratio_max": sums.ratio_max,
        "ratio_clipped_share": share(sums.clipped, kept_tokens),
        **{f"logprob_gap_from_{edge:g}": sums.gap_counts[place] for place, edge in enumerate(GAP_EDGES)},
    }
