"""The report's two plots as SVG text: the base's curve with the adapted policy on it, and problems before against
after.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from erpo_jax.evaluate.drawing import Axes, line, padded, svg, text
from erpo_jax.evaluate.estimates import Estimate, shown


@dataclass(frozen=True)
class Mark:
    """A point of the plane (pass@1, pass@k) with its intervals and a name."""

    name: str
    x: Estimate
    y: Estimate


def curve_plot(base: Sequence[Mark], adapted: Sequence[Mark], k: int) -> str:
    """pass@1 against pass@k: the base's temperatures joined by lines, the adapted policy as a diamond, both with
    intervals."""
    marks = [*base, *adapted]
    axes = Axes(
        padded([bound for mark in marks for bound in (mark.x.low, mark.x.high, mark.x.value)]),
        padded([bound for mark in marks for bound in (mark.y.low, mark.y.high, mark.y.value)]),
    )
    parts = axes.frame("pass@1", f"pass@{k}")
    curve = " ".join(f"{axes.x(mark.x.value):.1f},{axes.y(mark.y.value):.1f}" for mark in base)
    parts.append(f'<polyline class="base line" points="{curve}"/>')
    taken: list[tuple[float, float]] = []
    for kind, group in (("base", base), ("adapted", adapted)):
        for mark in group:
            parts += _mark(axes, mark, kind, taken)
    return svg(parts, f"pass@1 against pass@{k}: the base policy at each temperature, and the adapted policy")


def _mark(axes: Axes, mark: Mark, kind: str, taken: list[tuple[float, float]]) -> list[str]:
    x, y = axes.x(mark.x.value), axes.y(mark.y.value)
    shape = (
        f'<circle class="{kind} dot" cx="{x:.1f}" cy="{y:.1f}" r="4.5"/>'
        if kind == "base"
        else f'<path class="{kind} dot" d="M{x:.1f} {y - 8:.1f} l8 8 l-8 8 l-8 -8 z"/>'
    )
    told = f"{mark.name}: pass@1 {shown(mark.x)}, pass@k {shown(mark.y)}"
    at, anchor = _label_place((x, y), len(mark.name), taken)
    return [
        f"<g><title>{escape(told)}</title>",
        line(f"{kind} bar", (axes.x(mark.x.low), y), (axes.x(mark.x.high), y)),
        line(f"{kind} bar", (x, axes.y(mark.y.low)), (x, axes.y(mark.y.high))),
        shape,
        text(f"{kind} name", at, mark.name, anchor),
        "</g>",
    ]


def _label_place(
    point: tuple[float, float], letters: int, taken: list[tuple[float, float]]
) -> tuple[tuple[float, float], str]:
    """Where a label goes: right above its point, else the first of left above, right below, left below that is free.

    `taken` holds the middles of the labels so far, and gets this one's.
    """
    width = 7.0 * letters
    places = [(side, up) for up in (-9, 20) for side in (1, -1)]
    middles = [(point[0] + side * (9 + width / 2), point[1] + up) for side, up in places]
    free = [all(abs(x - u) > width or abs(y - v) > 13 for u, v in taken) for x, y in middles]
    side, up = places[free.index(True) if True in free else 0]
    taken.append((point[0] + side * (9 + width / 2), point[1] + up))
    return (point[0] + side * 9, point[1] + up), "start" if side > 0 else "end"


def problems_plot(before: Mapping[str, tuple[int, int]], after: Mapping[str, tuple[int, int]]) -> str:
    """Share of right programs of each problem, before (x) against after (y); a larger circle is more problems."""
    names = before.keys() & after.keys()
    cells = Counter((before[name][1] / before[name][0], after[name][1] / after[name][0]) for name in names)
    largest = max(cells.values(), default=1)
    axes = Axes((-0.05, 1.05), (-0.05, 1.05))
    parts = axes.frame("right programs before", "right programs after")
    parts.append(line("diagonal", (axes.x(0), axes.y(0)), (axes.x(1), axes.y(1))))
    for (x, y), many in sorted(cells.items(), key=lambda cell: -cell[1]):
        kind = "gain" if y > x else "loss" if y < x else "same"
        radius = 4 + 12 * math.sqrt(many / largest)
        parts.append(
            f'<circle class="{kind} bubble" cx="{axes.x(x):.1f}" cy="{axes.y(y):.1f}" r="{radius:.1f}">'
            f"<title>{many} problem(s): {x:.0%} before, {y:.0%} after</title></circle>"
        )
    return svg(parts, "share of right programs of each problem, before against after")
