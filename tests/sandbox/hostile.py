"""Hostile programs: in each, what it may end in. Standard library and erpo_jax.sandbox alone, because other users and
other interpreters run this file too: `python hostile.py TIER` runs those on standard input (a JSON list of [name,
program, mode, inputs, limits, verdicts, output]; if it is empty, those of hostile.txt) and prints what went wrong.
"""

from __future__ import annotations

import ast
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from erpo_jax.sandbox import Job, Limits, Sandbox

Case = tuple[str, str, str, Sequence[str], dict[str, Any], Sequence[str], "str | None"]

GOOD = Job("print(int(input()) + 1)", ("41\n",))
_SHORTHANDS = {
    "CALLS\n": "from ctypes import *\nimport os\nlibc = CDLL(None, use_errno=True)\nlibc.syscall.restype = c_long\n",
    "TRY\n": "def attempt(f, *a):\n    try: return f(*a)\n    except (OSError, ValueError): return None\n",
}
LIMITS: dict[str, Any] = {"cpu_s": 0.3, "memory_mb": 150, "output_bytes": 100_000}
SLEEPERS = {"a lock of its own", "a full pipe", "stops itself", "waits for a child"}
LONGER = {
    "doubling",
    "anonymous maps",
    "shared memory",
    "endless file",
    "fork by the library",
    "memory of others",
    "zip bomb",
}
BESIDE_MB = 64
"""Resident memory beside the limit: the interpreter, and what is set free to report a MemoryError."""


def cases() -> list[Case]:
    """The programs of hostile.txt as `wrong` takes them."""
    _, *sections = Path(__file__).with_name("hostile.txt").read_text().split("\n=== ")
    found: list[Case] = []
    for section in sections:
        head, _, program = section.partition("\n")
        name, verdicts, output = head.split(" | ")
        for word, text in _SHORTHANDS.items():
            program = program.replace(word, text)
        limits = LIMITS | ({"cpu_s": 3.0} if name in LONGER else {"wall_s": 0.5} if name in SLEEPERS else {})
        known = None if output == "*" else ast.literal_eval(output)
        found.append((name, program, "stdin", [""], limits, verdicts.split(), known))
    return found


def wrong(sandbox: Sandbox, programs: Sequence[Case]) -> list[str]:
    """Runs each, a good program after it, and says what went otherwise than it should, and what is left of it."""
    at_rest = _below(sandbox.worker_pids[0])[: sandbox.tier == "namespaces"]
    files = len(os.listdir("/proc/self/fd"))
    found = []
    for name, program, mode, inputs, limits, verdicts, output in programs:
        job = Job(program, tuple(inputs), mode, "solve" if mode == "function" else None, Limits(**limits))  # type: ignore[arg-type]
        outcomes, (good,) = sandbox.run([job, GOOD])
        for outcome in outcomes:
            if "LEAK" in (outcome.output or "") and sandbox.tier != "seccomp":
                found.append(f"{name} leaks: {outcome.output}")
            fits = output is None or outcome.verdict != "ok" or outcome.output == output
            if outcome.verdict not in verdicts or not fits or outcome.memory_mb > job.limits.memory_mb + BESIDE_MB:
                found.append(f"{name}: {outcome}"[:300])
        if (good.verdict, good.output) != ("ok", "42\n"):
            found.append(f"the program after {name}: {good}")
        end = time.monotonic() + 5
        while (left := _below(sandbox.worker_pids[0])) != at_rest and time.monotonic() < end:
            time.sleep(0.005)
        if left != at_rest:
            found.append(f"{name} leaves processes {left}, {at_rest} before")
    if len(os.listdir("/proc/self/fd")) != files:
        found.append("descriptors are left open")
    return found


def _below(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [found for child in children for found in (int(child), *_below(int(child)))]


if __name__ == "__main__":
    with Sandbox(workers=1, tier=sys.argv[1]) as made:
        print(json.dumps([os.geteuid(), wrong(made, json.load(sys.stdin) or cases())]))
