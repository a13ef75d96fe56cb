"""Group advantages: how far a candidate's reward lies from its group's mean, in the group's standard deviations.

    A[i] = (reward[i] - mean) / (std + 1e-6)        std with ddof = 1, over the candidates of the group that take part

A candidate takes part when it is present and has a reward (a reward of NaN means that its problem gave none, for
instance because no probe was left). Who does not take part enters neither mean nor std nor rank; its advantage is 0.
The functions run on numpy arrays (the host lays batches out with them) and on jax arrays (the compiled step decides).
Left out: the rewards themselves (`erpo_jax.reward`).
"""

from __future__ import annotations

from typing import Any, TypeVar

import jax
import numpy as np

Array = TypeVar("Array", np.ndarray, jax.Array)

EPSILON = 1e-6


def taking_part(reward_bg: Array, present_bg: Array) -> Array:
    """bool [B, G]: present and with a reward."""
    xp: Any = reward_bg.__array_namespace__()
    part_bg: Array = xp.logical_and(present_bg, xp.isfinite(reward_bg))
    return part_bg


def tied(reward_bg: Array, present_bg: Array) -> Array:
    """bool [B]: groups whose rewards say nothing: all equal, or a single candidate, or none."""
    xp: Any = reward_bg.__array_namespace__()
    part_bg = taking_part(reward_bg, present_bg)
    highest_b = xp.max(xp.where(part_bg, reward_bg, -xp.inf), axis=1)
    lowest_b = xp.min(xp.where(part_bg, reward_bg, xp.inf), axis=1)
    tied_b: Array = xp.logical_not(highest_b > lowest_b)
    return tied_b


def group_advantages(reward_bg: Array, present_bg: Array) -> Array:
    """float32 [B, G]: the formula above; exactly 0 in tied groups, where float32 rounding would make it nonzero."""
    xp: Any = reward_bg.__array_namespace__()
    part_bg = taking_part(reward_bg, present_bg)
    count_b = xp.sum(part_bg, axis=1).astype(xp.float32)
    reward_bg = xp.where(part_bg, reward_bg, 0.0).astype(xp.float32)
    mean_b = xp.sum(reward_bg, axis=1) / xp.maximum(count_b, 1.0)
    deviation_bg = xp.where(part_bg, reward_bg - mean_b[:, None], 0.0)
    std_b = xp.sqrt(xp.sum(deviation_bg * deviation_bg, axis=1) / xp.maximum(count_b - 1.0, 1.0))
    advantage_bg: Array = deviation_bg / (std_b + EPSILON)[:, None]
    advantage_bg = xp.where(tied(reward_bg, part_bg)[:, None], 0.0, advantage_bg).astype(xp.float32)
    return advantage_bg


def advantages(reward_bg: Array, present_bg: Array, kind: str) -> Array:
    """float32 [B, G]: `loss.advantage` group (above) or minus_one (-1 for every candidate that takes part: NSR)."""
    xp: Any = reward_bg.__array_namespace__()
    if kind == "group":
        return group_advantages(reward_bg, present_bg)
    advantage_bg: Array = xp.where(taking_part(reward_bg, present_bg), -1.0, 0.0).astype(xp.float32)
    return advantage_bg
