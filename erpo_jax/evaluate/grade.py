"""Programs against hidden tests, in the sandbox. A program passes when it passes every test.

Equal programs of a problem are run once, whatever temperature or file they came from. Tests run in waves of 1, 2, 4,
... and a program that failed runs no further wave: the verdict "passes all" is the same, at about half the cost. Jobs
are handed out one by one as workers become free, so memory holds the programs that run, and no worker waits for
another. Each input has a process and a CPU clock of its own, so verdicts do not depend on the number of workers. A
fault of the sandbox's own is no verdict: such a program stays ungraded (None), and the caller must say so.
"""

from __future__ import annotations

import itertools
import secrets
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from erpo_jax.evaluate.checks import (
    accepted,
    checked_program,
    checker_input,
    checker_program,
    proven,
    returned_outside,
    returning_program,
)
from erpo_jax.evaluate.estimates import EvaluationError
from erpo_jax.evaluate.hidden import HiddenTests, integers_of_any_length
from erpo_jax.evaluate.rules import RULES
from erpo_jax.problems import Problem
from erpo_jax.sandbox import Job, Limits, Outcome, Sandbox

GRADER_VERSION = "2"
CHECKER_LIMITS = Limits(cpu_s=10.0)

Progress = Callable[[int, int], None]
LimitsOf = Callable[[Problem], Limits]


def problem_limits(problem: Problem) -> Limits:
    """The problem's own limits."""
    return Limits(cpu_s=problem.time_limit_s, memory_mb=problem.memory_limit_mb)


@dataclass
class _Run:
    """A distinct program on its way through its problem's tests: `job` and `take` in turn until it is done."""

    key: tuple[str, str]
    tests: HiddenTests
    limits: Limits
    next_case: int = 0
    wave: int = 1
    held: Sequence[Outcome] = ()
    """Outcomes that wait for the checker."""
    inside: bool = False
    """The program runs inside a function, because it returns outside of any."""
    passed: bool | None = None
    proof: str = field(default_factory=lambda: secrets.token_hex(16))

    def job(self) -> Job:
        """What is to run next."""
        tests, program = self.tests, self.key[1]
        if tests.kind == "program":
            assert tests.test is not None
            return Job(checked_program(tests.test, program, self.proof), ("",), "stdin", None, self.limits)
        cases = tests.cases[self.next_case : self.next_case + self.wave]
        if self.held:
            assert tests.checker is not None
            texts = [
                checker_input(case.input, case.output, outcome.output or "")
                for case, outcome in zip(cases, self.held, strict=True)
            ]
            return Job(checker_program(tests.checker), tuple(texts), "stdin", None, CHECKER_LIMITS)
        room = 2 * max(len(case.output) for case in cases) + 1000
        limits = replace(self.limits, output_bytes=max(self.limits.output_bytes, room))
        program = returning_program(program) if self.inside else program
        return Job(program, tuple(case.input for case in cases), tests.kind, tests.entry_point, limits)

    def take(self, outcomes: Sequence[Outcome]) -> bool:
        """Judge the outcomes of the job; whether there is a verdict (or none to be had) now."""
        if RULES[self.tests.compare].returns and not self.inside and returned_outside(outcomes[0]):
            self.inside = True
            return False
        verdicts = [self._pass(index, outcome) for index, outcome in enumerate(outcomes)]
        if False in verdicts or None in verdicts:
            self.passed = False if False in verdicts else None
            return True
        if self.tests.checker is not None and not self.held:
            self.held = outcomes
            return False
        self.held = ()
        self.next_case += len(outcomes)
        self.wave *= 2
        self.passed = self.next_case >= max(1, len(self.tests.cases))
        return self.passed

    def _pass(self, index: int, outcome: Outcome) -> bool | None:
        tests = self.tests
        if outcome.verdict == "sandbox_error":
            return None
        if tests.kind == "program":
            return proven(outcome, self.proof)
        if self.held:
            return accepted(outcome)
        if outcome.verdict != "ok" or outcome.output is None:
            return False
        if tests.checker is not None:
            return True
        expected = tests.cases[self.next_case + index].output
        rule = RULES[tests.compare]
        return (rule.values if tests.kind == "function" else rule.texts)(expected, outcome.output)


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
        with integers_of_any_length():
            for done, run in enumerate(self._finished(fresh), 1):
                self._verdicts[run.key] = run.passed
                if progress:
                    progress(done, len(fresh))
        return {
            name: [False if program is None else self._verdicts[name, program] for program in row]
            for name, row in programs.items()
        }

    def _finished(self, keys: Iterable[tuple[str, str]]) -> Iterator[_Run]:
        """The runs of these programs, as they end."""
        fresh, begun = iter(keys), deque[_Run]()
        running: dict[int, _Run] = {}

        def jobs() -> Iterator[Job]:
            for number in itertools.count():
                run = begun.popleft() if begun else self._run(next(fresh, None))
                if run is None:
                    return
                running[number] = run
                yield run.job()

        while True:
            for number, outcomes in self._sandbox.stream(jobs()):
                run = running.pop(number)
                if run.take(outcomes):
                    yield run
                else:
                    begun.append(run)
            if not begun:  # else the last ones of a stream have tests left
                return

    def _run(self, key: tuple[str, str] | None) -> _Run | None:
        return None if key is None else _Run(key, self._hidden[key[0]], self._limits_of(self._problems[key[0]]))
