"""The signal over the steps of a run: the policy that the crowd is made of changes, and what its agreement says too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from erpo_jax.config import LossConfig, MaskConfig
from erpo_jax.evaluate.estimates import Estimate
from erpo_jax.evaluate.signal.calibration import Share, auc, right_share
from erpo_jax.evaluate.signal.judged import Counts, JudgedGroup
from erpo_jax.evaluate.signal.masking import mask_row

STRETCHES = 5


@dataclass(frozen=True)
class Stretch:
    """Some steps in a row. `kept_wrong` and `up_on_wrong` are those of the configured mask (see MaskRow)."""

    first: int
    last: int
    right: Share
    auc: Estimate | None
    right_at_half: Share
    kept_wrong: Estimate | None
    up_on_wrong: Estimate | None


def course(groups: Sequence[JudgedGroup], mask: MaskConfig, loss: LossConfig) -> list[Stretch]:
    """The steps in at most STRETCHES parts of the same length; nothing for groups of less than two steps."""
    steps = sorted({group.step for group in groups if group.step is not None})
    if len(steps) < 2:
        return []
    parts = np.array_split(np.asarray(steps), min(STRETCHES, len(steps)))
    return [_stretch([group for group in groups if group.step in part], mask, loss) for part in parts]


def _stretch(groups: Sequence[JudgedGroup], mask: MaskConfig, loss: LossConfig) -> Stretch:
    steps = [group.step for group in groups if group.step is not None]
    counts, learnt = Counts.of(groups), mask_row(groups, mask, loss)
    return Stretch(
        first=min(steps),
        last=max(steps),
        right=right_share(counts, np.ones(counts.values_v.size, bool)),
        auc=auc(counts),
        right_at_half=right_share(counts, counts.values_v <= 0.5),
        kept_wrong=learnt.kept_wrong,
        up_on_wrong=learnt.up_on_wrong,
    )
