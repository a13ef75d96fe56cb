"""Tests that a model wrote: the file they lie in, and which programs pass them. They may be wrong.

A line is {"id": problem id, "tests": [...]}. In function mode a test is {"assert": "assert f(1) == 2"}; for standard
input it is {"input": text, "output": text}. `launch/evaluate.py tests` writes such a file.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from erpo_jax.evaluate.checks import checked_program, proven
from erpo_jax.evaluate.estimates import EvaluationError
from erpo_jax.evaluate.hidden import PLACE
from erpo_jax.evaluate.page import write_whole
from erpo_jax.evaluate.probing import CHUNK
from erpo_jax.evaluate.reading import read_rows
from erpo_jax.problems import Problem
from erpo_jax.reward import outcome_key, output_key
from erpo_jax.sandbox import Job, Limits, Outcome, Sandbox


@dataclass(frozen=True)
class WrittenTest:
    """One test: an assertion about the entry point, or an input and the output it must give."""

    check: str = ""
    input: str = ""
    output: str = ""

    def as_json(self) -> dict[str, str]:
        """This as it stands in a file of tests."""
        return {"assert": self.check} if self.check else {"input": self.input, "output": self.output}


def load_written(path: str | Path) -> dict[str, tuple[WrittenTest, ...]]:
    """The tests by problem id, each once. Raises EvaluationError with file and line for a line that is not valid."""
    file = Path(path)
    if not file.is_file():
        raise EvaluationError(f"there is no file of tests {file}")
    found: dict[str, tuple[WrittenTest, ...]] = {}
    for where, row in read_rows(file):
        try:
            found[row["id"]] = tuple(dict.fromkeys(map(_read, row["tests"])))
        except (KeyError, TypeError) as error:
            raise EvaluationError(
                f'{where}: must be {{"id": ..., "tests": [...]}}, each test an object with "assert", or '
                f'with "input" and "output" ({type(error).__name__}: {error})'
            ) from error
    return found


def _read(row: Mapping[str, Any]) -> WrittenTest:
    texts = (row["assert"],) if "assert" in row else ("", row["input"], row["output"])
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("not a text")
    return WrittenTest(*texts)


def save_written(path: str | Path, tests: Mapping[str, Sequence[WrittenTest]]) -> None:
    """Write what `load_written` reads."""
    rows = [{"id": name, "tests": [test.as_json() for test in row]} for name, row in tests.items()]
    write_whole(Path(path), "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def passes(
    programs: Mapping[str, Sequence[str | None]],
    tests: Mapping[str, Sequence[WrittenTest]],
    problems: Mapping[str, Problem],
    sandbox: Sandbox,
    limits_of: Callable[[Problem], Limits],
    progress: Callable[[int, int], None],
) -> dict[str, list[tuple[bool, ...]]]:
    """For each problem and program: which of the problem's tests it passes. Equal programs run once.

    Raises EvaluationError for a test that does not suit its problem's mode.
    """
    for name in programs:
        for test in tests.get(name, ()):
            if bool(test.check) != (problems[name].mode == "function"):
                raise EvaluationError(f"problem {name!r} is of mode {problems[name].mode}, and has a test {test}")
    keys = list(dict.fromkeys((name, program) for name, row in programs.items() for program in row if program))
    found: dict[tuple[str, str | None], tuple[bool, ...]] = {}
    for start in range(0, len(keys), CHUNK):
        chunk = keys[start : start + CHUNK]
        runs = [_Run(problems[name], program, tests.get(name, ())) for name, program in chunk]
        outcomes = sandbox.run([run.job(limits_of(run.problem)) for run in runs])
        for key, run, row in zip(chunk, runs, outcomes, strict=True):
            found[key] = run.judged(row)
        progress(start + len(chunk), len(keys))
    nothing = {name: (False,) * len(tests.get(name, ())) for name in programs}
    return {name: [found.get((name, program), nothing[name]) for program in row] for name, row in programs.items()}


# An assertion comes in by standard input, so that one job runs a program on all of its tests. A program that read it
# away has not passed it.
_ASSERTED = f"""{PLACE}
import sys as _sys
_test = _sys.stdin.read()
assert _test
exec(compile(_test, "<test>", "exec"), globals())
"""


@dataclass
class _Run:
    problem: Problem
    program: str
    tests: Sequence[WrittenTest]
    proof: str = field(default_factory=lambda: secrets.token_hex(16))

    def job(self, limits: Limits) -> Job:
        if self.problem.mode == "stdin":
            return Job(self.program, tuple(test.input for test in self.tests), limits=limits)
        whole = checked_program(_ASSERTED, self.program, self.proof)
        return Job(whole, tuple(test.check for test in self.tests), limits=limits)

    def judged(self, outcomes: Sequence[Outcome]) -> tuple[bool, ...]:
        if self.problem.mode == "function":
            return tuple(proven(outcome, self.proof) for outcome in outcomes)
        return tuple(
            outcome_key(outcome, "stdin") == output_key(test.output)
            for outcome, test in zip(outcomes, self.tests, strict=True)
        )
