"""What an execution costs in the sandbox, against a plain interpreter started for each: CPU and wall, measured in
turns.

The programs are distinct and small, as in a training step; a step is groups x candidates x probes executions. Left out:
the cost of the programs themselves, which is the same on both sides and next to nothing here.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from erpo_jax.sandbox.outcome import Job, Limits
from erpo_jax.sandbox.sandbox import Sandbox

_KINDS = (
    "n = int(input())\na = list(map(int, input().split()))\nprint(sum(x * {k} % 7 for x in a), max(a), n)",
    "import sys\nn, *a = map(int, sys.stdin.read().split())\na.sort(key=lambda x: x % {k})\nprint(*a)",
    "from collections import Counter\ninput()\n"
    "c = Counter(x % {k} for x in map(int, input().split()))\nprint(c.most_common(3))",
    "import heapq\ninput()\nh = list(map(int, input().split()))\nheapq.heapify(h)\n"
    "print([heapq.heappop(h) + {k} for _ in range(5)])",
)
_NUMPY = (
    "import numpy as np\ninput()\na = np.array(input().split(), dtype=np.int64)\nprint((a * {k}).sum(), np.sort(a)[:3])"
)
_ENDLESS = "n = {k}\nwhile True:\n    n += 1"
_TEXT = "20\n" + " ".join(str(n * 7919 % 1000) for n in range(20)) + "\n"


@dataclass(frozen=True)
class Cost:
    """CPU and wall milliseconds per execution; the ratios are to the plain interpreter of the same table, one after
    another."""

    name: str
    executions: int
    cpu_ms: float
    wall_ms: float
    cpu_ratio: float
    wall_ratio: float


def measure(
    workers: int = 2,
    groups: int = 16,
    candidates: int = 16,
    probes: int = 10,
    rounds: int = 4,
    plain_per_round: int = 16,
    numpy: bool = False,
    cpu_limit_s: float = 0.5,
) -> list[Cost]:
    """The costs of a plain interpreter, of a clean step, and of a step with one endless candidate per group."""
    limits = Limits(cpu_s=cpu_limit_s)
    kinds = (_NUMPY,) if numpy else _KINDS
    # distinct for the sandbox too: no two compile to the same code
    sources = [kinds[n % len(kinds)].format(k=n + 2) for n in range(groups * candidates)]
    clean = [Job(source, (_TEXT,) * probes, limits=limits) for source in sources]
    endless = list(clean)
    for group in range(groups):
        endless[group * candidates] = Job(_ENDLESS.format(k=group), (_TEXT,) * probes, limits=limits)
    spent = {name: [0.0, 0.0] for name in ("plain interpreter", "sandbox", "sandbox, one endless per group")}
    share = len(clean) // rounds
    with Sandbox(workers=workers, preload_numpy=numpy) as sandbox:
        for turn in range(rounds):
            _add(spent["plain interpreter"], _plain(sources[turn * share :][:plain_per_round]))
            for name, jobs in (("sandbox", clean), ("sandbox, one endless per group", endless)):
                _add(spent[name], _sandboxed(sandbox, jobs[turn * share : (turn + 1) * share]))
    counts = (rounds * plain_per_round, rounds * share * probes, rounds * share * probes)
    plain = [total / counts[0] for total in spent["plain interpreter"]]
    return [
        Cost(name, count, 1e3 * cpu / count, 1e3 * wall / count, cpu / count / plain[0], wall / count / plain[1])
        for (name, (cpu, wall)), count in zip(spent.items(), counts, strict=True)
    ]


def show(costs: list[Cost]) -> str:
    """The table as text."""
    lines = [f"{'':32}{'executions':>10}{'CPU ms':>9}{'wall ms':>9}{'CPU x':>8}{'wall x':>8}{'step s':>9}"]
    lines += [
        f"{cost.name:32}{cost.executions:>10}{cost.cpu_ms:>9.2f}{cost.wall_ms:>9.2f}{cost.cpu_ratio:>8.3f}{cost.wall_ratio:>8.3f}"
        f"{cost.wall_ms * cost.executions / 1e3:>9.1f}"
        for cost in costs
    ]
    return "\n".join(lines)


def _add(total: list[float], spent: tuple[float, float]) -> None:
    total[0] += spent[0]
    total[1] += spent[1]


def _plain(sources: list[str]) -> tuple[float, float]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.monotonic()
    for source in sources:
        subprocess.run([sys.executable, "-I", "-c", source], input=_TEXT.encode(), capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, time.monotonic() - begun


def _sandboxed(sandbox: Sandbox, jobs: list[Job]) -> tuple[float, float]:
    before = time.process_time() + sum(map(_cpu_below, sandbox.worker_pids))
    begun = time.monotonic()
    found = sandbox.run(jobs)
    wall = time.monotonic() - begun
    assert {outcome.verdict for outcomes in found for outcome in outcomes} <= {"ok", "timeout"}
    return time.process_time() + sum(map(_cpu_below, sandbox.worker_pids)) - before, wall


def _cpu_below(pid: int) -> float:
    """CPU seconds of a process, of those below it, and of those below it that have ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except FileNotFoundError:
        return 0.0
    ticks = sum(int(field) for field in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK") + sum(_cpu_below(int(child)) for child in children)


if __name__ == "__main__":
    print(show(measure()))
    print(show(measure(numpy=True, groups=4)))
