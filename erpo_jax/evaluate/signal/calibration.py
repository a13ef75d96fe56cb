"""How the reward orders right and wrong programs, and what share is right at each of its values.

AUC is the chance that a right program's PCR is above a wrong one's, ties counted half; `within`: for pairs of one
group, which is all that training compares, averaged over groups that have both kinds. Intervals are bootstraps over
problems, so programs of one problem do not count as independent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from erpo_jax.config import RewardConfig
from erpo_jax.evaluate.estimates import Estimate, Values, over_problems
from erpo_jax.evaluate.signal.judged import Counts, JudgedGroup, on_first_probes

STEPS = 10
"""The reliability curve has a point at every multiple of 1 / STEPS."""


@dataclass(frozen=True)
class Share:
    """A share of `programs` programs; None when there is none."""

    programs: int
    share: Estimate | None


@dataclass(frozen=True)
class Calibration:
    """`right` is pass@1 of the programs. `reliability[j]`: the right ones among those whose PCR is nearest to j/10.
    `auc_by_probes[k-1]`: AUC when only the first k probes count. `wrong_by_step[j]`: how surely a program is wrong at
    PCR j/10, never rising, as `mask.calibration` takes it."""

    right: Share
    auc: Estimate | None
    auc_within: Estimate | None
    wrong_at_one: Share
    right_at_half: Share
    reliability: tuple[Share, ...]
    wrong_by_step: tuple[float, ...]
    auc_by_probes: tuple[Estimate | None, ...]


def calibration(groups: Sequence[JudgedGroup], reward: RewardConfig) -> Calibration:
    """Of groups that have at least one labelled program."""
    counts = Counts.of(groups)
    everywhere = np.ones(counts.values_v.size, bool)
    nearest_v = np.rint(counts.values_v * STEPS)
    reliability = tuple(right_share(counts, nearest_v == step) for step in range(STEPS + 1))
    probes = max(len(group.sources_k) for group in groups)
    shorter = [[on_first_probes(group, k, reward) for group in groups] for k in range(1, probes)]
    whole = auc(counts)
    return Calibration(
        right=right_share(counts, everywhere),
        auc=whole,
        auc_within=_auc_within(groups),
        wrong_at_one=right_share(Counts(counts.values_v, counts.wrong_pv, counts.right_pv), counts.values_v == 1.0),
        right_at_half=right_share(counts, counts.values_v <= 0.5),
        reliability=reliability,
        wrong_by_step=_falling([1 - one.share.value if one.share else None for one in reliability], reliability),
        auc_by_probes=(*(auc(Counts.of(some)) for some in shorter), whole),
    )


def ratio(part_p: Values, whole_p: Values) -> Estimate | None:
    """Sum of parts over sum of wholes, both by problem; None when the whole is nothing."""
    if not whole_p.sum():
        return None
    with np.errstate(invalid="ignore"):
        return over_problems(lambda draws: (draws @ part_p) / (draws @ whole_p), whole_p.size)


def area(right_v: Values, wrong_v: Values) -> Values:
    """AUC from counts at ascending values (last axis); nan without both kinds."""
    below_v = np.cumsum(wrong_v, axis=-1) - wrong_v
    with np.errstate(invalid="ignore"):
        pairs = right_v.sum(-1) * wrong_v.sum(-1)
        found: Values = (right_v * (below_v + 0.5 * wrong_v)).sum(-1) / pairs
    return found


def right_share(counts: Counts, chosen_v: np.ndarray) -> Share:
    right_p = counts.right_pv[:, chosen_v].sum(1)
    whole_p = right_p + counts.wrong_pv[:, chosen_v].sum(1)
    return Share(int(whole_p.sum()), ratio(right_p, whole_p))


def auc(counts: Counts) -> Estimate | None:
    if not counts.right_pv.sum() or not counts.wrong_pv.sum():
        return None
    return over_problems(lambda draws: area(draws @ counts.right_pv, draws @ counts.wrong_pv), len(counts.right_pv))


def _auc_within(groups: Sequence[JudgedGroup]) -> Estimate | None:
    problems = {name: row for row, name in enumerate(dict.fromkeys(group.problem for group in groups))}
    sums = np.zeros((2, len(problems)))
    for group in groups:
        counts = Counts.of([group])
        found = float(area(counts.right_pv, counts.wrong_pv)[0])
        if not np.isnan(found):
            sums[:, problems[group.problem]] += (found, 1.0)
    return ratio(sums[0], sums[1])


def _falling(wrong: Sequence[float | None], shares: Sequence[Share]) -> tuple[float, ...]:
    """The nearest sequence that never rises (least squares, weighted by programs); gaps take the value before them."""
    blocks: list[tuple[float, int, int]] = []  # value, programs, steps
    for value, share in zip(wrong, shares, strict=True):
        if value is None:
            if blocks:
                blocks[-1] = (blocks[-1][0], blocks[-1][1], blocks[-1][2] + 1)
            else:
                blocks.append((1.0, 0, 1))
            continue
        blocks.append((value, share.programs, 1))
        while len(blocks) > 1 and blocks[-2][0] < blocks[-1][0]:
            (one, n, steps), (other, m, more) = blocks[-2:]
            blocks[-2:] = [((one * n + other * m) / (n + m), n + m, steps + more)]
    return tuple(value for value, _, steps in blocks for _ in range(steps))
