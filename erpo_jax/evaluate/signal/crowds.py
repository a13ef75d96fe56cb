"""Where the crowd is wrong: problem by problem, and probe by probe.

The crowd of a group are its programs with the group's highest PCR. Its consensus is spurious when most of it is wrong:
`outvoted` when the group holds a right program all the same, `hopeless` when it holds none. Training pushes the rest
away from the crowd, so an outvoted group teaches the wrong thing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from statistics import fmean
from typing import Literal

import numpy as np

from erpo_jax.evaluate.estimates import Estimate
from erpo_jax.evaluate.signal.calibration import ratio
from erpo_jax.evaluate.signal.judged import JudgedGroup

Standing = Literal["right", "outvoted", "hopeless", "silent"]
STANDINGS: tuple[Standing, ...] = ("right", "outvoted", "hopeless", "silent")


@dataclass(frozen=True)
class Crowd:
    """One group's crowd. `pcr` is its reward, `agreement` the mean share of outputs in the largest cluster."""

    problem: str
    programs: int
    right: int
    crowd: int
    crowd_right: int
    pcr: float
    agreement: float
    standing: Standing


@dataclass(frozen=True)
class ProbeRow:
    """What one probe tells. `discrimination`: share of the pairs of programs it tells apart. `separates`: the same over
    pairs of a right and a wrong program. `gain`: how much more often right programs than wrong ones lie in its largest
    cluster; below 0 it misleads. The last two are None in a group without both kinds."""

    problem: str
    probe: int
    source: str
    agreement: float
    discrimination: float
    separates: float | None
    gain: float | None


@dataclass(frozen=True)
class ProbeSummary:
    """The probes of one source: how many, and of those the share that tells no two programs of the group apart
    (`blind`), and, where there are right and wrong programs, means of separates and gain and the share that misleads.
    """

    source: str
    probes: int
    discrimination: float
    blind: float
    separates: float | None
    gain: float | None
    misleading: float | None


def crowds(groups: Sequence[JudgedGroup]) -> list[Crowd]:
    """One row a group with labelled programs; the most wrong crowds first."""
    rows = [_crowd(group) for group in groups if group.labelled]
    order = {standing: place for place, standing in enumerate(("outvoted", "hopeless", "silent", "right"))}
    return sorted(rows, key=lambda row: (order[row.standing], -row.crowd / row.programs, row.problem))


def _crowd(group: JudgedGroup) -> Crowd:
    pairs = group.labelled
    highest = max(pcr for pcr, _ in pairs)
    inside = [right for pcr, right in pairs if pcr == highest]
    right = sum(right for _, right in pairs)
    if not highest:
        standing: Standing = "silent"
    elif 2 * sum(inside) >= len(inside):
        standing = "right"
    else:
        standing = "outvoted" if right else "hopeless"
    agreement = fmean(signal.agreement for signal in group.consensus.signals_k)
    return Crowd(group.problem, len(pairs), right, len(inside), sum(inside), highest, agreement, standing)


def standings(rows: Sequence[Crowd]) -> dict[Standing, Estimate]:
    """The share of groups of each standing."""
    problems = {name: place for place, name in enumerate(dict.fromkeys(row.problem for row in rows))}
    found: dict[Standing, Estimate] = {}
    for standing in STANDINGS:
        counts = np.zeros((2, len(problems)))
        for row in rows:
            counts[:, problems[row.problem]] += (row.standing == standing, 1.0)
        share = ratio(counts[0], counts[1])
        assert share is not None  # there is a group
        found[standing] = share
    return found


def probe_rows(groups: Sequence[JudgedGroup]) -> list[ProbeRow]:
    """One row a group and probe."""
    return [_probe_row(group, probe) for group in groups for probe in range(len(group.sources_k))]


def _probe_row(group: JudgedGroup, probe: int) -> ProbeRow:
    found = group.consensus
    there = [place for place, pcr in enumerate(found.pcr_g) if pcr is not None]
    right = [place for place in there if group.right_g[place] is True]
    wrong = [place for place in there if group.right_g[place] is False]
    separates = gain = None
    if right and wrong:
        apart = [found.clusters_gk[i][probe] != found.clusters_gk[j][probe] for i, j in product(right, wrong)]
        separates = fmean(apart)
        gain = fmean(found.agrees_gk[i][probe] for i in right) - fmean(found.agrees_gk[j][probe] for j in wrong)
    signal = found.signals_k[probe]
    return ProbeRow(
        group.problem, probe, group.sources_k[probe], signal.agreement, signal.discrimination, separates, gain
    )


def probe_summaries(rows: Sequence[ProbeRow]) -> list[ProbeSummary]:
    """One row a source of probes."""
    return [
        _summary(source, [row for row in rows if row.source == source]) for source in sorted({r.source for r in rows})
    ]


def _summary(source: str, rows: Sequence[ProbeRow]) -> ProbeSummary:
    separates = [row.separates for row in rows if row.separates is not None]
    gains = [row.gain for row in rows if row.gain is not None]
    return ProbeSummary(
        source=source,
        probes=len(rows),
        discrimination=fmean(row.discrimination for row in rows),
        blind=fmean(row.discrimination == 0 for row in rows),
        separates=fmean(separates) if separates else None,
        gain=fmean(gains) if gains else None,
        misleading=fmean(gain < 0 for gain in gains) if gains else None,
    )
