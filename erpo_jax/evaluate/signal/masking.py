"""What each mask would learn from, with the truth at hand: `erpo_jax.update`'s own advantages and weights on real
groups.

A tied group (all rewards equal) teaches nothing and is left out. `kept` programs have a weight above 0. Push is
weight x |advantage|: what a token of a program counts in the policy loss before any clipping. Left out: lengths of
programs, which give long ones more tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from erpo_jax.config import LossConfig, MaskConfig
from erpo_jax.evaluate.estimates import Estimate, Values
from erpo_jax.evaluate.signal.calibration import ratio
from erpo_jax.evaluate.signal.judged import JudgedGroup
from erpo_jax.update import advantages, weights

KINDS = ("rank", "below", "soft", "none")


@dataclass(frozen=True)
class MaskRow:
    """Shares: `kept` of all programs; `kept_wrong` of the kept that are truly wrong; `dropped_right` of the dropped
    that are truly right; `down_on_right` of the push down that hits right programs; `up_on_wrong` of the push up that
    hits wrong ones. None where there is nothing to share."""

    mask: str
    kept: Estimate | None
    kept_wrong: Estimate | None
    dropped_right: Estimate | None
    down_on_right: Estimate | None
    up_on_wrong: Estimate | None


def tied_share(groups: Sequence[JudgedGroup]) -> float:
    """The share of groups whose rewards are all equal."""
    return float(np.mean([len({pcr for pcr in group.consensus.pcr_g if pcr is not None}) < 2 for group in groups]))


def mask_rows(groups: Sequence[JudgedGroup], mask: MaskConfig, loss: LossConfig) -> list[MaskRow]:
    """One row for the configured mask, and one for each other kind that needs no calibration."""
    kinds = [mask.kind, *(kind for kind in KINDS if kind != mask.kind)]
    return [mask_row(groups, replace(mask, kind=kind), loss) for kind in kinds]


def mask_row(groups: Sequence[JudgedGroup], mask: MaskConfig, loss: LossConfig) -> MaskRow:
    problems = {name: place for place, name in enumerate(dict.fromkeys(group.problem for group in groups))}
    sums = np.zeros((5, 2, len(problems)))
    for group in groups:
        if len({pcr for pcr in group.consensus.pcr_g if pcr is not None}) > 1:
            sums[:, :, problems[group.problem]] += _shares(group, mask, loss)
    kept, kept_wrong, dropped_right, down, up = (ratio(part, whole) for part, whole in sums)
    return MaskRow(describe(mask), kept, kept_wrong, dropped_right, down, up)


def _shares(group: JudgedGroup, mask: MaskConfig, loss: LossConfig) -> Values:
    """[what, (part, whole)] of one group."""
    reward_bg = np.asarray([[np.nan if pcr is None else pcr for pcr in group.consensus.pcr_g]], np.float32)
    present_bg = np.isfinite(reward_bg)
    advantage_bg = advantages(reward_bg, present_bg, loss.advantage)
    weight_g = weights(mask, reward_bg, advantage_bg, present_bg)[0].astype(np.float64)
    push_g = weight_g * advantage_bg[0]
    right_g = np.asarray([right is True for right in group.right_g])
    known_g = np.asarray([right is not None for right in group.right_g]) & present_bg[0]
    wrong_g, right_g = known_g & ~right_g, known_g & right_g
    kept_g = weight_g > 0
    down_g, up_g = np.maximum(-push_g, 0.0), np.maximum(push_g, 0.0)
    return np.asarray(
        [
            [(kept_g & known_g).sum(), known_g.sum()],
            [(kept_g & wrong_g).sum(), (kept_g & known_g).sum()],
            [(~kept_g & right_g).sum(), (~kept_g & known_g).sum()],
            [down_g[right_g].sum(), down_g[known_g].sum()],
            [up_g[wrong_g].sum(), up_g[known_g].sum()],
        ],
        np.float64,
    )


def describe(mask: MaskConfig) -> str:
    """A mask's kind with the number that matters to it."""
    number = {"rank": f", {mask.percent} %", "below": f" {mask.threshold:g}"}.get(mask.kind, "")
    return mask.kind + number + (", negative only" if mask.sign == "negative" else "")
