"""Accuracy of each selector against the number of samples, on the same programs.

For each size M and problem, seeded subsets of M programs are drawn without replacement (one, where M is all of them).
`random` is pass@1, exactly, and `oracle` is pass@M, exactly: what perfect choice would reach. Intervals are bootstraps
over problems. Left out: subsets of the tests or probes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mode

import numpy as np

from erpo_jax.evaluate.estimates import Estimate, EvaluationError, mean_over_problems, pass_at_k
from erpo_jax.evaluate.selection.selectors import Ballot, Draws, accuracy, applicable

DRAWS = 100


@dataclass(frozen=True)
class Curve:
    """One selector: its accuracy at each size."""

    selector: str
    accuracy: tuple[Estimate, ...]


@dataclass(frozen=True)
class Selection:
    """All selectors on the same programs of the same problems. `left_out`: problems with too few programs."""

    problems: int
    left_out: tuple[str, ...]
    sizes: tuple[int, ...]
    draws: int
    curves: tuple[Curve, ...]


def sizes_up_to(samples: int) -> list[int]:
    """1, 2, 4, ... and `samples` itself."""
    return [*(2**power for power in range(samples.bit_length()) if 2**power < samples), samples]


def measure_selectors(
    ballots: Sequence[Ballot], sizes: Sequence[int] = (), *, draws: int = DRAWS, seed: int = 0
) -> Selection:
    """Every selector that all ballots allow, at each size; by default the powers of two, up to the number of programs
    that most problems have.

    Raises EvaluationError for a size below 1, or when no problem has as many programs as the largest.
    """
    counts = [len(ballot.right_n) for ballot in ballots]
    chosen = sorted(set(sizes)) or sizes_up_to(mode(counts) if counts else 1)
    used = [ballot for ballot, count in zip(ballots, counts, strict=True) if count >= chosen[-1]]
    if not used or chosen[0] < 1:
        raise EvaluationError(
            f"cannot choose among {chosen[0]} to {chosen[-1]} programs: "
            f"{len(counts)} problem(s), with at most {max(counts, default=0)} programs"
        )
    left_out = tuple(ballot.problem for ballot in ballots if ballot not in used)
    ballots = used
    names = [name for name in applicable(ballots[0]) if all(name in applicable(ballot) for ballot in ballots)]
    values = np.zeros((2 + len(names), len(chosen), len(ballots)))
    for column, ballot in enumerate(ballots):
        n, right = len(ballot.right_n), int(ballot.right_n.sum())
        for row, size in enumerate(chosen):
            drawn = _draws(ballot, size, draws, seed)
            values[0, row, column] = pass_at_k(n, right, 1)
            values[1, row, column] = pass_at_k(n, right, size)
            for place, name in enumerate(names, 2):
                values[place, row, column] = accuracy(ballot, name, drawn)
    curves = tuple(
        Curve(name, tuple(map(mean_over_problems, rows)))
        for name, rows in zip(["random", "oracle", *names], values, strict=True)
    )
    return Selection(len(ballots), left_out, tuple(chosen), draws, curves)


def _draws(ballot: Ballot, size: int, draws: int, seed: int) -> Draws:
    """[draws, size], each row without replacement; the same for every selector."""
    n = len(ballot.right_n)
    if size == n:
        return np.arange(n)[None]
    digest = hashlib.sha256(f"{seed}/{ballot.problem}/{size}".encode()).digest()
    generator = np.random.default_rng(int.from_bytes(digest[:8], "big"))
    return np.argsort(generator.random((draws, n)), axis=1)[:, :size]
