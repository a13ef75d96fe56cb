"""The loss: clipped policy term over the kept candidates, plus the squared excess of the entropy over its ceiling.

    loss   = -(1/D) * sum_i m[i] * sum_t g[i,t]  +  c * max(0, H - H_ceil)^2
    g[i,t] = min(r*A, clip(r, 1-e, 1+e)*A)                       A >= 0
             max(min(r*A, clip(r, 1-e, 1+e)*A), 3*A)             A <  0      r = pi / pi_old
    H      = (1/D) * sum of all token entropies                  D the response tokens of all candidates of the step

`token_objective` is g, `token_scale` is m/D (and the two other denominators), `entropy_penalty` is the ceiling term;
A and m come from `advantages` and `masks`. All is per token or per candidate and knows nothing of rows and devices.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from erpo_jax.config import LossConfig, MaskConfig
from erpo_jax.update.advantages import advantages
from erpo_jax.update.masks import weights

# exp(20) is 5e8: far beyond any clip, far below the float32 range.
_LOG_RATIO_LIMIT = 20.0


def policy_ratio(logprob: jax.Array, old_logprob: jax.Array, mask: jax.Array) -> jax.Array:
    """r = pi / pi_old, 1 where `mask` is off. The difference is masked before `exp`: garbage cannot become NaN."""
    log_ratio = jnp.where(mask, logprob - old_logprob, 0.0)
    return jnp.exp(jnp.clip(log_ratio, -_LOG_RATIO_LIMIT, _LOG_RATIO_LIMIT))


def token_objective(ratio: jax.Array, advantage: jax.Array, loss: LossConfig) -> jax.Array:
    """g of one token, same shape as `ratio`; `advantage` is that of the token's candidate."""
    clipped = jnp.clip(ratio, 1.0 - loss.clip, 1.0 + loss.clip)
    surrogate = jnp.minimum(ratio * advantage, clipped * advantage)
    return jnp.where(advantage < 0.0, jnp.maximum(surrogate, loss.dual_clip * advantage), surrogate)


def importance_weight(logprob: jax.Array, sampler_logprob: jax.Array, mask: jax.Array, cap: float) -> jax.Array:
    """min(pi_trainer / pi_sampler, cap), a constant to the gradient: corrects what the sampler drew too often."""
    return jax.lax.stop_gradient(jnp.minimum(policy_ratio(logprob, sampler_logprob, mask), cap))


def token_scale(weight_c: jax.Array, advantage_c: jax.Array, length_c: jax.Array, denominator: str) -> jax.Array:
    """float32 [C]: the factor of every token of candidate c, so that policy loss = -sum over tokens of scale * g.

    `length_c` is the number of response tokens, int32. A candidate is kept when weight and advantage are nonzero.
        all_tokens    m / D
        kept_tokens   m / (tokens of kept candidates)
        sequences     m / (number of kept candidates * tokens of this one)
    Nothing kept: all zero.
    """
    kept_c = (weight_c != 0.0) & (advantage_c != 0.0)
    if denominator == "all_tokens":
        divisor_c = jnp.broadcast_to(jnp.sum(length_c), length_c.shape)
    elif denominator == "kept_tokens":
        divisor_c = jnp.broadcast_to(jnp.sum(jnp.where(kept_c, length_c, 0)), length_c.shape)
    else:
        divisor_c = jnp.sum(kept_c.astype(jnp.int32)) * length_c
    return jnp.where(kept_c, weight_c / jnp.maximum(divisor_c, 1).astype(jnp.float32), 0.0)


def candidate_factors(
    reward_bg: jax.Array, present_bg: jax.Array, length_c: jax.Array, mask: MaskConfig, loss: LossConfig
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(A, m, token scale), float32 [C] with C = B*G: all that the rewards of a step decide."""
    with jax.named_scope("advantages"):
        advantage_bg = advantages(reward_bg, present_bg, loss.advantage)
    with jax.named_scope("rank_mask"):
        weight_c = weights(mask, reward_bg, advantage_bg, present_bg).reshape(-1)
        advantage_c = advantage_bg.reshape(-1)
        return advantage_c, weight_c, token_scale(weight_c, advantage_c, length_c, loss.denominator)


def entropy_penalty(entropy: jax.Array, loss: LossConfig) -> tuple[jax.Array, jax.Array]:
    """(c * max(0, H - ceiling)^2, its derivative by H) at the entropy H of the whole step, nats per token."""
    excess = jnp.maximum(entropy - loss.entropy_ceiling, 0.0)
    return loss.entropy_coefficient * excess * excess, 2.0 * loss.entropy_coefficient * excess
