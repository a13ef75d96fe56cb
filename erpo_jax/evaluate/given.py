"""Programs that were sampled elsewhere: JSON Lines in the layouts that code benchmarks use, one sample or one problem a
line, `.gz` allowed.

    {"task_id": ..., "completion": ...}                          goes after the problem's prompt (HumanEval's samples)
    {"task_id": ..., "solution": ...}                            a whole program (EvalPlus's)
    {"id": ..., "program": ...}
    {"question_id": ..., "code_list": [...]}                     many of them (LiveCodeBench's output)
    {"task_id": ..., "prompt": ..., "samples": [{"completion": ..., "count": 3, "verdict": "pass"}, ...]}

A row's own `prompt` goes before its completions, else the problem's starter code. `count` is how often a sample was
drawn; `passed` or `verdict` is the publisher's word on it, and is compared with ours. An empty program, or null, is an
answer without one. The texts of distinct programs are held in memory, nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from erpo_jax.evaluate.estimates import EvaluationError
from erpo_jax.evaluate.reading import read_rows
from erpo_jax.problems import Problem

_IDS = ("id", "task_id", "question_id")
_WHOLE = ("program", "solution")
MOST = 100_000
_MANY = ("samples", "programs", "solutions", "code_list")


class Given(NamedTuple):
    """One sample; `passed` is the publisher's verdict, None without one."""

    program: str | None
    passed: bool | None = None


def load_given(path: str | Path, problems: Mapping[str, Problem]) -> dict[str, list[Given]]:
    """The samples of these problems, by id, in file order; samples of other problems are passed over.

    Raises EvaluationError with file and line for a line in none of the layouts, or when no sample is of these problems.
    """
    file = Path(path)
    if not file.is_file():
        raise EvaluationError(f"there is no file of samples {file}")
    texts: dict[str, str] = {}
    found: dict[str, list[Given]] = {}
    for where, row in read_rows(file):
        name = next((row[field] for field in _IDS if field in row), None) if isinstance(row, dict) else None
        if not isinstance(name, str):
            raise EvaluationError(f"{where}: needs the problem's id as a text in {', '.join(_IDS)}")
        if name in problems:
            for one, count in _samples(row, problems[name], where):
                program = one.program and texts.setdefault(one.program, one.program)
                found.setdefault(name, []).extend([Given(program, one.passed)] * count)
    if not found:
        raise EvaluationError(f"{file} holds no sample of these {len(problems)} problems")
    return found


def _samples(row: dict[str, Any], problem: Problem, where: str) -> Iterator[tuple[Given, int]]:
    prompt = row.get("prompt", problem.starter_code or "")
    if not isinstance(prompt, str):
        raise EvaluationError(f"{where}: 'prompt' is {prompt!r:.40}, must be a text")
    for name in _MANY:
        if name in row:
            if not isinstance(row[name], list):
                raise EvaluationError(f"{where}: field {name!r} must be a list of samples")
            for sample in row[name]:
                yield _sample(sample if isinstance(sample, dict) else {"program": sample}, prompt, where)
            return
    yield _sample(row, prompt, where)


def _sample(row: dict[str, Any], prompt: str, where: str) -> tuple[Given, int]:
    whole = next((name for name in _WHOLE if name in row), None)
    if whole is None and "completion" not in row:
        raise EvaluationError(f"{where}: a sample needs one of {', '.join((*_WHOLE, 'completion'))}")
    text = row[whole or "completion"]
    if not isinstance(text, (str, type(None))):
        raise EvaluationError(f"{where}: a sample's program is a {type(text).__name__}, must be a text or null")
    count = row.get("count", 1)
    if not isinstance(count, int) or not 0 <= count <= MOST:
        raise EvaluationError(f"{where}: 'count' is {count!r}, must be a whole number from 0 to {MOST}")
    verdict = row.get("verdict")
    passed = row.get("passed") if verdict is None else verdict == "pass"
    if not isinstance(passed, (bool, type(None))):
        raise EvaluationError(f"{where}: 'passed' is {passed!r:.40}, must be true, false or null")
    program = text if whole or text is None else prompt + text
    return Given(program or None, passed), count
