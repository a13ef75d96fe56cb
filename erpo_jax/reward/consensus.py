"""Probe consensus reward (PCR): how often a candidate's output lies in the largest cluster of equal outputs.

    PCR[i] = (1/K) * #{k : y[i,k] is an output and lies in M[k]}

`M[k]` is the set of outputs of probe k with the highest count: all of them when they tie, none when no candidate gave
an output. Plain Python on keys (`equality.py`), because a step has a few thousand of them. Left out: any use of
expected outputs.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class ProbeSignal:
    """What one probe says about a group. All shares are 0 when nobody is there to share.

    valid: share of the candidates present that gave an output.
    agreement: share of the outputs in the largest cluster.
    clusters: number of different outputs.
    discrimination: share of the pairs of candidates it tells apart (giving no output is one more way to behave).
    ambiguous: the largest cluster holds at most `quorum` of the outputs, or there is none.
    """

    valid: float
    agreement: float
    clusters: int
    discrimination: float
    ambiguous: bool


@dataclass(frozen=True)
class Consensus:
    """The consensus of one group of G candidates on its K probes.

    pcr_g: the reward, or None where a candidate is absent, and for all when there is no probe at all. When
        `ambiguous=drop` leaves no probe, everybody's reward is 0.0: equal, hence without advantage.
    clusters_gk: the cluster of each output: 0 is the largest, then by falling size, equal sizes in the candidates'
        order;
        -1 where there is no output or no candidate.
    agrees_gk: True where the output lies in M[k]; several clusters do when they tie at the top.
    signals_k: per probe, dropped ones too.
    used_k: False for a probe that `ambiguous=drop` has left out.
    """

    pcr_g: tuple[float | None, ...]
    clusters_gk: tuple[tuple[int, ...], ...]
    agrees_gk: tuple[tuple[bool, ...], ...]
    signals_k: tuple[ProbeSignal, ...]
    used_k: tuple[bool, ...]

    @property
    def probes_used(self) -> int:
        """The K that PCR was divided by."""
        return sum(self.used_k)


def consensus(
    keys_gk: Sequence[Sequence[Hashable | None]],
    *,
    present_g: Sequence[bool] | None = None,
    ambiguous: str = "count",
    quorum: float = 0.5,
) -> Consensus:
    """PCR of G candidates on K probes.

    `keys_gk[i][k]` is the key of candidate i's output on probe k, None when it gave *nothing*. `present_g` is False for
    candidates without a verdict: they leave the group before anything is counted. `ambiguous="drop"` leaves out, for
    the whole group, a probe whose largest cluster holds at most `quorum` of its outputs, or that has no output. Warns
    when K is 0. Raises ValueError when the rows of `keys_gk` differ in length or `ambiguous` is another word.
    """
    present = [True] * len(keys_gk) if present_g is None else list(present_g)
    if ambiguous not in ("count", "drop"):
        raise ValueError(f"ambiguous={ambiguous} is neither count nor drop")
    if len(present) != len(keys_gk):
        raise ValueError(f"present_g has {len(present)} entries for {len(keys_gk)} candidates")
    lengths = {len(keys_k) for keys_k in keys_gk}
    if len(lengths) > 1:
        raise ValueError(f"every candidate needs one key per probe, but the rows have {sorted(lengths)} keys")
    probes = lengths.pop() if lengths else 0
    if keys_gk and not probes:
        warnings.warn("a problem without probes gives no reward", stacklevel=2)

    ranks = []  # per probe: key -> cluster number
    tops = []  # per probe: keys in M[k]
    signals = []
    for k in range(probes):
        column = [keys_k[k] for keys_k, here in zip(keys_gk, present, strict=True) if here]
        counts = Counter(key for key in column if key is not None)
        highest = max(counts.values(), default=0)
        ranks.append({key: rank for rank, (key, _) in enumerate(counts.most_common())})
        tops.append({key for key, count in counts.items() if count == highest})
        signals.append(_signal(counts, len(column), quorum))
    used = [ambiguous == "count" or not signal.ambiguous for signal in signals]
    agrees_gk = tuple(
        tuple(here and keys_k[k] is not None and keys_k[k] in tops[k] for k in range(probes))
        for keys_k, here in zip(keys_gk, present, strict=True)
    )
    clusters_gk = tuple(
        tuple(ranks[k].get(keys_k[k], -1) if here and keys_k[k] is not None else -1 for k in range(probes))
        for keys_k, here in zip(keys_gk, present, strict=True)
    )
    pcr_g = tuple(
        None if not here or not probes else _share(agrees_k, used)
        for agrees_k, here in zip(agrees_gk, present, strict=True)
    )
    return Consensus(pcr_g, clusters_gk, agrees_gk, tuple(signals), tuple(used))


def _share(agrees_k: Sequence[bool], used: Sequence[bool]) -> float:
    counted = sum(used)
    return sum(agrees and use for agrees, use in zip(agrees_k, used, strict=True)) / counted if counted else 0.0


def _signal(counts: Counter[Hashable], candidates: int, quorum: float) -> ProbeSignal:
    outputs = counts.total()
    highest = max(counts.values(), default=0)
    pairs = candidates * (candidates - 1)
    alike = sum(size * (size - 1) for size in [*counts.values(), candidates - outputs])
    return ProbeSignal(
        valid=outputs / candidates if candidates else 0.0,
        agreement=highest / outputs if outputs else 0.0,
        clusters=len(counts),
        discrimination=(pairs - alike) / pairs if pairs else 0.0,
        # Exact: 0.6 of 5 outputs is 3 and not a little more.
        ambiguous=highest <= Fraction(str(quorum)) * outputs,
    )
