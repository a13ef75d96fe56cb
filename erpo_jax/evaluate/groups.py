"""Groups of programs of one problem, from wherever they were saved: a run's rollouts, generations, solutions.

A group is what a consensus is taken over. In a run it is the G candidates of a step; of other files it is all programs
of a problem, or, with a size, equal random parts of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any

from erpo_jax.evaluate.estimates import EvaluationError
from erpo_jax.evaluate.generations import Answer
from erpo_jax.evaluate.given import Given
from erpo_jax.evaluate.solutions import Solution
from erpo_jax.run_folder import read_rollouts


@dataclass(frozen=True)
class ProgramGroup:
    """Programs of one problem (None: an answer without one), the probes they run on, where each probe is from, and
    which step of a run sampled them."""

    problem: str
    programs: tuple[str | None, ...]
    probes: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    step: int | None = None


def of_rollouts(path: str | Path) -> list[ProgramGroup]:
    """The groups of every step that a run recorded; `path` is its rollouts folder or one of its files.

    Candidates that had left their group stay out. Raises EvaluationError when there is no such file.
    """
    found = Path(path)
    files = sorted(found.glob("step-*.jsonl.zst")) if found.is_dir() else [found]
    if not files or not files[0].is_file():
        raise EvaluationError(f"there is no rollouts file in {found}; a run keeps them in its folder rollouts/")
    groups: list[ProgramGroup] = []
    for file in files:
        try:
            groups += _of_step(read_rollouts(file))
        except (KeyError, TypeError) as error:
            raise EvaluationError(f"{file} holds no records of rollouts: {type(error).__name__}: {error}") from error
    return groups


def _of_step(rows: Sequence[Mapping[str, Any]]) -> Iterable[ProgramGroup]:
    for problem, records in groupby(rows, key=lambda row: str(row["problem"])):
        here = list(records)
        programs = tuple(row["program"] for row in here if row["present"])
        if programs:
            probes = tuple(here[0]["inputs"])
            yield ProgramGroup(problem, programs, probes, ("recorded",) * len(probes), here[0]["step"])


def of_answers(answers: Mapping[str, Sequence[Answer]], *, drop_truncated: bool = False) -> list[ProgramGroup]:
    """One group a problem. Lost answers stay out, and with `drop_truncated` those cut at the length limit."""
    out = {"lost", "length"} if drop_truncated else {"lost"}
    return [
        ProgramGroup(problem, tuple(answer.program for answer in row if answer.finish_reason not in out))
        for problem, row in answers.items()
    ]


def of_solutions(solutions: Mapping[str, Sequence[Solution] | Sequence[Given]]) -> list[ProgramGroup]:
    """One group a problem: the programs that a data set brings along, or that were sampled elsewhere."""
    return [ProgramGroup(problem, tuple(one.program for one in row)) for problem, row in solutions.items()]


def merged(groups: Iterable[ProgramGroup]) -> list[ProgramGroup]:
    """One group a problem, with the programs of all of its groups and the probes of the first."""
    found: dict[str, ProgramGroup] = {}
    for group in groups:
        first = found.setdefault(group.problem, group)
        if first is not group:
            found[group.problem] = replace(first, programs=first.programs + group.programs)
    return list(found.values())


def dealt(groups: Iterable[ProgramGroup], size: int, seed: int) -> list[ProgramGroup]:
    """Each group shuffled and dealt into as few groups as hold at most `size` programs each."""
    hands = []
    for group in groups:
        programs = list(group.programs)
        Random(f"{seed}/{group.problem}").shuffle(programs)
        count = -(-len(programs) // size)
        hands += [replace(group, programs=tuple(programs[start::count])) for start in range(count)]
    return hands
