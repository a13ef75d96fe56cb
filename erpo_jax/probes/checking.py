"""Everything about a proposed input that takes running programs: trial programs, and checkers that the policy wrote."""

from __future__ import annotations

from collections.abc import Sequence

from erpo_jax.config import SandboxConfig
from erpo_jax.execution import limits_for
from erpo_jax.problems import Problem
from erpo_jax.sandbox import Job, Outcome, Sandbox

# Run after a policy-written `is_valid`: the text comes on standard input, the verdict is the last line written.
_ASK_CHECKER = """

import sys as _sys
print()
print("valid" if is_valid(_sys.stdin.read()) is True else "not valid")
"""


def crashes(
    asked: Sequence[tuple[Problem, Sequence[str], Sequence[str]]], sandbox: Sandbox, config: SandboxConfig
) -> list[list[list[bool]]]:
    """For each (problem, programs, inputs): whether program i crashed on input j.

    A crash is any verdict but `ok`. When the sandbox itself failed nothing is held against the input.
    """
    jobs = [
        # A job per input: a timeout on one input must not skip the others.
        Job(program, (text,), problem.mode, problem.entry_point, limits_for(problem, config))
        for problem, programs, inputs in asked
        for program in programs
        for text in inputs
    ]
    outcomes = iter(_run(jobs, sandbox))
    return [
        [[next(outcomes).verdict not in ("ok", "sandbox_error") for _ in inputs] for _ in programs]
        for _, programs, inputs in asked
    ]


def validity(
    asked: Sequence[tuple[Problem, str, Sequence[str]]], sandbox: Sandbox, config: SandboxConfig
) -> list[list[bool]]:
    """For each (problem, checker, inputs): whether the checker says that input j is valid. A crash is no."""
    jobs = [
        Job(checker + _ASK_CHECKER, (text,), "stdin", None, limits_for(problem, config))
        for problem, checker, inputs in asked
        for text in inputs
    ]
    outcomes = iter(_run(jobs, sandbox))
    return [[_says_valid(next(outcomes)) for _ in inputs] for _, _, inputs in asked]


def _run(jobs: Sequence[Job], sandbox: Sandbox) -> list[Outcome]:
    return [outcomes[0] for outcomes in sandbox.run(list(jobs))] if jobs else []


def _says_valid(outcome: Outcome) -> bool:
    return outcome.verdict == "ok" and (outcome.output or "").rstrip("\n").rsplit("\n", 1)[-1] == "valid"
