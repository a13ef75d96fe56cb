"""Which candidates are learnt from, and how much: the weight m[i] of METHOD's loss.

    rank    1 for the first (G*percent)//100 of the group, ascending by reward, stable in sampling order; else 0
    none    1 for all
    below   1 where reward < threshold
    soft    1 - rank/(G-1), rank 0 the lowest reward
    calibrated   the entry of `mask.calibration` nearest to the reward; its entries lie at equal steps from 0 to 1

G is the number of candidates that take part (`advantages.taking_part`); the others have weight 0. `mask.sign=negative`
also needs A < 0. Like `advantages`, the functions run on numpy and on jax arrays.
"""

from __future__ import annotations

from typing import Any

from erpo_jax.config import LossConfig, MaskConfig
from erpo_jax.update.advantages import Array, advantages, taking_part, tied

# The host decides with room to spare: a rounding error between its arithmetic and the device's cannot misplace anyone.
_LAYOUT_MARGIN = 1e-3


def ranks(reward_bg: Array, part_bg: Array) -> Array:
    """int32 [B, G]: place in the ascending order of the group, 0 the lowest; equal rewards in sampling order.

    Only candidates in `part_bg` are counted; the value of the others means nothing.
    """
    xp: Any = reward_bg.__array_namespace__()
    index_g = xp.arange(reward_bg.shape[1], dtype=xp.int32)
    mine_bgx, other_bxg = reward_bg[:, :, None], reward_bg[:, None, :]
    earlier_xg = index_g[None, :] < index_g[:, None]
    before_bgg = (other_bxg < mine_bgx) | ((other_bxg == mine_bgx) & earlier_xg[None])
    rank_bg: Array = xp.sum(before_bgg & part_bg[:, None, :], axis=2).astype(xp.int32)
    return rank_bg


def weights(mask: MaskConfig, reward_bg: Array, advantage_bg: Array, present_bg: Array) -> Array:
    """float32 [B, G]: m[i], 0 for whoever does not take part."""
    xp: Any = reward_bg.__array_namespace__()
    part_bg = taking_part(reward_bg, present_bg)
    group_b = xp.sum(part_bg, axis=1).astype(xp.int32)
    weight_bg: Array
    if mask.kind == "rank":
        kept_b = group_b * mask.percent // 100
        weight_bg = (ranks(reward_bg, part_bg) < kept_b[:, None]).astype(xp.float32)
    elif mask.kind == "soft":
        last_b = xp.maximum(group_b - 1, 1).astype(xp.float32)
        # Not 1 - rank / last: the highest must be 0 exactly, also where a compiler divides by a reciprocal.
        weight_bg = (last_b[:, None] - ranks(reward_bg, part_bg).astype(xp.float32)) / last_b[:, None]
    elif mask.kind == "calibrated":
        table_k = xp.asarray(mask.calibration, dtype=xp.float32)
        step_bg = xp.round(xp.where(part_bg, reward_bg, 0.0) * (table_k.size - 1)).astype(xp.int32)
        weight_bg = table_k[xp.clip(step_bg, 0, table_k.size - 1)]
    elif mask.kind == "below":
        weight_bg = (reward_bg < mask.threshold).astype(xp.float32)
    elif mask.kind == "none":
        weight_bg = xp.ones(reward_bg.shape, xp.float32)
    else:
        raise ValueError(f"mask.kind={mask.kind} has no branch here")
    if mask.sign == "negative":
        weight_bg = xp.where(advantage_bg < 0.0, weight_bg, 0.0)
    weight_bg = xp.where(part_bg, weight_bg, 0.0).astype(xp.float32)
    return weight_bg


def may_learn(mask: MaskConfig, loss: LossConfig, reward_bg: Array, present_bg: Array) -> Array:
    """bool [B, G]: every candidate that can have a nonzero weight and advantage; where rounding could decide, it is in.

    The layout of a batch puts these first. One too many costs a backward pass over it; one too few would change the
    loss, which is why the compiled step counts those (`metrics["misplaced_tokens"]`) and refuses them.
    """
    xp: Any = reward_bg.__array_namespace__()
    advantage_bg = advantages(reward_bg, present_bg, loss.advantage) - xp.asarray(_LAYOUT_MARGIN, dtype=xp.float32)
    learns_bg: Array = weights(mask, reward_bg, advantage_bg, present_bg) != 0.0
    if loss.advantage == "group":
        learns_bg = learns_bg & ~tied(reward_bg, present_bg)[:, None]
    return learns_bg
