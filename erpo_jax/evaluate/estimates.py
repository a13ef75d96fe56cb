"""pass@k without bias, its mean over problems, and how sure that mean is.

For a problem with n programs of which c are right, the chance that k of them drawn without replacement hold a right one
is `pass@k = 1 - C(n-c, k) / C(n, k)`; its expectation over samples is the true pass@k for every k <= n.

Intervals are percentile bootstraps *over problems*: problems are drawn with replacement, whole, so the interval speaks
of the kind of problem the set was drawn from, and holds the noise of the sampled programs too. It knows nothing of what
no problem showed: where all problems agree (all solved, none solved, one problem) it has no width.
Left out: estimates for k > n (refused), and intervals for a fixed problem set (they would be narrower).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from erpo_jax.errors import UserError

RESAMPLES = 4000
CONFIDENCE = 0.95
Values = NDArray[np.float64]
_ROUNDING = 1e-9  # sums of equal differences are off by less: no evidence of a sign


class EvaluationError(UserError):
    """A measurement that cannot be made as asked: one line, with the numbers and what would be possible."""


@dataclass(frozen=True)
class Estimate:
    """A mean over problems with its 95 % bootstrap interval [low, high]."""

    value: float
    low: float
    high: float
    problems: int

    @property
    def positive(self) -> bool:
        """Whether the whole interval lies above 0."""
        return self.low > _ROUNDING

    @property
    def negative(self) -> bool:
        """Whether the whole interval lies below 0."""
        return self.high < -_ROUNDING


def shown(estimate: Estimate, sign: bool = False) -> str:
    """`0.418 [0.352, 0.481]`; with `sign` the value carries its sign."""
    form = "+.3f" if sign else ".3f"
    return f"{estimate.value:{form}} [{estimate.low:{form}}, {estimate.high:{form}}]"


def pass_at_k(n: int, c: int, k: int) -> float:
    """`1 - C(n-c, k) / C(n, k)` of n programs with c right ones, exact to the last bit.

    Raises EvaluationError unless 0 <= c <= n and 1 <= k <= n.
    """
    if not 0 <= c <= n:
        raise EvaluationError(f"{c} right programs of {n}: the count of right ones must lie between 0 and {n}")
    if not 1 <= k <= n:
        raise EvaluationError(f"pass@{k} needs 1 <= k <= n programs a problem, and there are n = {n}")
    return (math.comb(n, k) - math.comb(n - c, k)) / math.comb(n, k)


def reportable(ks: Sequence[int], n: int) -> list[int]:
    """The k of `ks` to report for n programs a problem, ascending: only 1 when n = 1 (a single sample shows nothing
    else).

    Raises EvaluationError for a k above n when n > 1.
    """
    if n < 1:
        raise EvaluationError("no programs: pass@k needs at least one program a problem")
    if n == 1:
        return [1]
    for k in ks:
        if not 1 <= k <= n:
            raise EvaluationError(f"pass@{k} needs 1 <= k <= n programs a problem, and there are n = {n}")
    return sorted(set(ks))


def by_problem(counts: Sequence[tuple[int, int]], k: int) -> Values:
    """pass@k of each (n, c), shape [problems]. Raises EvaluationError where n < k."""
    return np.asarray([pass_at_k(n, c, k) for n, c in counts], np.float64)


def mean_pass_at_k(counts: Sequence[tuple[int, int]], k: int) -> Estimate:
    """The mean of pass@k over the problems' (n, c), with its interval. Raises EvaluationError where n < k or counts is
    empty."""
    return mean_over_problems(by_problem(counts, k))


def mean_over_problems(values: Values) -> Estimate:
    """Mean and 95 % bootstrap interval of one value a problem, shape [problems] (a paired difference too)."""
    return mean_over_sets([values])


def mean_over_sets(sets: Sequence[Values]) -> Estimate:
    """The mean over sets of their means over problems, each set counting alike; one [problems] array a set.

    Problems are drawn within each set: the interval holds for these sets.
    """
    if not sets or not all(values.size for values in sets):
        raise EvaluationError("no problems to average over")
    drawn = [_resample_counts(values.size, place) @ values / values.size for place, values in enumerate(sets)]
    value = float(np.mean([values.mean() for values in sets]))
    return Estimate(value, *_interval(np.mean(drawn, axis=0)), sum(values.size for values in sets))


def over_problems(statistic: Callable[[Values], Values], problems: int) -> Estimate:
    """A statistic of the problem set with its 95 % bootstrap interval.

    `statistic` maps [draws, problems], how often each problem is in each draw, to one value a draw, shape [draws]. A
    draw in which it is not defined (nan) is left out of the interval. Raises EvaluationError when it is nan on the set
    itself.
    """
    value = float(statistic(np.ones((1, problems)))[0])
    if np.isnan(value):
        raise EvaluationError("nothing to average over")
    return Estimate(value, *_interval(statistic(_resample_counts(problems))), problems)


def _interval(draws: Values) -> tuple[float, float]:
    tail = (1 - CONFIDENCE) / 2
    low, high = np.nanquantile(draws, [tail, 1 - tail])
    return float(low), float(high)


@lru_cache(maxsize=8)
def _resample_counts(problems: int, place: int = 0) -> Values:
    """[RESAMPLES, problems]: how often each problem is in each bootstrap draw. Seeded by the place of the set: the same
    data, the same interval, and sets of one size are drawn independently."""
    draws = np.random.default_rng(place).multinomial(problems, np.full(problems, 1 / problems), size=RESAMPLES)
    return draws.astype(np.float64)
