"""The reward signal of a step in a few numbers, for metrics and reports.

Left out: anything that needs the truth. Calibration against hidden tests belongs to `erpo_jax.evaluate`.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from erpo_jax.reward.consensus import Consensus

HISTOGRAM_EDGES = tuple(edge / 10 for edge in range(11))


def reward_histogram(rewards: Sequence[float]) -> tuple[int, ...]:
    """Counts of rewards in [0, 0.1), [0.1, 0.2), ... [0.9, 1), and exactly 1: eleven numbers."""
    counts = [0] * 11
    for reward in rewards:
        if not 0.0 <= reward <= 1.0:
            raise ValueError(f"a reward lies in [0, 1], not at {reward}")
        # By the edges themselves: 0.3 * 10 and 3 differ for some quotients.
        counts[max(index for index, edge in enumerate(HISTOGRAM_EDGES) if reward >= edge)] += 1
    return tuple(counts)


def reward_summary(rewards_bg: Sequence[Sequence[float | None]]) -> dict[str, float]:
    """Numbers about the rewards of B groups; None is a candidate that has left its group.

    mean, zero, one: over candidates: mean reward, share at 0, share at 1. spread: mean over groups of max - min.
    tied_groups: share of groups whose rewards are all equal, which gives no advantage.
    top_heavy_groups: share of groups in which over half, but not all, tie at the highest reward; there the rank mask
        keeps some positive advantages. empty_groups: number of groups without any reward; they count nowhere else.
    """
    groups = [[reward for reward in rewards_g if reward is not None] for rewards_g in rewards_bg]
    live = [group for group in groups if group]
    rewards = [reward for group in live for reward in group]
    tied = [max(group) == min(group) for group in live]
    top_heavy = [2 * group.count(max(group)) > len(group) and max(group) != min(group) for group in live]
    return {
        "mean": _mean(rewards),
        "zero": _mean([float(reward == 0) for reward in rewards]),
        "one": _mean([float(reward == 1) for reward in rewards]),
        "spread": _mean([max(group) - min(group) for group in live]),
        "tied_groups": _mean([float(flag) for flag in tied]),
        "top_heavy_groups": _mean([float(flag) for flag in top_heavy]),
        "empty_groups": float(len(groups) - len(live)),
    }


def probe_summary(groups: Sequence[Consensus]) -> dict[str, float]:
    """Means over all probes of B groups of what `ProbeSignal` says, and per group the probes used."""
    signals = [signal for group in groups for signal in group.signals_k]
    return {
        "probes_used": _mean([float(group.probes_used) for group in groups]),
        "probe_valid": _mean([signal.valid for signal in signals]),
        "probe_agreement": _mean([signal.agreement for signal in signals]),
        "probe_clusters": _mean([float(signal.clusters) for signal in signals]),
        "probe_discrimination": _mean([signal.discrimination for signal in signals]),
        "probe_ambiguous": _mean([float(signal.ambiguous) for signal in signals]),
    }


def _mean(values: Sequence[float]) -> float:
    return fmean(values) if values else 0.0
