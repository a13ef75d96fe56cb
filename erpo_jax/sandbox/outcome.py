"""What goes into the sandbox (jobs) and what comes out (outcomes). Standard library only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Verdict = Literal["ok", "timeout", "memory", "output_limit", "error", "no_program", "sandbox_error"]


class SandboxError(ValueError):
    """The sandbox cannot be had as asked, fails its self-test, or was given a job that is none. One line for people."""


@dataclass(frozen=True)
class Limits:
    """Per program and input. The wall limit (seconds) defaults to max(10, 5 * cpu_s)."""

    cpu_s: float = 2.0
    memory_mb: int = 1024
    output_bytes: int = 1_000_000
    wall_s: float | None = None


@dataclass(frozen=True)
class Job:
    """One program and the inputs it runs on, each in a process of its own.

    stdin mode: an input is the text fed to standard input, the output is what was written to standard output. function
    mode: an input is a JSON list of arguments for `entry_point` (a bare function or a method of `class Solution`), the
    output is the returned value in the canonical typed encoding (docs/sandbox.md). `program` None is the verdict
    `no_program` on every input.
    """

    program: str | None
    inputs: tuple[str, ...]
    mode: Literal["stdin", "function"] = "stdin"
    entry_point: str | None = None
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True)
class Outcome:
    """What became of one program on one input.

    `output` is None unless the verdict is `ok` (or `output_limit`: what came before the cap). `skipped` marks an input
    that was not run because an earlier one of the same job timed out. `shared` marks one taken over from an identical
    program of the same call. `detail` is one line for people (the exception, the signal).
    """

    verdict: Verdict
    output: str | None = None
    cpu_s: float = 0.0
    wall_s: float = 0.0
    memory_mb: float = 0.0
    skipped: bool = False
    shared: bool = False
    detail: str = ""
