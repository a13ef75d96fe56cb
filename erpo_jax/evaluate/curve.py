"""Is the adapted policy better than the base at *some* temperature? The standing control of every result.

A base policy trades pass@1 against pass@k by its temperature alone, so a gain at one temperature proves nothing. The
base's curve is the chain of straight lines between neighbouring temperatures in the plane (pass@1, pass@k): each point
of it is reached exactly by a base that draws one of the two temperatures for each problem. The adapted policy is

- `above` the curve when, against *every* point of it, pass@1 or pass@k is higher, the 95 % interval of the paired
  difference by problem lying wholly above 0;
- `below` it when some point of it is better in one (interval wholly below 0) and no worse in the other;
- `on` it otherwise: the data do not tell the two apart.

No temperature is chosen with a look at the result, so nothing is gained by measuring more of them; a test for every
point makes `above` cautious. Where only pass@1 can be had (one sample a problem), pass@1 alone decides.
Left out: corrections for many adapted policies compared at once, and curves beyond the temperatures measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from erpo_jax.evaluate.estimates import Estimate, EvaluationError, by_problem, mean_over_problems
from erpo_jax.evaluate.measurement import Evaluation, Point

STEPS = 10
"""Points on the line between two neighbouring temperatures."""

Standing = Literal["above", "on", "below"]
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Against:
    """Adapted minus base, paired by problem, at a point of the base's curve: `weight` of `other`, the rest of
    `temperature`."""

    temperature: float
    other: float
    weight: float
    low_k: Estimate
    high_k: Estimate

    @property
    def name(self) -> str:
        """The point of the curve in words."""
        if self.weight == 0:
            return f"temperature {self.temperature:g}"
        return f"{1 - self.weight:.0%} temperature {self.temperature:g}, {self.weight:.0%} temperature {self.other:g}"


@dataclass(frozen=True)
class Comparison:
    """An adapted policy's point against the base's curve on the same problems.

    `against` has one entry a base temperature; `closest` is the point of the curve that the adapted policy is least
    clear of. Problems by whether any program of theirs was right: `gained` by the adapted policy and not by the base at
    its best temperature for pass@1 (`best`), `lost` the other way round, `beyond`: gained, and not solved by the base
    at any temperature.
    """

    temperature: float
    low: int
    high: int
    problems: int
    left_out: tuple[str, ...]
    standing: Standing
    against: tuple[Against, ...]
    closest: Against
    best: float
    gained: tuple[str, ...]
    lost: tuple[str, ...]
    beyond: tuple[str, ...]


def compare(base: Evaluation, adapted: Evaluation, point: Point | None = None, group: str = "all") -> Comparison:
    """Compare one point of `adapted` (its only one by default) with the base's curve, on the problems of `group`.

    Raises EvaluationError when the two were measured on other problems or tests or by another grader, or share no
    problem with enough programs.
    """
    _refuse_unlike(base, adapted)
    if point is None:
        if len(adapted.points) != 1:
            raise EvaluationError(
                f"the adapted policy was measured at {len(adapted.points)} temperatures; say which to compare"
            )
        point = adapted.points[0]
    low, high = 1, min(max(base.shown_ks), max(adapted.shown_ks))
    curve = sorted(base.points, key=lambda one: one.temperature)
    columns = [base.group(one, group) for one in curve] + [adapted.group(point, group)]
    names = sorted(set.intersection(*map(set, columns)))
    if not names:
        raise EvaluationError("base and adapted policy share no problem with enough graded programs")
    values = [[by_problem([column[name] for name in names], k) for k in (low, high)] for column in columns]
    ours = values.pop()
    edges = [_between(curve, values, ours, index) for index in range(len(curve))]
    everywhere = [one for edge in edges for one in edge]
    nodes = tuple(edge[0] for edge in edges)
    best = max(range(len(curve)), key=lambda index: float(values[index][0].mean()))
    solved = {name for name in names if columns[-1][name][1]}
    solved_best = {name for name in names if columns[best][name][1]}
    solved_any = {name for name in names if any(column[name][1] for column in columns[:-1])}
    return Comparison(
        temperature=point.temperature,
        low=low,
        high=high,
        problems=len(names),
        left_out=tuple(sorted(set.union(*map(set, columns)) - set(names))),
        standing=_standing(everywhere),
        against=nodes,
        closest=min(everywhere, key=_clearance),
        best=curve[best].temperature,
        gained=tuple(sorted(solved - solved_best)),
        lost=tuple(sorted(solved_best - solved)),
        beyond=tuple(sorted(solved - solved_any)),
    )


def _between(curve: list[Point], values: list[list[Values]], ours: list[Values], index: int) -> list[Against]:
    """The points from temperature `index` up to, not including, the next one."""
    after = min(index + 1, len(curve) - 1)
    found = []
    for step in range(STEPS if after > index else 1):
        weight = step / STEPS
        gaps = [
            mine - ((1 - weight) * here + weight * there)
            for mine, here, there in zip(ours, values[index], values[after], strict=True)
        ]
        low, high = map(mean_over_problems, gaps)
        found.append(Against(curve[index].temperature, curve[after].temperature, weight, low, high))
    return found


def _standing(everywhere: list[Against]) -> Standing:
    if all(one.low_k.positive or one.high_k.positive for one in everywhere):
        return "above"
    worse = any(
        (one.low_k.negative and one.high_k.value <= 0) or (one.high_k.negative and one.low_k.value <= 0)
        for one in everywhere
    )
    return "below" if worse else "on"


def _clearance(one: Against) -> float:
    """How clear of this point of the curve the adapted policy is: the better of the two lower bounds."""
    return max(one.low_k.low, one.high_k.low)


def _refuse_unlike(base: Evaluation, adapted: Evaluation) -> None:
    for name, what in (
        ("problem_hash", "problems"),
        ("hidden_hash", "hidden tests"),
        ("grader_version", "grader version"),
    ):
        one, other = base.provenance.get(name), adapted.provenance.get(name)
        if one != other:
            raise EvaluationError(
                f"the two evaluations differ in their {what} ({one} and {other}): measure both on the same"
            )
    if not base.points or not adapted.points:
        raise EvaluationError("an evaluation without a temperature cannot be compared")
