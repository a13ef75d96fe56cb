"""One measurement: sample n programs a problem at one or more temperatures, grade them, count; and the file it is kept
in.

The file holds the verdicts, and the counts (n graded, c right), of every problem at every temperature: pass@k,
intervals and comparisons are computed from these, never stored in their place. Left out: loading policies and engines,
which is the caller's.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from erpo_jax.evaluate.estimates import Estimate, EvaluationError, mean_pass_at_k, reportable
from erpo_jax.evaluate.generations import Answer, generate
from erpo_jax.evaluate.grade import Grader
from erpo_jax.problems import Problem, Prompts
from erpo_jax.rollout import Engine, Sampling

FORMAT = "erpo_jax.evaluation/1"
GROUPS = ("all", "adapted", "held out")
_LETTERS = {True: "1", False: "0", None: "?"}

Progress = Callable[[str, int, int], None]
"""Called with (what goes on, done, total)."""


@dataclass(frozen=True)
class Point:
    """One temperature. `counts[id] = (n, c)`: n programs with a verdict, c right ones; a problem without any verdict is
    not in it. `verdicts[id]` has a character an answer, in order: 1 right, 0 wrong, ? no verdict. Shares are of all
    answers; `tokens` is the mean length of an answer; seconds are wall time."""

    temperature: float
    counts: Mapping[str, tuple[int, int]]
    truncated: float
    without_program: float
    tokens: float
    distinct: int
    ungraded: int
    seconds_sampling: float
    seconds_grading: float
    verdicts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Evaluation:
    """All points of one policy on one set of problems. `ks` are the k asked for; `adapted` the ids it is adapted on."""

    policy: str
    ks: tuple[int, ...]
    samples: int
    points: tuple[Point, ...]
    adapted: tuple[str, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def at(self, temperature: float) -> Point | None:
        """The point of this temperature, or None."""
        return next((point for point in self.points if point.temperature == temperature), None)

    def group(self, point: Point, group: str) -> dict[str, tuple[int, int]]:
        """The counts of `all`, `adapted` or `held out` problems. Problems with fewer verdicts than the largest k are
        left out."""
        need, adapted = max(self.shown_ks), set(self.adapted)
        return {
            name: count
            for name, count in point.counts.items()
            if count[0] >= need and (group == "all" or (name in adapted) == (group == "adapted"))
        }

    def checked(self) -> Evaluation:
        """This evaluation. Raises ValueError when its numbers cannot be."""
        if not (self.points and self.ks and reportable(self.ks, self.samples)):
            raise ValueError("it has no points, or no k")
        for point in self.points:
            if not 0 <= point.temperature < math.inf:
                raise ValueError(f"temperature {point.temperature}")
            for name, (n, c) in point.counts.items():
                if not 0 <= c <= n:
                    raise ValueError(f"{name!r} has {c} right of {n}")
        return self

    @property
    def problems(self) -> int:
        """How many problems were to be measured on, where the provenance says so; else those that were."""
        return int(self.provenance.get("problems", max(len(point.counts) for point in self.points)))

    @property
    def shown_ks(self) -> list[int]:
        """The k that may be reported for this number of samples."""
        return reportable(self.ks, self.samples)

    def estimates(self, point: Point, group: str = "all") -> dict[int, Estimate]:
        """pass@k with its interval for each reportable k; empty when the group has no problem."""
        counts = list(self.group(point, group).values())
        return {k: mean_pass_at_k(counts, k) for k in self.shown_ks} if counts else {}

    def groups(self) -> list[str]:
        """`all`, and the adapted and the held-out problems apart when there are both."""
        names = {name for point in self.points for name in point.counts}
        return list(GROUPS) if names & set(self.adapted) and names - set(self.adapted) else ["all"]


def count(verdicts: Mapping[str, Sequence[bool | None]]) -> dict[str, tuple[int, int]]:
    """(n, c) of each problem; programs without a verdict are in neither, problems without any are left out."""
    graded = {name: [verdict for verdict in row if verdict is not None] for name, row in verdicts.items()}
    return {name: (len(row), sum(row)) for name, row in graded.items() if row}


def grade_answers(
    grader: Grader,
    answers: Mapping[str, Sequence[Answer]],
    temperature: float,
    seconds_sampling: float,
    progress: Progress,
) -> Point:
    """Grade answers and count them. An answer that was lost has no verdict."""
    began = time.perf_counter()
    label = f"grade T={temperature:g}"
    verdicts = grader.grade(
        {name: [answer.program for answer in row] for name, row in answers.items()},
        lambda done, total: progress(label, done, total),
    )
    judged = {
        name: [
            None if answer.finish_reason == "lost" else verdict
            for answer, verdict in zip(answers[name], row, strict=True)
        ]
        for name, row in verdicts.items()
    }
    flat = [answer for row in answers.values() for answer in row]
    return Point(
        temperature=temperature,
        counts=count(judged),
        truncated=sum(answer.finish_reason == "length" for answer in flat) / len(flat),
        without_program=sum(answer.program is None for answer in flat) / len(flat),
        tokens=sum(answer.tokens for answer in flat) / len(flat),
        distinct=len({(name, answer.program) for name, row in answers.items() for answer in row}),
        ungraded=sum(verdict is None for row in judged.values() for verdict in row),
        seconds_sampling=seconds_sampling,
        seconds_grading=time.perf_counter() - began,
        verdicts={name: "".join(_LETTERS[verdict] for verdict in row) for name, row in judged.items()},
    )


def measure(
    engine: Engine,
    prompts: Prompts,
    problems: Sequence[Problem],
    grader: Grader,
    *,
    temperatures: Sequence[float],
    samples: int,
    max_new_tokens: int,
    seed: int,
    progress: Progress,
    keep: Callable[[float, Mapping[str, Sequence[Answer]]], None] | None = None,
) -> list[Point]:
    """One point a temperature, with `samples` programs a problem. `keep` gets the answers of each temperature.

    Temperature 0 is greedy: its one answer stands for all `samples`, which would be the same. Raises EvaluationError as
    `check_plan` does.
    """
    check_plan(temperatures, problems)
    points = []
    for temperature in temperatures:
        began = time.perf_counter()
        answers = generate(
            engine,
            prompts,
            problems,
            samples if temperature else 1,
            Sampling(temperature, max_new_tokens),
            seed,
            partial(progress, f"sample T={temperature:g}"),
        )
        if keep is not None:
            keep(temperature, answers)
        point = grade_answers(grader, answers, temperature, time.perf_counter() - began, progress)
        if not temperature:
            point = replace(point, counts={name: (samples * n, samples * c) for name, (n, c) in point.counts.items()})
        points.append(point)
    return points


def check_plan(temperatures: Sequence[float], problems: Sequence[Problem]) -> None:
    """Raises EvaluationError for no problem, no temperature, or one below 0."""
    if not problems:
        raise EvaluationError("no problems to measure on")
    if not temperatures:
        raise EvaluationError("no temperature to measure at")
    for temperature in temperatures:
        if not temperature >= 0:
            raise EvaluationError(f"temperature {temperature:g}: must be at least 0 (0 is greedy)")


def save_evaluation(path: str | Path, evaluation: Evaluation) -> None:
    """Write an evaluation as JSON, with the estimates beside the counts for human readers; the old file or the whole
    new one."""
    file = Path(path)
    tree = {"format": FORMAT, **asdict(evaluation)}
    for point, row in zip(evaluation.points, tree["points"], strict=True):
        row["estimates"] = {
            group: {f"pass@{k}": asdict(estimate) for k, estimate in evaluation.estimates(point, group).items()}
            for group in evaluation.groups()
        }
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(file.name + ".part")
    part.write_text(json.dumps(tree, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    part.replace(file)


def load_evaluation(path: str | Path) -> Evaluation:
    """Read what `save_evaluation` wrote. Raises EvaluationError naming the file."""
    file = Path(path)
    if not file.is_file():
        raise EvaluationError(f"there is no evaluation file {file}")
    try:
        tree = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise EvaluationError(f"{file} is not an evaluation file: {error}") from error
    found = tree.get("format") if isinstance(tree, dict) else None
    if found != FORMAT:
        raise EvaluationError(
            f"{file} is not an evaluation file: its format is {found!r}, this version reads {FORMAT!r}"
        )
    try:
        return Evaluation(
            policy=_of(str, tree["policy"]),
            ks=tuple(_of(int, k) for k in _of(list, tree["ks"])),
            samples=_of(int, tree["samples"]),
            points=tuple(_point(row) for row in _of(list, tree["points"])),
            adapted=tuple(_of(str, name) for name in _of(list, tree["adapted"])),
            provenance=_of(dict, tree["provenance"]),
        ).checked()
    except (ValueError, KeyError, TypeError) as error:
        raise EvaluationError(f"{file} is a broken evaluation file: {type(error).__name__}: {error}") from error


def _point(row: Any) -> Point:
    fields = {name: value for name, value in _of(dict, row).items() if name not in ("estimates", "counts", "verdicts")}
    counts = {name: (_of(int, n), _of(int, c)) for name, (n, c) in _of(dict, row["counts"]).items()}
    verdicts = {name: _of(str, letters) for name, letters in _of(dict, row.get("verdicts", {})).items()}
    numbers = {name: _of((int, float), value) for name, value in fields.items()}
    return Point(counts=counts, verdicts=verdicts, **numbers)


def _of(kind: Any, value: Any) -> Any:
    """The value, if it is of this kind (true is no number). Raises TypeError."""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise TypeError(f"{value!r:.60} is of another kind than it must be")
    return value
