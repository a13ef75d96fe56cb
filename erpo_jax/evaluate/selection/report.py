"""The selectors' accuracies as lines of text, as JSON and as an HTML page with a plot."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import log2
from pathlib import Path
from typing import Any

from erpo_jax.evaluate.drawing import Axes, line, padded, svg, text
from erpo_jax.evaluate.estimates import shown
from erpo_jax.evaluate.page import definitions, figure, page, table, write_whole
from erpo_jax.evaluate.selection.measuring import Curve, Selection

FORMAT = "erpo_jax.selection/1"
COLOURS = ("#8a94a6", "#1c7c54", "#c2410c", "#e8a33d", "#4a6fa5", "#7c5cbf", "#b0417f", "#2a9d9d")


def lines(selection: Selection) -> list[str]:
    """A row a selector, a column a number of samples."""
    rows = [_heads(selection), *map(_row, selection.curves)]
    widths = [max(len(row[place]) for row in rows) + 3 for place in range(len(rows[0]))]
    out = [f"{_lead(selection)}; 95 % intervals over problems"]
    return out + ["".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def write_selection(path: str | Path, selection: Selection, provenance: Mapping[str, Any]) -> Path:
    """Write `path` (HTML) and the same name with .json beside it; returns the HTML file."""
    file = Path(path)
    tree = {"format": FORMAT, "selection": asdict(selection), "provenance": provenance}
    write_whole(file.with_suffix(".json"), json.dumps(tree, indent=1, ensure_ascii=False) + "\n")
    body = [
        "<h2>Accuracy of the program handed in</h2>",
        figure(_plot(selection), "Bars are 95 % intervals over problems; the axis of samples is logarithmic."),
        table(_heads(selection), [("", _row(curve)) for curve in selection.curves]),
        "<h2>Where the numbers come from</h2>",
        definitions(provenance),
        f"<h2>How to read this</h2><p>{_READING}</p>",
    ]
    write_whole(file, page("Choosing without training", _lead(selection), body))
    return file


def _lead(selection: Selection) -> str:
    out = f"; {len(selection.left_out)} with too few programs left out" if selection.left_out else ""
    return f"{selection.problems} problems{out}; {selection.draws} draws a problem and number of samples"


def _heads(selection: Selection) -> tuple[str, ...]:
    return ("", *(f"of {size}" for size in selection.sizes))


def _row(curve: Curve) -> tuple[str, ...]:
    return (curve.selector.replace("_", " "), *map(shown, curve.accuracy))


def _plot(selection: Selection) -> str:
    bounds = [bound for curve in selection.curves for one in curve.accuracy for bound in (one.low, one.high)]
    last = log2(selection.sizes[-1])
    axes = Axes((-0.05 * last, 1.25 * last + 0.1), padded(bounds))  # the names stand to the right
    parts = axes.frame("log2(samples)", "right")
    labels = sorted((axes.y(curve.accuracy[-1].value), place) for place, curve in enumerate(selection.curves))
    heights = dict(zip((place for _, place in labels), _apart([height for height, _ in labels]), strict=True))
    for place, curve in enumerate(selection.curves):
        paint = f'style="stroke:{COLOURS[place]};fill:{COLOURS[place]}"'
        points = [(axes.x(log2(size)), one) for size, one in zip(selection.sizes, curve.accuracy, strict=True)]
        path = " ".join(f"{x:.1f},{axes.y(one.value):.1f}" for x, one in points)
        parts.append(f'<g {paint}><polyline class="line" points="{path}"/>')
        for x, one in points:
            shifted = x + 2.0 * (place - len(selection.curves) / 2)  # so that bars do not hide one another
            parts.append(line("bar", (shifted, axes.y(one.low)), (shifted, axes.y(one.high))))
            parts.append(
                f'<circle cx="{x:.1f}" cy="{axes.y(one.value):.1f}" r="3.5">'
                f"<title>{curve.selector}: {shown(one)}</title></circle>"
            )
        parts.append("</g>")
        name = text("name", (axes.x(last) + 12, heights[place] + 4), curve.selector.replace("_", " "))
        parts.append(name.replace("<text ", f'<text style="fill:{COLOURS[place]}" '))
    return svg(parts, "accuracy of each selector by the number of samples")


def _apart(heights: Sequence[float], gap: float = 14.0) -> list[float]:
    """Ascending heights, moved down where needed to lie `gap` apart."""
    moved: list[float] = []
    for height in heights:
        moved.append(max(height, moved[-1] + gap) if moved else height)
    return moved


_READING = (
    "Each selector hands in one of M programs without knowing which are right. <em>random</em> takes any, "
    "<em>oracle</em> always takes a right one where there is one (pass@M). <em>codet</em> scores a program by the "
    "root of how many programs pass the same written tests, times the number of those tests; <em>codet product</em> "
    "does without the root. <em>majority</em> takes the most frequent behaviour on the probes, <em>mbr</em> the "
    "program that agrees most with the others, <em>pcr</em> the highest probe consensus reward, <em>reward model</em> "
    "the highest score of a reward model. Ties are broken at random; figures are expectations."
)
