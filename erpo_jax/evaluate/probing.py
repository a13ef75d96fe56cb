"""Programs on probe inputs: which inputs, and which outputs are equal.

Probes are those stored for training, those a run recorded, those of a file, or inputs drawn from hidden tests, the
problem's own or another set's. Drawn ones make the signal look better than a policy's own probes would: they are picked
by the people who also say what is right. Left out: making probes (`erpo_jax.probes`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

from erpo_jax.evaluate.benchmarks import evalplus
from erpo_jax.evaluate.benchmarks.humaneval import call_arguments, json_literal
from erpo_jax.evaluate.estimates import EvaluationError
from erpo_jax.evaluate.groups import ProgramGroup
from erpo_jax.evaluate.hidden import PLACE, HiddenTests
from erpo_jax.evaluate.reading import read_rows
from erpo_jax.probes import ProbeSet
from erpo_jax.problems import Mode, Problem
from erpo_jax.reward import has_verdict, outcome_key
from erpo_jax.sandbox import Job, Limits, Outcome, Sandbox

Keys = tuple[Hashable | None, ...]
CHUNK = 512
"""Programs in flight: bounds memory for any number of programs, and keeps every worker busy."""


def inputs_of(tests: HiddenTests) -> tuple[str, ...]:
    """The different inputs of hidden tests, in order, in the form that a sandbox job takes.

    Of tests that are code: the arguments of their calls and what stands in a list `inputs`, where they are literals
    that JSON can carry.
    """
    if tests.kind != "program":
        return tuple(dict.fromkeys(case.input for case in tests.cases))
    made = evalplus.inputs_of(tests.test or "")
    if made is not None:
        return tuple(dict.fromkeys(made))
    tree = ast.parse((tests.test or "").replace(PLACE, ""))
    names = {tests.entry_point, "candidate"}
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names
    ]
    calls.sort(key=lambda call: (call.lineno, call.col_offset))
    found = [call_arguments(ast.unparse(call), call.func.id) for call in calls if isinstance(call.func, ast.Name)]
    found += [json_literal(ast.unparse(item)) for item in _listed(tree)]
    return tuple(dict.fromkeys(arguments for arguments in found if arguments is not None))


def _listed(tree: ast.AST) -> Iterator[ast.List]:
    """The lists in a list that is called `inputs`, as EvalPlus's rows on the hub have it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "inputs":
            yield from (item for item in getattr(node.value, "elts", ()) if isinstance(item, ast.List))


def from_tests(
    groups: Sequence[ProgramGroup], hidden: Mapping[str, HiddenTests], count: int, seed: int
) -> list[ProgramGroup]:
    """The groups with `count` inputs of their problem's hidden tests, drawn without replacement; all when there are no
    more, none where it has no tests. A problem has the same ones in all its groups."""
    found = {}
    for name in dict.fromkeys(group.problem for group in groups):
        inputs = inputs_of(hidden[name]) if name in hidden else ()
        found[name] = tuple(Random(f"{seed}/{name}").sample(inputs, min(count, len(inputs))))
    return [
        replace(group, probes=found[group.problem], sources=("hidden test",) * len(found[group.problem]))
        for group in groups
    ]


def from_store(
    groups: Sequence[ProgramGroup], problems: Mapping[str, Problem], stored: Mapping[str, ProbeSet]
) -> list[ProgramGroup]:
    """The groups with their problem's stored probes (`ProbeStore.load`); none where none are stored."""
    nothing = ProbeSet("", ())
    chosen = [stored.get(problems[group.problem].digest(), nothing).probes for group in groups]
    return [
        replace(
            group,
            probes=tuple(probe.input for probe in probes),
            sources=tuple(probe.source.replace("_", " ") for probe in probes),
        )
        for group, probes in zip(groups, chosen, strict=True)
    ]


def from_file(groups: Sequence[ProgramGroup], path: str | Path) -> list[ProgramGroup]:
    """The groups with the probes of a file, one {"id": ..., "inputs": [...]} a line; none where it has none.

    Raises EvaluationError with file and line.
    """
    found: dict[str, tuple[str, ...]] = {}
    for where, row in read_rows(Path(path)):
        name, inputs = (row.get("id"), row.get("inputs")) if isinstance(row, dict) else (None, None)
        if not isinstance(name, str) or not isinstance(inputs, list):
            raise EvaluationError(f'{where}: must be {{"id": problem, "inputs": [...]}}')
        if not all(isinstance(text, str) for text in inputs):
            raise EvaluationError(f"{where}: an input must be a text (function mode: a JSON list of arguments)")
        if name in found:
            raise EvaluationError(f"{where}: the id {name!r} stands twice in this file")
        found[name] = tuple(inputs)
    chosen = [found.get(group.problem, ()) for group in groups]
    return [
        replace(group, probes=inputs, sources=("file",) * len(inputs))
        for group, inputs in zip(groups, chosen, strict=True)
    ]


def executed(
    groups: Sequence[ProgramGroup],
    problems: Mapping[str, Problem],
    sandbox: Sandbox,
    limits_of: Callable[[Problem], Limits],
    progress: Callable[[int, int], None],
) -> Iterator[list[Keys | None]]:
    """For each group in order the keys of every program's outputs on the group's probes.

    A key is None where the program gave no output; a program that the sandbox itself failed on has no keys at all.
    Outputs are in memory for a few hundred programs at a time.
    """
    done, total = 0, sum(len(group.programs) for group in groups)
    start = 0
    while start < len(groups):
        end, size = start, 0
        while end < len(groups) and (size == 0 or size + len(groups[end].programs) <= CHUNK):
            size += len(groups[end].programs)
            end += 1
        block = groups[start:end]
        jobs = [
            _job(program, group, problems[group.problem], limits_of) for group in block for program in group.programs
        ]
        outcomes = iter(sandbox.run(jobs))
        for group in block:
            mode = problems[group.problem].mode
            yield [_keys(next(outcomes), mode) for _ in group.programs]
        done, start = done + size, end
        progress(done, total)


def _job(program: str | None, group: ProgramGroup, problem: Problem, limits_of: Callable[[Problem], Limits]) -> Job:
    return Job(program, group.probes, problem.mode, problem.entry_point, limits_of(problem))


def _keys(outcomes: Sequence[Outcome], mode: Mode) -> Keys | None:
    if not has_verdict(outcomes):
        return None
    return tuple(outcome_key(outcome, mode) for outcome in outcomes)
