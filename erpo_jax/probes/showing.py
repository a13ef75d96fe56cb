"""Probes as people read them: a table per problem, and one of all problems."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from erpo_jax.probes.probe import REASONS, SOURCES, ProbeSet
from erpo_jax.problems import Problem

_LONGEST = 120


def show_probes(found: Sequence[tuple[Problem, ProbeSet]], wanted: int, console: Console | None = None) -> None:
    """Print each problem's probes with their sources, what was refused and why, and the totals."""
    console = console or Console()
    for problem, made in found:
        table = Table()
        table.add_column("#", justify="right")
        table.add_column("source", no_wrap=True)
        table.add_column("input")
        for number, probe in enumerate(made.probes):
            table.add_row(str(number), probe.source, Text(_short(probe.input)))
        console.print(_title(problem, made, wanted), table, _caption(made), "", sep="\n")
    console.print(_totals(found, wanted))


def probe_totals(found: Sequence[ProbeSet]) -> dict[str, int]:
    """Sums over problems: probes by source, answers asked for, refusals by reason (of answers and of mutations)."""
    totals: Counter[str] = Counter()
    for made in found:
        totals.update(made.by_source())
        totals["asked"] += made.statistics.asked
        totals["mutations"] += made.statistics.mutations
        totals.update({f"refused_{reason}": count for reason, count in made.statistics.refused.items()})
        totals.update({f"mutations_refused_{reason}": n for reason, n in made.statistics.mutations_refused.items()})
    return dict(totals)


def _title(problem: Problem, made: ProbeSet, wanted: int) -> Text:
    counts = ", ".join(f"{count} {source}" for source, count in made.by_source().items() if count)
    return Text(f"{problem.id}: {len(made.probes)} of {wanted}" + (f" ({counts})" if counts else ""))


def _caption(made: ProbeSet) -> Text:
    said = made.statistics
    parts = [
        f"asked {said.asked}" + _reasons(said.refused),
        f"mutations {said.mutations}" + _reasons(said.mutations_refused) if said.mutations else "",
        f"constraints: {said.checker}" + (f" ({'; '.join(said.rules)})" if said.rules else ""),
        f"trial programs: {said.trial_programs}",
        said.note,
    ]
    return Text("\n".join(part for part in parts if part))


def _reasons(refused: Mapping[str, int]) -> str:
    shown = ", ".join(f"{count} {reason}" for reason, count in sorted(refused.items(), key=lambda item: -item[1]))
    return f", refused {shown}" if shown else ""


def _totals(found: Sequence[tuple[Problem, ProbeSet]], wanted: int) -> Table:
    totals = probe_totals([made for _, made in found])
    table = Table(title=f"{len(found)} problems, {wanted} probes wanted of each", title_justify="left")
    table.add_column("what")
    table.add_column("number", justify="right")
    for source in SOURCES:
        table.add_row(f"probes, {source}", str(totals[source]))
    table.add_row("problems with fewer", str(sum(len(made.probes) < wanted for _, made in found)))
    table.add_row("answers asked for", str(totals["asked"]))
    for reason, meaning in REASONS.items():
        table.add_row(f"refused: {meaning}", str(totals.get(f"refused_{reason}", 0)))
    return table


def _short(text: str) -> str:
    shown = text.rstrip("\n")
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]} ... ({len(shown)} characters)"
