"""`python -m erpo_jax.sandbox run program.py < input` and `python -m erpo_jax.sandbox selftest`."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from erpo_jax.sandbox.outcome import Job, Limits, SandboxError
from erpo_jax.sandbox.sandbox import Sandbox

_TIERS = ("auto", "namespaces", "landlock", "seccomp", "unsafe")


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{message} (--help lists what there is)\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0 ok, 1 any other verdict or a failed self-test, 2 a mistake of the user's."""
    parser = _Parser(prog="python -m erpo_jax.sandbox", description="Run an untrusted program, or test the sandbox.")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run a program on standard input; the verdict goes to standard error")
    run.add_argument("program", type=Path, help="a Python file")
    run.add_argument(
        "--function",
        metavar="NAME",
        help="call this function, or method of class Solution, on the JSON list on standard input; prints its value",
    )
    run.add_argument("--cpu", type=float, default=2.0, help="CPU seconds (default 2)")
    run.add_argument("--memory", type=int, default=1024, help="MiB (default 1024)")
    run.add_argument("--output", type=int, default=1_000_000, help="bytes of output (default 1000000)")
    run.add_argument("--wall", type=float, help="wall seconds (default max(10, 5 * cpu))")
    test = commands.add_parser("selftest", help="run known programs, good and hostile, in a tier")
    for command in (run, test):
        command.add_argument(
            "--tier", choices=_TIERS, default="auto", help="isolation (default auto, the strongest there is)"
        )
        command.add_argument("--unsafe", action="store_true", help="allow the tier without isolation")
    chosen = parser.parse_args(arguments)
    logging.basicConfig(format="%(message)s", level=logging.INFO)
    try:
        return _run(chosen) if chosen.command == "run" else _selftest(chosen)
    except SandboxError as error:
        print(str(error).removeprefix("job 0: "), file=sys.stderr)
        return 2 if chosen.command == "run" else 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _run(chosen: argparse.Namespace) -> int:
    try:
        program = chosen.program.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SandboxError(f"cannot read {chosen.program}: {error}") from error
    for name in ("cpu", "memory", "output", "wall"):
        value = getattr(chosen, name)
        if value is not None and not value > 0:
            raise SandboxError(f"--{name} {value:g} must be greater than 0")
    limits = Limits(chosen.cpu, chosen.memory, chosen.output, chosen.wall)
    try:
        text = sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise SandboxError(f"standard input is not UTF-8: {error}") from error
    job = Job(program, (text,), "stdin" if chosen.function is None else "function", chosen.function, limits)
    with Sandbox(workers=1, tier=chosen.tier, unsafe=chosen.unsafe) as sandbox:
        outcome = sandbox.run([job])[0][0]
    output = outcome.output or ""
    if output and chosen.function is not None:
        output += "\n"
    try:
        sys.stdout.buffer.write(output.encode("utf-8"))
        sys.stdout.flush()
    except BrokenPipeError:  # whoever reads has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    detail = f": {outcome.detail}" if outcome.detail else ""
    spent = f"CPU {outcome.cpu_s:.3f} s, wall {outcome.wall_s:.3f} s, {outcome.memory_mb:.0f} MB"
    print(f"{outcome.verdict}{detail} ({spent})", file=sys.stderr)
    return 0 if outcome.verdict == "ok" else 1


def _selftest(chosen: argparse.Namespace) -> int:
    begun = time.monotonic()
    with Sandbox(workers=1, tier=chosen.tier, unsafe=chosen.unsafe) as sandbox:
        for reason in sandbox.refused:
            print(f"passed over: {reason}")
        print(f"tier {sandbox.tier}: ok ({time.monotonic() - begun:.1f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
