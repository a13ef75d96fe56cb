"""Your own problems: JSON Lines with the fields of `Problem`, and tests and programs beside them.

    {"id": ..., "statement": ..., "public_tests": [...], "hidden_tests": [{"input": ..., "output": ...}, ...]}

`hidden_tests` (with `compare` or `checker`) or `test` (code around `{program}`) decide; public tests count as well.
`candidates` are programs: {"code": ..., "label": "correct" | "incorrect", "origin": ...}. Other fields are passed over.
Left out: other modes than standard input and functions.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from erpo_jax.evaluate.benchmarks.row import BadRow, Split
from erpo_jax.evaluate.estimates import EvaluationError
from erpo_jax.evaluate.hidden import read_tests
from erpo_jax.evaluate.solutions import Solution
from erpo_jax.problems import Problem, ProblemError, read_problem

_FIELDS = {field.name for field in dataclasses.fields(Problem)}
_LABELS = {"correct": True, "incorrect": False, None: None}


def split(row: Any, release: str, index: int = 0) -> Split:
    """The views of a row. Raises BadRow."""
    if not isinstance(row, dict):
        raise BadRow("is no object")
    try:
        problem = read_problem({name: value for name, value in row.items() if name in _FIELDS}, "problem")
        tests = read_tests(_tests(row, problem), "tests")
    except (ProblemError, EvaluationError) as error:
        raise BadRow(str(error)) from error
    candidates = row.get("candidates") or []
    if not isinstance(candidates, list):
        raise BadRow("candidates must be a list")
    if release:
        problem = dataclasses.replace(problem, source=f"{problem.source} {release}".strip())
    return Split(problem, tests, tuple(map(_solution, candidates)))


def _tests(row: dict[str, Any], problem: Problem) -> dict[str, Any]:
    kept: dict[str, Any] = {name: row[name] for name in ("compare", "checker") if name in row}
    if "test" in row:
        return {"id": problem.id, "kind": "program", "entry_point": problem.entry_point, "test": row["test"], **kept}
    hidden = row.get("hidden_tests")
    if not isinstance(hidden, list) or not hidden:
        raise BadRow("needs hidden_tests, a list of input and output, or test, code around {program}")
    public = [dataclasses.asdict(test) for test in problem.public_tests]
    return {
        "id": problem.id,
        "kind": problem.mode,
        "entry_point": problem.entry_point,
        "cases": public + [test for test in hidden if test not in public],
        **kept,
    }


def _solution(candidate: Any) -> Solution:
    if not isinstance(candidate, dict) or not isinstance(candidate.get("code"), str):
        raise BadRow("a candidate must be an object with the text 'code'")
    label = candidate.get("label")
    if label not in _LABELS:
        raise BadRow(f"a candidate's label is {json.dumps(label)}; allowed are correct, incorrect, or none")
    return Solution(candidate["code"], _LABELS[label], str(candidate.get("origin", "")))
