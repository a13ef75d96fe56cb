"""The run's course in its report, by step: reward, tied groups, what was learnt from, entropy. From metrics.jsonl."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from erpo_jax import config as configuration
from erpo_jax.evaluate.drawing import Axes, line, padded, svg, text
from erpo_jax.evaluate.page import figure
from erpo_jax.metrics import read_metrics

_HEIGHT = 260
_KINDS = ("base", "adapted")


def training_section(folder: Path) -> list[str]:
    """HTML of the plots; empty for a report that lies in no run folder, or before two steps."""
    rows, settings = read_metrics(folder / "metrics.jsonl"), folder / "config.yaml"
    if len(rows) < 2 or not settings.is_file():
        return []
    config = configuration.load([settings])
    ceiling = config.loss.entropy_ceiling
    rewards = _plot(rows, {"reward/mean": "mean reward", "reward/tied_groups": "tied groups"}, "reward, share")
    entropies = _plot(rows, {"update/entropy": "entropy"}, "nats a token", ceiling=ceiling)
    kept = {"update/kept_fraction": "learnt from", "update/kept_positive_share": "of them pulled up"}
    method = (
        f"Reward {config.reward.kind}, mask {config.mask.kind}, ceiling {ceiling:g} nats (c = "
        f"{config.loss.entropy_coefficient:g}), learning rate {config.optimizer.learning_rate:g}; "
        f"{config.train.problems_per_step} problems x {config.rollout.group_size} programs a step. "
        "Everything else: config.yaml"
    )
    return [
        "<h2>Training</h2>",
        f"<p>{escape(method)}</p>",
        figure(rewards, "Mean reward (probe consensus) of a step, and the share of its groups that are all equal."),
        figure(
            _plot(rows, kept, "share"), "Candidates learnt from, and how many of them agree with the crowd after all."
        ),
        figure(entropies, f"Token entropy; above the ceiling of {ceiling:g} nats (dashed) it is pushed down."),
    ]


def _plot(rows: Sequence[Mapping[str, Any]], names: Mapping[str, str], label: str, ceiling: float | None = None) -> str:
    lines = {
        shown: [(row["step"], row[name]) for row in rows if row.get(name) is not None] for name, shown in names.items()
    }
    values = [value for points in lines.values() for _, value in points] + ([] if ceiling is None else [ceiling])
    first, last = rows[0]["step"], rows[-1]["step"]
    axes = Axes((first, last), padded(values or [0.0]), height=_HEIGHT)
    parts = axes.frame("step", label)
    if ceiling is not None:
        parts.append(line("diagonal", (axes.x(first), axes.y(ceiling)), (axes.x(last), axes.y(ceiling))))
    for kind, (shown, points) in zip(_KINDS, lines.items(), strict=False):
        path = " ".join(f"{axes.x(step):.1f},{axes.y(value):.1f}" for step, value in points)
        parts.append(f'<polyline class="{kind} line" points="{path}"/>')
        if points:
            step, value = points[-1]
            parts.append(text(f"{kind} name", (axes.x(step), axes.y(value) - 8), shown, "end"))
    return svg(parts, f"{', '.join(names.values())} by training step", height=_HEIGHT)
