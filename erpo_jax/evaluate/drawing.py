"""Drawing plots as SVG text: axes, lines, words.

Colours come from the page's CSS variables (`erpo_jax.evaluate.page`), so that a plot follows light and dark. No
library, no script, no outside file. What is drawn is the business of `plots` and of the reports.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

WIDTH, HEIGHT = 640, 440
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 20, 52


class Axes:
    """A linear map from data to the drawing, with ticks at round values."""

    def __init__(self, x_range: tuple[float, float], y_range: tuple[float, float], height: int = HEIGHT):
        self.height = height
        self._x, self._y = x_range, y_range

    def x(self, value: float) -> float:
        """Where a value lies from left to right."""
        low, high = self._x
        return LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        """Where a value lies from top to bottom."""
        low, high = self._y
        return self.height - BOTTOM - (value - low) / (high - low) * (self.height - TOP - BOTTOM)

    def frame(self, x_label: str, y_label: str) -> list[str]:
        """Grid, ticks and the names of both axes."""
        floor, right = self.height - BOTTOM, WIDTH - RIGHT
        parts = []
        for value in ticks(*self._x):
            parts.append(line("grid", (self.x(value), TOP), (self.x(value), floor)))
            parts.append(text("tick", (self.x(value), floor + 18), f"{value:g}", "middle"))
        for value in ticks(*self._y):
            parts.append(line("grid", (LEFT, self.y(value)), (right, self.y(value))))
            parts.append(text("tick", (LEFT - 8, self.y(value) + 4), f"{value:g}", "end"))
        middle = (TOP + floor) / 2
        parts.append(text("label", ((LEFT + right) / 2, self.height - 10), x_label, "middle"))
        parts.append(f'<g transform="rotate(-90 16 {middle})">{text("label", (16, middle), y_label, "middle")}</g>')
        return parts


def line(kind: str, start: tuple[float, float], end: tuple[float, float]) -> str:
    """A line of CSS class `kind`."""
    ends = f'x1="{start[0]:.1f}" y1="{start[1]:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}"'
    return f'<line class="{kind}" {ends}/>'


def text(kind: str, at: tuple[float, float], words: str, anchor: str = "start") -> str:
    """Words of CSS class `kind`."""
    return f'<text class="{kind}" x="{at[0]:.1f}" y="{at[1]:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def ticks(low: float, high: float, wanted: int = 6) -> list[float]:
    """About `wanted` round values inside [low, high]."""
    rough = (high - low) / wanted
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * unit for factor in (1, 2, 5, 10) if factor * unit >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(number * step, 10) for number in range(first, math.floor(high / step + 1e-9) + 1)]


def padded(values: Sequence[float]) -> tuple[float, float]:
    """The range of the values with a margin."""
    low, high = min(values), max(values)
    pad = max(0.08 * (high - low), 0.02)
    return low - pad, high + pad


def svg(parts: Sequence[str], title: str, height: int = HEIGHT) -> str:
    """The whole drawing; `title` is what a screen reader says."""
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}" xmlns="http://www.w3.org/2000/svg">'
        f"<title>{escape(title)}</title>{''.join(parts)}</svg>"
    )
