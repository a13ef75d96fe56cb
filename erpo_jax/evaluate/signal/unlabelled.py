"""What the same outputs say when nobody knows which programs are right.

Behaviour is a program's outputs on all probes. Two bounds on pass@1 rest on one assumption: right programs of a problem
behave alike (one valid output a probe, as deterministic problems have).

    crowd   mean over groups of (programs of the most frequent behaviour) / G: right programs are at most one behaviour
    pairs   mean over groups of sqrt(share of pairs that behave alike): with r right of G, at least r(r-1)/(G(G-1)) do

Both lie above the truth by as much as wrong programs agree. `halves` is the correlation of two PCRs, each from half of
the probes, over programs of groups that both tell apart, stepped up to all probes (Spearman-Brown): how well PCR would
agree with itself on other probes. It bounds nothing about the truth: a crowd can be wrong reliably.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean

import numpy as np

from erpo_jax.config import RewardConfig
from erpo_jax.evaluate.estimates import Estimate, mean_over_problems
from erpo_jax.evaluate.signal.judged import JudgedGroup, judged


@dataclass(frozen=True)
class Unlabelled:
    """The numbers above; `alone`: share of programs that behave like no other of their group; `silent`: that give no
    output at all. `pairs` and `halves` are None where no group has two programs, or two probes."""

    crowd: Estimate
    pairs: Estimate | None
    halves: float | None
    alone: float
    silent: float


def unlabelled(groups: Sequence[JudgedGroup], reward: RewardConfig) -> Unlabelled:
    """Of all groups; programs that left their group do not count."""
    crowd: dict[str, list[float]] = {}
    pairs: dict[str, list[float]] = {}
    alone = silent = total = 0
    for group in groups:
        there = [row for row, pcr in zip(group.behaviours_g, group.consensus.pcr_g, strict=True) if pcr is not None]
        if not there:
            continue
        sizes = Counter(row for row in there if row is not None)
        n = len(there)
        crowd.setdefault(group.problem, []).append(max(sizes.values(), default=0) / n)
        if n > 1:
            alike = sum(size * (size - 1) for size in sizes.values()) / (n * (n - 1))
            pairs.setdefault(group.problem, []).append(sqrt(alike))
        alone += sum(size == 1 for size in sizes.values())
        silent += n - sizes.total()
        total += n
    return Unlabelled(
        crowd=_mean(crowd),
        pairs=_mean(pairs) if pairs else None,
        halves=_halves(groups, reward),
        alone=alone / total,
        silent=silent / total,
    )


def _mean(by_problem: dict[str, list[float]]) -> Estimate:
    return mean_over_problems(np.asarray([fmean(values) for values in by_problem.values()]))


def _halves(groups: Sequence[JudgedGroup], reward: RewardConfig) -> float | None:
    """Deviations from the group's mean are compared, as training does."""
    deviations: list[list[float]] = [[], []]
    for group in groups:
        if len(group.sources_k) < 2:
            continue
        halves = [_pcr(group, start, reward) for start in (0, 1)]
        if all(len(set(values)) > 1 for values in halves):
            for collected, values in zip(deviations, halves, strict=True):
                collected += [value - fmean(values) for value in values]
    if not deviations[0]:
        return None
    half = float(np.corrcoef(np.asarray(deviations))[0, 1])
    return 2 * half / (1 + half)


def _pcr(group: JudgedGroup, start: int, reward: RewardConfig) -> list[float]:
    """PCR on every second probe, of the programs that are present."""
    keys_g = [
        tuple(None if cluster < 0 else cluster for cluster in row[start::2])
        for row, pcr in zip(group.consensus.clusters_gk, group.consensus.pcr_g, strict=True)
        if pcr is not None
    ]
    found = judged(group.problem, keys_g, [None] * len(keys_g), group.sources_k[start::2], reward)
    return [value for value in found.consensus.pcr_g if value is not None]
