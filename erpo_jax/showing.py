"""A step's rollouts as people read them: a line for each problem, or one problem's programs and what they printed."""

from __future__ import annotations

import difflib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from erpo_jax.errors import UserError
from erpo_jax.run_folder import read_rollouts

_LONGEST = 60
_SHOWN = ("step", "problem", "candidate", "program", "text", "inputs", "verdicts", "outputs")
_LEARNT = ("reward", "present", "advantage", "weight")

Record = Mapping[str, Any]


def recorded_step(folder: Path, step: int | None = None) -> list[Record]:
    """The records of a step in a run folder, of the newest without `step`. Raises UserError when there are none."""
    names = {
        file: file.name.removeprefix("step-").removesuffix(".jsonl.zst") for file in folder.glob("rollouts/step-*")
    }
    files = {int(name): file for file, name in names.items() if name.isdecimal()}
    if not files:
        raise UserError(f"{folder} holds no rollouts (rollouts/step-*.jsonl.zst); give the folder of a run")
    chosen = max(files) if step is None else step
    if chosen not in files:
        raise UserError(f"--step {step}: {folder} has the steps {min(files)} to {max(files)}")
    return list(read_rollouts(files[chosen], (*_SHOWN, *_LEARNT)))


def show_step(records: Sequence[Record], console: Console) -> None:
    """A line for each problem: how far its candidates agree, and how many were learnt from."""
    table = Table(
        "problem", "candidates", "reward", "lowest", "behaviours", "kept", "up", title=f"step {records[0]['step']}"
    )
    for name, group in _by_problem(records).items():
        rewards = [one["reward"] for one in group if one["reward"] is not None]
        learnt = [one for one in group if one["weight"] and one["advantage"]]
        table.add_row(
            name,
            str(len(group)),
            f"{sum(rewards) / len(rewards):.3f}" if rewards else "-",
            f"{min(rewards):.2f}" if rewards else "-",
            str(len({tuple(one["outputs"]) for one in group if one["present"]})),
            str(len(learnt)),
            str(sum(one["advantage"] > 0 for one in learnt)),
        )
    console.print(table)
    console.print(
        "behaviours: different rows of outputs; kept: learnt from; up: of them, with a positive advantage", style="dim"
    )


def show_problem(records: Sequence[Record], problem: str, console: Console) -> None:
    """The problem's programs, those that disagree most first, each once; then its probes and what was printed on them.

    Raises UserError when the step has no such problem.
    """
    groups = _by_problem(records)
    if problem not in groups:
        near = difflib.get_close_matches(problem, groups, n=1, cutoff=0.0)
        raise UserError(f"--problem {problem} is not in this step; the nearest name in it is {near[0]}")
    ordered = sorted(groups[problem], key=lambda one: (-1.0 if one["reward"] is None else one["reward"], _code(one)))
    for code, alike in groupby(ordered, key=_code):
        console.print(_program(code, list(alike)))
    table = Table("probe", "what was printed, and by how many candidates", show_lines=True)
    for k, text in enumerate(ordered[0]["inputs"]):
        ended = (one for one in ordered if k < len(one["verdicts"]))
        printed = Counter(
            _short(one["outputs"][k]) if one["verdicts"][k] == "ok" else f"({one['verdicts'][k]})" for one in ended
        )
        table.add_row(Text(_short(text)), Text("\n".join(f"{count:3d}  {out}" for out, count in printed.most_common())))
    console.print(table)


def _program(code: str, alike: Sequence[Record]) -> Group:
    first = alike[0]
    reward = "none" if first["reward"] is None else f"{first['reward']:.2f}"
    weights = (f"{one['weight']:g}" for one in alike)
    verdicts: Counter[str] = Counter(first["verdicts"])
    head = (
        f"candidate{'s' * (len(alike) > 1)} {', '.join(str(one['candidate']) for one in alike)}: reward {reward}, "
        f"advantage {first['advantage']:+.2f}, weight {' '.join(weights)}; "
        f"{', '.join(f'{count} {verdict}' for verdict, count in verdicts.items()) or 'not run'}"
    )
    return Group(Text(head, style="bold"), Syntax(code, "python", background_color="default", word_wrap=True), Text())


def _code(record: Record) -> str:
    """The program; the whole answer where none was found in it."""
    program: str | None = record["program"]
    return program if program is not None else f"# no program in this answer:\n{record['text']}"


def _by_problem(records: Sequence[Record]) -> dict[str, list[Record]]:
    groups: defaultdict[str, list[Record]] = defaultdict(list)
    for record in records:
        groups[record["problem"]].append(record)
    return dict(groups)


def _short(text: str) -> str:
    shown = text.rstrip("\n").replace("\n", "\\n")
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]} ... ({len(shown)} characters)"
