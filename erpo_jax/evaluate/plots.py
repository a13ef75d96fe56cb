"""The report's two plots as SVG text: the base's curve with the adapted policy on it, and problems before against
after.

Colours come from the page's CSS variables, so that a plot follows light and dark. No library, no script, no outside
file.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from erpo_jax.evaluate.estimates import Estimate

WIDTH, HEIGHT = 640, 440
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 20, 52


@dataclass(frozen=True)
class Mark:
    """A point of the plane (pass@1, pass@k) with its intervals and a name."""

    name: str
    x: Estimate
    y: Estimate


class _Axes:
    """A linear map from data to the drawing, with ticks at round values."""

    def __init__(self, x_range: tuple[float, float], y_range: tuple[float, float], height: int = HEIGHT):
        self.height = height
        self._x, self._y = x_range, y_range

    def x(self, value: float) -> float:
        low, high = self._x
        return LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        low, high = self._y
        return self.height - BOTTOM - (value - low) / (high - low) * (self.height - TOP - BOTTOM)

    def frame(self, x_label: str, y_label: str) -> list[str]:
        floor, right = self.height - BOTTOM, WIDTH - RIGHT
        parts = []
        for value in ticks(*self._x):
            parts.append(_line("grid", (self.x(value), TOP), (self.x(value), floor)))
            parts.append(_text("tick", (self.x(value), floor + 18), f"{value:g}", "middle"))
        for value in ticks(*self._y):
            parts.append(_line("grid", (LEFT, self.y(value)), (right, self.y(value))))
            parts.append(_text("tick", (LEFT - 8, self.y(value) + 4), f"{value:g}", "end"))
        middle = (TOP + floor) / 2
        parts.append(_text("label", ((LEFT + right) / 2, self.height - 10), x_label, "middle"))
        parts.append(f'<g transform="rotate(-90 16 {middle})">{_text("label", (16, middle), y_label, "middle")}</g>')
        return parts


def _line(kind: str, start: tuple[float, float], end: tuple[float, float]) -> str:
    ends = f'x1="{start[0]:.1f}" y1="{start[1]:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}"'
    return f'<line class="{kind}" {ends}/>'


def _text(kind: str, at: tuple[float, float], words: str, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{at[0]:.1f}" y="{at[1]:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def ticks(low: float, high: float, wanted: int = 6) -> list[float]:
    """About `wanted` round values inside [low, high]."""
    rough = (high - low) / wanted
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * unit for factor in (1, 2, 5, 10) if factor * unit >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(number * step, 10) for number in range(first, math.floor(high / step + 1e-9) + 1)]


def curve_plot(base: Sequence[Mark], adapted: Sequence[Mark], k: int) -> str:
    """pass@1 against pass@k: the base's temperatures joined by lines, the adapted policy as a diamond, both with
    intervals."""
    marks = [*base, *adapted]
    axes = _Axes(
        _padded([bound for mark in marks for bound in (mark.x.low, mark.x.high, mark.x.value)]),
        _padded([bound for mark in marks for bound in (mark.y.low, mark.y.high, mark.y.value)]),
    )
    parts = axes.frame("pass@1", f"pass@{k}")
    line = " ".join(f"{axes.x(mark.x.value):.1f},{axes.y(mark.y.value):.1f}" for mark in base)
    parts.append(f'<polyline class="base line" points="{line}"/>')
    taken: list[tuple[float, float]] = []
    for kind, group in (("base", base), ("adapted", adapted)):
        for mark in group:
            parts += _mark(axes, mark, kind, taken)
    return _svg(parts, f"pass@1 against pass@{k}: the base policy at each temperature, and the adapted policy")


def _mark(axes: _Axes, mark: Mark, kind: str, taken: list[tuple[float, float]]) -> list[str]:
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
        _line(f"{kind} bar", (axes.x(mark.x.low), y), (axes.x(mark.x.high), y)),
        _line(f"{kind} bar", (x, axes.y(mark.y.low)), (x, axes.y(mark.y.high))),
        shape,
        _text(f"{kind} name", at, mark.name, anchor),
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
    axes = _Axes((-0.05, 1.05), (-0.05, 1.05))
    parts = axes.frame("right programs before", "right programs after")
    parts.append(_line("diagonal", (axes.x(0), axes.y(0)), (axes.x(1), axes.y(1))))
    for (x, y), many in sorted(cells.items(), key=lambda cell: -cell[1]):
        kind = "gain" if y > x else "loss" if y < x else "same"
        radius = 4 + 12 * math.sqrt(many / largest)
        parts.append(
            f'<circle class="{kind} bubble" cx="{axes.x(x):.1f}" cy="{axes.y(y):.1f}" r="{radius:.1f}">'
            f"<title>{many} problem(s): {x:.0%} before, {y:.0%} after</title></circle>"
        )
    return _svg(parts, "share of right programs of each problem, before against after")


def shown(estimate: Estimate, sign: bool = False) -> str:
    """`0.418 [0.352, 0.481]`; with `sign` the value carries its sign."""
    form = "+.3f" if sign else ".3f"
    return f"{estimate.value:{form}} [{estimate.low:{form}}, {estimate.high:{form}}]"


def _padded(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    pad = max(0.08 * (high - low), 0.02)
    return low - pad, high + pad


def _svg(parts: Sequence[str], title: str) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}" xmlns="http://www.w3.org/2000/svg">'
        f"<title>{escape(title)}</title>{''.join(parts)}</svg>"
    )
