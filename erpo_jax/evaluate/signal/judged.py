"""Groups with their consensus and the truth side by side: what every number of the signal report is computed from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from erpo_jax.config import RewardConfig
from erpo_jax.evaluate.estimates import Values
from erpo_jax.evaluate.probing import Keys
from erpo_jax.reward import Consensus, consensus


@dataclass(frozen=True)
class JudgedGroup:
    """The consensus of a group on its K probes, and whether each of its G programs passes the hidden tests (None: no
    verdict, or nobody looked). `sources_k` says where each probe is from, `step` which step of a run sampled it."""

    problem: str
    consensus: Consensus
    right_g: tuple[bool | None, ...]
    sources_k: tuple[str, ...]
    step: int | None = None

    @property
    def behaviours_g(self) -> tuple[tuple[int, ...] | None, ...]:
        """Equal for programs with equal outputs on all probes; None for one without any output."""
        return tuple(row if max(row, default=-1) >= 0 else None for row in self.consensus.clusters_gk)

    @property
    def labelled(self) -> tuple[tuple[float, bool], ...]:
        """(PCR, right) of every program that has both."""
        pairs = zip(self.consensus.pcr_g, self.right_g, strict=True)
        return tuple((pcr, right) for pcr, right in pairs if pcr is not None and right is not None)


def judged(
    problem: str,
    keys_g: Sequence[Keys | None],
    right_g: Sequence[bool | None],
    sources_k: Sequence[str],
    reward: RewardConfig,
    step: int | None = None,
) -> JudgedGroup:
    """The group with the consensus that training would take; a program without keys has left it."""
    nothing: Keys = (None,) * len(sources_k)
    found = consensus(
        [nothing if keys is None else keys for keys in keys_g],
        present_g=[keys is not None for keys in keys_g],
        ambiguous=reward.ambiguous,
        quorum=reward.quorum,
    )
    return JudgedGroup(problem, found, tuple(right_g), tuple(sources_k), step)


def on_first_probes(group: JudgedGroup, count: int, reward: RewardConfig) -> JudgedGroup:
    """The same group as if it had only its first `count` probes."""
    keys_g = [
        None if pcr is None else tuple(None if cluster < 0 else cluster for cluster in row[:count])
        for pcr, row in zip(group.consensus.pcr_g, group.consensus.clusters_gk, strict=True)
    ]
    return judged(group.problem, keys_g, group.right_g, group.sources_k[:count], reward)


@dataclass(frozen=True)
class Counts:
    """Right and wrong programs by problem and PCR: `right_pv[p, v]` programs of problem p had the reward
    `values_v[v]`."""

    values_v: Values
    right_pv: Values
    wrong_pv: Values

    @classmethod
    def of(cls, groups: Sequence[JudgedGroup]) -> Counts:
        """Over all labelled programs."""
        problems = {name: row for row, name in enumerate(dict.fromkeys(group.problem for group in groups))}
        values = sorted({pcr for group in groups for pcr, _ in group.labelled})
        column = {value: index for index, value in enumerate(values)}
        both = np.zeros((2, len(problems), len(values)))
        for group in groups:
            for pcr, right in group.labelled:
                both[int(right), problems[group.problem], column[pcr]] += 1
        return cls(np.asarray(values), both[1], both[0])
