"""Training-free selectors: which one of n programs of a problem to hand in, without knowing which are right.

A selector gives every program of a drawn subset a score; it hands in one of those with the highest, any of them with
equal chance. D draws of M programs each are scored at once.

    majority   programs of the subset that behave the same (equal outputs on all probes; no output: 0). MBR-exec, hard
    mbr        agreement with the others: equal outputs, summed over programs and probes. MBR-exec, soft
    pcr        the probe consensus reward within the subset
    codet      sqrt(programs that pass the same tests) x tests they pass, as CodeT's own program computes it
    codet_product   programs x tests, as CodeT's paper writes it (Chen et al., arXiv 2207.10397)
    reward_model    what a reward model says

CodeT's tests are written by a model and may be wrong; that programs and tests agree is the evidence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float64]
Draws = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Ballot:
    """The n programs of one problem. Each but `right_n` may be None: nobody looked.

    `clusters_nk[i, k]` is equal for programs with equal outputs on probe k, and -1 without an output. `passes_nt[i, t]`
    says whether program i passes written test t. `rewards_n` are a reward model's scores.
    """

    problem: str
    right_n: NDArray[np.bool_]
    clusters_nk: NDArray[np.intp] | None = None
    passes_nt: NDArray[np.bool_] | None = None
    rewards_n: Scores | None = None

    @cached_property
    def equal_nnk(self) -> Scores:
        """1 where two programs gave an output on a probe, and the same."""
        assert self.clusters_nk is not None
        equal_nnk = (self.clusters_nk[:, None] == self.clusters_nk[None]) & (self.clusters_nk >= 0)[None]
        return np.asarray(equal_nnk, np.float64)

    @cached_property
    def same_nn(self) -> Scores:
        """1 where two programs did the same on every probe, and gave some output."""
        assert self.clusters_nk is not None
        return _alike(self.clusters_nk) * (self.clusters_nk >= 0).any(1)

    @cached_property
    def same_tests_nn(self) -> Scores:
        """1 where two programs pass the same written tests."""
        assert self.passes_nt is not None
        return _alike(self.passes_nt)

    @cached_property
    def tests_n(self) -> NDArray[np.intp]:
        """How many written tests a program passes."""
        assert self.passes_nt is not None
        return np.asarray(self.passes_nt.sum(1))


def _alike(rows_nt: NDArray[np.bool_] | NDArray[np.intp]) -> Scores:
    return np.asarray((rows_nt[:, None] == rows_nt[None]).all(2), np.float64)


def _summed(pairs_nn: Scores, draws_dm: Draws) -> Scores:
    """For each drawn program the sum over its draw's programs, itself among them."""
    taken_dn = np.zeros((len(draws_dm), len(pairs_nn)))
    np.put_along_axis(taken_dn, draws_dm, 1.0, axis=1)
    return np.take_along_axis(taken_dn @ pairs_nn, draws_dm, axis=1)


def majority(ballot: Ballot, draws_dm: Draws) -> Scores:
    return _summed(ballot.same_nn, draws_dm)


def mbr(ballot: Ballot, draws_dm: Draws) -> Scores:
    return _summed(ballot.equal_nnk.sum(2), draws_dm)


def pcr(ballot: Ballot, draws_dm: Draws) -> Scores:
    total_dm = np.zeros(draws_dm.shape)
    for k in range(ballot.equal_nnk.shape[2]):
        size_dm = _summed(ballot.equal_nnk[:, :, k], draws_dm)
        total_dm += (size_dm == size_dm.max(1, keepdims=True)) & (size_dm > 0)
    return total_dm


def codet(ballot: Ballot, draws_dm: Draws) -> Scores:
    score_dm: Scores = np.sqrt(_summed(ballot.same_tests_nn, draws_dm)) * ballot.tests_n[draws_dm]
    return score_dm


def codet_product(ballot: Ballot, draws_dm: Draws) -> Scores:
    score_dm: Scores = _summed(ballot.same_tests_nn, draws_dm) * ballot.tests_n[draws_dm]
    return score_dm


def reward_model(ballot: Ballot, draws_dm: Draws) -> Scores:
    assert ballot.rewards_n is not None
    return ballot.rewards_n[draws_dm]


SELECTORS: dict[str, Callable[[Ballot, Draws], Scores]] = {
    "codet": codet,
    "codet_product": codet_product,
    "majority": majority,
    "mbr": mbr,
    "pcr": pcr,
    "reward_model": reward_model,
}


def applicable(ballot: Ballot) -> list[str]:
    """The selectors for which the ballot has what they need."""
    found = ["codet", "codet_product"] if ballot.passes_nt is not None else []
    found += ["majority", "mbr", "pcr"] if ballot.clusters_nk is not None else []
    return [*found, "reward_model"] if ballot.rewards_n is not None else found


def accuracy(ballot: Ballot, name: str, draws_dm: Draws) -> float:
    """The chance that the handed-in program is right, over the draws and over ties."""
    scores_dm = SELECTORS[name](ballot, draws_dm)
    best_dm = scores_dm == scores_dm.max(1, keepdims=True)
    return float(((best_dm & ballot.right_n[draws_dm]).sum(1) / best_dm.sum(1)).mean())
