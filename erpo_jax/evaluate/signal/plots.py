"""The signal's plots: right programs by reward, AUC by the number of probes, and what single probes tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from erpo_jax.evaluate.drawing import Axes, line, padded, svg
from erpo_jax.evaluate.estimates import Estimate, shown
from erpo_jax.evaluate.signal.calibration import STEPS, Share
from erpo_jax.evaluate.signal.crowds import ProbeRow


def reliability_plot(shares: Sequence[Share]) -> str:
    """The right share at each PCR with its interval; the bars behind say how many programs are there."""
    axes = Axes((-0.07, 1.07), (-0.02, 1.02))
    most = max(share.programs for share in shares)
    parts = axes.frame("PCR", "right programs")
    points = []
    for step, share in enumerate(shares):
        x, here = step / STEPS, share.programs / most
        width = axes.x(0.06) - axes.x(0.0)
        parts.append(
            f'<rect class="count" x="{axes.x(x) - width / 2:.1f}" y="{axes.y(here):.1f}" width="{width:.1f}" '
            f'height="{axes.y(0) - axes.y(here):.1f}"><title>{share.programs} programs at PCR {x:g}</title></rect>'
        )
        if share.share is not None:
            points.append((x, share.share))
    return svg([*parts, *_curve(axes, points)], "share of right programs at each PCR")


def probes_plot(areas: Sequence[Estimate | None]) -> str:
    """AUC when only the first k probes of each problem count."""
    points = [(float(k), area) for k, area in enumerate(areas, 1) if area is not None]
    bounds = [bound for _, area in points for bound in (area.low, area.high)]
    axes = Axes((0.5, len(areas) + 0.5), padded(bounds))
    return svg([*axes.frame("probes", "AUC of PCR"), *_curve(axes, points)], "AUC of PCR by the number of probes")


def _curve(axes: Axes, points: Sequence[tuple[float, Estimate]]) -> list[str]:
    path = " ".join(f"{axes.x(x):.1f},{axes.y(estimate.value):.1f}" for x, estimate in points)
    parts = [f'<polyline class="base line" points="{path}"/>']
    for x, estimate in points:
        across = axes.x(x)
        parts += [
            line("base bar", (across, axes.y(estimate.low)), (across, axes.y(estimate.high))),
            f'<circle class="base dot" cx="{across:.1f}" cy="{axes.y(estimate.value):.1f}" r="4.5">'
            f"<title>{x:g}: {shown(estimate)}</title></circle>",
        ]
    return parts


def gains_plot(rows: Sequence[ProbeRow]) -> str:
    """Each probe by what can be seen without labels (pairs told apart) and what it is worth (gain)."""
    axes = Axes((-0.05, 1.05), (-1.08, 1.08))
    parts = [*axes.frame("pairs of programs it tells apart", "gain"), line("diagonal", *_level(axes))]
    cells = Counter((round(row.discrimination, 2), round(row.gain, 2)) for row in rows if row.gain is not None)
    most = max(cells.values(), default=1)
    for (x, y), many in sorted(cells.items(), key=lambda cell: -cell[1]):
        kind = "gain" if y > 0 else "loss" if y < 0 else "same"
        radius = 3 + 9 * (many / most) ** 0.5
        parts.append(
            f'<circle class="{kind} bubble" cx="{axes.x(x):.1f}" cy="{axes.y(y):.1f}" r="{radius:.1f}">'
            f"<title>{many} probe(s): {x:.0%} of pairs told apart, gain {y:+.2f}</title></circle>"
        )
    return svg(parts, "each probe: pairs of programs it tells apart, and its gain")


def _level(axes: Axes) -> tuple[tuple[float, float], tuple[float, float]]:
    return (axes.x(-0.05), axes.y(0)), (axes.x(1.05), axes.y(0))
