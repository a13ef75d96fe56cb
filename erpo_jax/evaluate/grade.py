"""Programs against hidden tests, in the sandbox. A program passes when it passes every test.

Equal programs of a problem are run once, whatever temperature or file they came from. Tests run in waves of 1, 2, 4,
... and a program that failed leaves before the next wave: the verdict "passes all" is the same, at about half the cost.
Each input has a process and a CPU clock of its own, so verdicts do not depend on the number of workers. A fault of the
sandbox's own is no verdict: such a program stays ungraded (None), and the caller must say so.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from erpo_jax.evaluate.checks import checked_program, proven
from erpo_jax.evaluate.estimates import EvaluationError
from erpo_jax.evaluate.hidden import Case, HiddenTests
from erpo_jax.evaluate.rules import RULES
from erpo_jax.problems import Problem
from erpo_jax.sandbox import Job, Limits, Outcome, Sandbox

GRADER_VERSION = "1"
CHUNK = 512
"""Programs in flight: bounds memory for any number of programs, and keeps every worker busy."""

Progress = Callable[[int, int], None]
LimitsOf = Callable[[Problem], Limits]


def problem_limits(problem: Problem) -> Limits:
    """The problem's own limits."""
    return Limits(cpu_s=problem.time_limit_s, memory_mb=problem.memory_limit_mb)


@dataclass
class _Run:
    """A distinct program on its way through its problem's tests."""

    problem: Problem
    tests: HiddenTests
    program: str
    next_case: int = 0
    passed: bool | None = None
    proof: str = field(default_factory=lambda: secrets.token_hex(16))

    @property
    def total(self) -> int:
        return len(self.tests.cases) or 1

    def judge(self, outcomes: Sequence[Outcome]) -> bool | None:
        """Whether these outcomes (of the tests from `next_case` on) all pass; None when a fault leaves that open."""
        if self.tests.kind == "program":
            passes = [proven(outcome, self.proof) for outcome in outcomes]
        else:
            cases = self.tests.cases[self.next_case :]
            passes = [_passes(self.tests, case, outcome) for case, outcome in zip(cases, outcomes, strict=False)]
        faults = [outcome.verdict == "sandbox_error" for outcome in outcomes]
        if any(not passed and not fault for passed, fault in zip(passes, faults, strict=True)):
            return False
        return None if any(faults) else True


def _passes(tests: HiddenTests, case: Case, outcome: Outcome) -> bool:
    if outcome.verdict != "ok" or outcome.output is None:
        return False
    rule = RULES[tests.compare]
    if tests.kind == "function":
        return rule.values(case.output, outcome.output)
    return rule.texts(case.output, outcome.output)


class Grader:
    """Grades programs by problem id, and remembers the verdicts of programs it has seen.

    `limits_of` gives a problem's limits (the problem's own by default). Raises EvaluationError at once when a problem
    has no hidden tests, or of a kind its mode cannot serve.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        problems: Sequence[Problem],
        hidden: Mapping[str, HiddenTests],
        limits_of: LimitsOf = problem_limits,
    ):
        for problem in problems:
            tests = hidden.get(problem.id)
            if tests is None:
                raise EvaluationError(f"problem {problem.id!r} has no hidden tests")
            if (tests.kind == "stdin") != (problem.mode == "stdin"):
                raise EvaluationError(
                    f"problem {problem.id!r} is of mode {problem.mode!r}, its hidden tests of kind {tests.kind!r}"
                )
        self._sandbox = sandbox
        self._problems = {problem.id: problem for problem in problems}
        self._hidden = hidden
        self._limits_of = limits_of
        self._verdicts: dict[tuple[str, str], bool | None] = {}

    def grade(
        self, programs: Mapping[str, Sequence[str | None]], progress: Progress | None = None
    ) -> dict[str, list[bool | None]]:
        """Verdict of each program of each problem: True, False (also for None, no program), or None (sandbox fault).

        `progress(done, total)` counts distinct programs. Raises EvaluationError for an id that is not among the
        problems.
        """
        for name in programs:
            if name not in self._problems:
                raise EvaluationError(f"there are programs for {name!r}, which is not among the problems")
        fresh = {
            (name, program): None
            for name, row in programs.items()
            for program in row
            if program is not None and self._verdicts.get((name, program)) is None
        }
        keys = list(fresh)
        for start in range(0, len(keys), CHUNK):
            chunk = keys[start : start + CHUNK]
            runs = [_Run(self._problems[name], self._hidden[name], program) for name, program in chunk]
            self._finish(runs)
            self._verdicts.update(zip(chunk, [run.passed for run in runs], strict=True))
            if progress:
                progress(start + len(chunk), len(keys))
        return {
            name: [False if program is None else self._verdicts[name, program] for program in row]
            for name, row in programs.items()
        }

    def _finish(self, runs: Sequence[_Run]) -> None:
        alive, wave = list(runs), 1
        while alive:
            jobs = [self._job(run, wave) for run in alive]
            for run, outcomes in zip(alive, self._sandbox.run(jobs), strict=True):
                run.passed = run.judge(outcomes)
                run.next_case += len(outcomes)
            alive = [run for run in alive if run.passed and run.next_case < run.total]
            wave *= 2

    def _job(self, run: _Run, wave: int) -> Job:
        limits = self._limits_of(run.problem)
        tests = run.tests
        if tests.kind == "program":
            assert tests.test is not None
            return Job(checked_program(tests.test, run.program, run.proof), ("",), "stdin", None, limits)
        cases = tests.cases[run.next_case : run.next_case + wave]
        room = 2 * max(len(case.output) for case in cases) + 1000
        limits = replace(limits, output_bytes=max(limits.output_bytes, room))
        return Job(run.program, tuple(case.input for case in cases), tests.kind, tests.entry_point, limits)
