"""What a transfer matrix says: every cell beside the base's curve, and each policy's mean over the sets that it was not
adapted on.

A cell holds pass@1 and pass@k, their differences from the base at the same temperature (paired by problem, 95 %
intervals over problems), and where it stands to the base's temperature curve (`curve.py`). A set of which a policy was
adapted on a part has three cells: all, that part, and the rest. Left out: corrections for the number of policies
compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from erpo_jax.evaluate.curve import Comparison, compare
from erpo_jax.evaluate.estimates import Estimate, by_problem, mean_over_sets, shown
from erpo_jax.evaluate.measurement import Evaluation

SIGNS = {"above": "^", "on": "=", "below": "v"}
LEGEND = (
    "^ above the base's temperature curve, = not to be told apart from it, v below it; "
    "* adapted on this set, ? on what is not known"
)

Estimates = Mapping[int, Estimate]
"""By k."""


@dataclass(frozen=True)
class Cell:
    """One policy on one set, or on the part of it that it was (not) adapted on (`group`)."""

    policy: str
    group: str
    adapted_on: int | None
    values: Estimates
    gains: Estimates
    comparison: Comparison

    @property
    def mark(self) -> str:
        """The standing as a sign, and what the set is to the policy: see LEGEND."""
        return SIGNS[self.comparison.standing] + ("?" if self.adapted_on is None else "*" if self.adapted_on else "")

    @property
    def who(self) -> str:
        """The policy, and which problems where that is not all of the set."""
        part = {"adapted": "the part adapted on", "held out": "the rest"}.get(self.group)
        return f"{self.policy}, {part} ({self.comparison.problems})" if part else self.policy


@dataclass(frozen=True)
class Column:
    """One set: the base's estimates by temperature, and the cells of the other policies."""

    name: str
    problems: int
    base: Mapping[float, Estimates]
    cells: tuple[Cell, ...]

    def whole(self, policy: str) -> Cell:
        """The policy's cell of the whole set."""
        return next(cell for cell in self.cells if cell.policy == policy and cell.group == "all")


@dataclass(frozen=True)
class Mean:
    """A policy over the sets that it was not adapted on, where there are several; each counts alike."""

    policy: str
    sets: tuple[str, ...]
    values: Estimates
    gains: Estimates


@dataclass(frozen=True)
class Table:
    """The matrix. `ks` are 1 and the largest k that may be reported; `temperature` is that of the policies."""

    ks: tuple[int, ...]
    temperature: float
    samples: int
    policies: tuple[str, ...]
    columns: tuple[Column, ...]
    means: tuple[Mean, ...]


@dataclass(frozen=True)
class _Pair:
    """pass@k by problem of a policy and of the base, on the same problems at the same temperature."""

    ours: NDArray[np.float64]
    base: NDArray[np.float64]


def table(
    base: Mapping[str, Evaluation],
    adapted: Mapping[str, Mapping[str, Evaluation]],
    temperature: float,
    unknown: Sequence[str] = (),
) -> Table:
    """`base` by set; `adapted` by policy and set, each at `temperature`. `unknown`: policies of which it is not known
    what they were adapted on. Raises EvaluationError as `compare` does."""
    first = next(iter(base.values()))
    ks = tuple(sorted({1, max(first.shown_ks)}))
    columns, means = [], []
    for name, control in base.items():
        cells = [
            _cell(policy, group, control, row[name], temperature, ks, policy not in unknown)
            for policy, row in adapted.items()
            for group in row[name].groups()
        ]
        curve = {}
        for point in control.points:
            estimates = control.estimates(point)
            curve[point.temperature] = {k: estimates[k] for k in ks}
        columns.append(Column(name, len(control.group(control.points[0], "all")), curve, tuple(cells)))
    for policy, row in adapted.items():
        away = {name: one for name, one in row.items() if not one.adapted and policy not in unknown}
        if len(away) > 1:
            pairs = {k: [_pair(base[name], one, temperature, "all", k) for name, one in away.items()] for k in ks}
            means.append(Mean(policy, tuple(away), *_estimates(pairs)))
    return Table(ks, temperature, first.samples, tuple(adapted), tuple(columns), tuple(means))


def _cell(
    policy: str, group: str, base: Evaluation, ours: Evaluation, temperature: float, ks: Sequence[int], known: bool
) -> Cell:
    base = replace(base, adapted=ours.adapted)  # so that both mean the same part of the set
    pairs = {k: [_pair(base, ours, temperature, group, k)] for k in ks}
    values, gains = _estimates(pairs)
    adapted_on = None if not known else 0 if group == "held out" else len(ours.adapted)
    return Cell(policy, group, adapted_on, values, gains, compare(base, ours, group=group))


def _pair(base: Evaluation, ours: Evaluation, temperature: float, group: str, k: int) -> _Pair:
    columns = []
    for one in (ours, base):
        point = one.at(temperature)
        assert point is not None  # both are measured there
        columns.append(one.group(point, group))
    names = sorted(columns[0].keys() & columns[1].keys())
    return _Pair(*(by_problem([column[name] for name in names], k) for column in columns))


def _estimates(pairs: Mapping[int, Sequence[_Pair]]) -> tuple[Estimates, Estimates]:
    values = {k: mean_over_sets([pair.ours for pair in found]) for k, found in pairs.items()}
    return values, {k: mean_over_sets([pair.ours - pair.base for pair in found]) for k, found in pairs.items()}


def grid(found: Table) -> list[list[str]]:
    """The matrix in short, a row a policy and a column a set: pass@1 / pass@k and the cell's mark; heads included."""
    rows = [["", *(f"{column.name} ({column.problems})" for column in found.columns)]]
    rows[0] += ["mean over sets not adapted on"] if found.means else []
    rows.append(
        [f"base, T={found.temperature:g}", *(_short(column.base[found.temperature]) for column in found.columns)]
    )
    rows.append(["base, best pass@1", *map(_best, found.columns)])
    for policy in found.policies:
        cells = [column.whole(policy) for column in found.columns]
        rows.append([policy, *(f"{_short(cell.values)} {cell.mark}" for cell in cells)])
        rows[-1] += [f"{_short(mean.values)} ({len(mean.sets)})" for mean in found.means if mean.policy == policy]
    return [row + [""] * (len(rows[0]) - len(row)) for row in rows]


def details(found: Table, column: Column) -> list[list[str]]:
    """One set in full, heads included: the base at each temperature, then each policy with its differences."""
    rows = [["", *(head for k in found.ks for head in (f"pass@{k}", f"minus base, T={found.temperature:g}")), ""]]
    for temperature, estimates in column.base.items():
        rows.append([f"base, T={temperature:g}", *(cell for k in found.ks for cell in (shown(estimates[k]), "")), ""])
    for cell in column.cells:
        numbers = [text for k in found.ks for text in (shown(cell.values[k]), shown(cell.gains[k], sign=True))]
        rows.append([cell.who, *numbers, cell.mark])
    return rows


def mean_details(found: Table) -> list[list[str]]:
    """The means in full, heads included."""
    rows = [["", *(head for k in found.ks for head in (f"pass@{k}", f"minus base, T={found.temperature:g}")), ""]]
    for mean in found.means:
        numbers = [text for k in found.ks for text in (shown(mean.values[k]), shown(mean.gains[k], sign=True))]
        rows.append([mean.policy, *numbers, ", ".join(mean.sets)])
    return rows


def lines(found: Table) -> list[str]:
    """The whole result as plain text."""
    kinds = " / ".join(f"pass@{k}" for k in found.ks)
    out = [f"{kinds}, {found.samples} program(s) a problem, policies at temperature {found.temperature:g}"]
    out += [*_aligned(grid(found)), LEGEND]
    for column in found.columns:
        out += ["", f"{column.name}: {column.problems} problems; 95 % intervals over problems"]
        out += _aligned(details(found, column))
    if found.means:
        out += ["", "mean over the sets not adapted on, each counting alike", *_aligned(mean_details(found))]
    return out


def _short(estimates: Estimates) -> str:
    return " / ".join(f"{estimate.value:.3f}" for estimate in estimates.values())


def _best(column: Column) -> str:
    temperature = max(column.base, key=lambda one: column.base[one][1].value)
    return f"{_short(column.base[temperature])} T={temperature:g}"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
