"""The update in its plainest form: one row per candidate, all logits at once. No packing, no chunks, no micro-batches;
nothing shared with the compiled step but the decoder. The tests hold the step against it.

It reads as METHOD does: `plan` is the arithmetic on rewards in Python floats, one candidate after another, and
`reference_loss` is the formula. For small models alone: its memory grows with candidates * longest * vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from erpo_jax.config import LossConfig, MaskConfig
from erpo_jax.policy import Policy
from erpo_jax.update.batch import Candidate


@dataclass(frozen=True)
class Plan:
    """Per candidate that is present, in the order of `candidates`."""

    candidates: list[Candidate]
    advantages: list[float]
    weights: list[float]
    scales: list[float]
    """What each token's g is multiplied by: m / denominator."""


def plan(candidates: Sequence[Candidate], mask: MaskConfig, loss: LossConfig) -> Plan:
    """Advantages, mask and denominators, in Python floats."""
    here = sorted((c for c in candidates if c.present), key=lambda c: (c.group, c.index))
    advantage = {id(c): 0.0 for c in here}
    weight = {id(c): 0.0 for c in here}
    for group in sorted({c.group for c in here}):
        members = [c for c in here if c.group == group and not np.isnan(c.reward)]
        if not members:
            continue
        rewards = [float(np.float32(c.reward)) for c in members]
        mean = sum(rewards) / len(rewards)
        tied = max(rewards) == min(rewards)
        std = 0.0 if tied else (sum((r - mean) ** 2 for r in rewards) / (len(rewards) - 1)) ** 0.5
        order = sorted(range(len(members)), key=lambda i: rewards[i])  # stable: sampling order among equals
        for rank, i in enumerate(order):
            a = -1.0 if loss.advantage == "minus_one" else 0.0 if tied else (rewards[i] - mean) / (std + 1e-6)
            m = {
                "rank": float(rank < len(members) * mask.percent // 100),
                "none": 1.0,
                "below": float(rewards[i] < mask.threshold),
                "soft": 1.0 - rank / max(len(members) - 1, 1),
                "calibrated": mask.calibration[round(rewards[i] * (len(mask.calibration) - 1))],
            }[mask.kind]
            if mask.sign == "negative" and not a < 0:
                m = 0.0
            advantage[id(members[i])], weight[id(members[i])] = a, m
    kept = [c for c in here if weight[id(c)] != 0 and advantage[id(c)] != 0]
    scales = []
    for c in here:
        denominator = {
            "all_tokens": sum(len(x.completion_ids) for x in here),
            "kept_tokens": sum(len(x.completion_ids) for x in kept),
            "sequences": len(kept) * len(c.completion_ids),
        }[loss.denominator]
        scales.append(weight[id(c)] / denominator if any(c is x for x in kept) else 0.0)
    return Plan(here, [advantage[id(c)] for c in here], [weight[id(c)] for c in here], scales)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Dense:
    """Candidates side by side, [N, T], each from its first prompt token on; 0 after its end."""

    tokens_nt: Any
    real_nt: Any
    response_nt: Any
    rollout_logprobs_nt: Any
    old_logprobs_nt: Any


def dense(candidates: Sequence[Candidate]) -> Dense:
    """Lay candidates out; all of them or none have old log-probs."""
    shape = (len(candidates), max(len(c.prompt_ids) + len(c.completion_ids) for c in candidates))
    tokens_nt, real_nt, response_nt = np.zeros(shape, np.int32), np.zeros(shape, np.int32), np.zeros(shape, bool)
    rollout_nt, old_nt = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    for n, c in enumerate(candidates):
        start, end = len(c.prompt_ids), len(c.prompt_ids) + len(c.completion_ids)
        tokens_nt[n, :end] = [*c.prompt_ids, *c.completion_ids]
        real_nt[n, :end] = 1
        response_nt[n, start:end] = True
        rollout_nt[n, start:end] = c.rollout_logprobs
        if c.old_logprobs is not None:
            old_nt[n, start:end] = c.old_logprobs
    with_old = bool(candidates) and candidates[0].old_logprobs is not None
    return Dense(tokens_nt, real_nt, response_nt, rollout_nt, old_nt if with_old else None)


def dense_logprobs(graphdef: Any, params: Any, rows: Dense, temperature: Any) -> tuple[jax.Array, jax.Array]:
    """(log-prob of each token given those before it, entropy of the distribution it was drawn from), float32 [N, T]."""
    positions_t = jnp.arange(rows.tokens_nt.shape[1], dtype=jnp.int32)
    positions_nt = jnp.broadcast_to(positions_t[None], rows.tokens_nt.shape)
    decoder = nnx.merge(graphdef, params)
    logits_ntv = decoder.logits(decoder(rows.tokens_nt, positions_nt, rows.real_nt))
    logprobs_ntv = jax.nn.log_softmax(logits_ntv / temperature, axis=-1)
    entropy_nt = -jnp.sum(jnp.exp(logprobs_ntv) * logprobs_ntv, axis=-1)
    chosen_nt = jnp.take_along_axis(logprobs_ntv[:, :-1], rows.tokens_nt[:, 1:, None], axis=-1)[..., 0]
    return jnp.pad(chosen_nt, ((0, 0), (1, 0))), jnp.pad(entropy_nt[:, :-1], ((0, 0), (1, 0)))


def reference_loss(
    graphdef: Any, params: Any, rows: Dense, advantage_n: Any, scale_n: Any, loss: dict[str, Any], temperature: Any
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """(loss, {"policy_loss", "entropy"}), differentiable in `params`. `loss` holds the numbers of the LossConfig."""
    logprob_nt, entropy_nt = dense_logprobs(graphdef, params, rows, temperature)
    mask_nt, a_nt = rows.response_nt, advantage_n[:, None]
    old_nt = jax.lax.stop_gradient(logprob_nt) if rows.old_logprobs_nt is None else rows.old_logprobs_nt
    r_nt = jnp.exp(jnp.clip(jnp.where(mask_nt, logprob_nt - old_nt, 0.0), -20.0, 20.0))
    clipped_nt = jnp.clip(r_nt, 1.0 - loss["clip"], 1.0 + loss["clip"])
    g_nt = jnp.minimum(r_nt * a_nt, clipped_nt * a_nt)
    g_nt = jnp.where(a_nt >= 0.0, g_nt, jnp.maximum(g_nt, loss["dual_clip"] * a_nt))
    gap_nt = jnp.clip(jnp.where(mask_nt, logprob_nt - rows.rollout_logprobs_nt, 0.0), -20.0, 20.0)
    importance_nt = jnp.minimum(jnp.exp(jax.lax.stop_gradient(gap_nt)), loss["importance_cap"])
    g_nt = jnp.where(loss["importance_cap"] > 0.0, g_nt * importance_nt, g_nt)
    policy_loss = -jnp.sum(jnp.where(mask_nt, scale_n[:, None] * g_nt, 0.0))
    entropy = jnp.sum(jnp.where(mask_nt, entropy_nt, 0.0)) / jnp.sum(mask_nt).astype(jnp.float32)
    excess = jnp.maximum(entropy - loss["entropy_ceiling"], 0.0)
    return policy_loss + loss["entropy_coefficient"] * excess**2, {"policy_loss": policy_loss, "entropy": entropy}


def reference_gradient(
    policy: Policy,
    params: Any,
    candidates: Sequence[Candidate],
    *,
    mask: MaskConfig,
    loss: LossConfig,
    temperature: float,
) -> tuple[Any, dict[str, jax.Array]]:
    """(gradient of the loss by `params`, {"loss", "policy_loss", "entropy"}), neither clipped nor applied."""
    made = plan(candidates, mask, loss)
    numbers = {
        name: np.float32(getattr(loss, name))
        for name in ("clip", "dual_clip", "importance_cap", "entropy_coefficient", "entropy_ceiling")
    }
    advantage_n, scale_n = np.asarray(made.advantages, np.float32), np.asarray(made.scales, np.float32)
    (value, parts), grads = _value_and_gradient(
        policy.graphdef, params, dense(made.candidates), advantage_n, scale_n, numbers, np.float32(temperature)
    )
    return grads, {"loss": value, **parts}


def reference_logprobs(
    policy: Policy, params: Any, candidates: Sequence[Candidate], temperature: float
) -> list[np.ndarray]:
    """The policy's log-prob of every completion token of every candidate."""
    rows = dense(candidates)
    logprob_nt, _ = _logprobs(policy.graphdef, params, rows, np.float32(temperature))
    return [np.asarray(logprob_nt)[n, rows.response_nt[n]] for n in range(len(candidates))]


_value_and_gradient = jax.jit(jax.value_and_grad(reference_loss, argnums=1, has_aux=True), static_argnums=0)
_logprobs = jax.jit(dense_logprobs, static_argnums=0)
