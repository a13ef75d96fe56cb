"""What an execution costs in the sandbox, against a plain interpreter started for each; and a long row of executions.

A step is some programs, no two alike, each on some inputs: made ones, as small as programs get, so that the sandbox is
all there is to measure; or the right programs that came with a data set, on its own tests, as they are. A step with
endless programs stands beside the least it can cost: the clean step, and the CPU seconds that these burn until their
limit, spread over the workers.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from erpo_jax.evaluate.estimates import EvaluationError
from erpo_jax.evaluate.hidden import load_hidden
from erpo_jax.evaluate.solutions import load_solutions
from erpo_jax.sandbox import Job, Limits, Sandbox

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
_FAULTY = ("n = {k} // 0", "n = [{k}] * 10**9", "while True:\n    print({k})", _ENDLESS)
_AMPLE = Limits(cpu_s=20.0)  # every program of a clean step is to end by itself
_TEXT = "20\n" + " ".join(str(n * 7919 % 1000) for n in range(20)) + "\n"


@dataclass(frozen=True)
class Cost:
    """What a number of executions took: seconds of CPU, of all processes, and of wall time."""

    executions: int
    cpu_s: float
    wall_s: float

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.executions + other.executions, self.cpu_s + other.cpu_s, self.wall_s + other.wall_s)


_NOTHING = Cost(0, 0.0, 0.0)


@dataclass(frozen=True)
class Comparison:
    """A step in the sandbox, without and with one endless candidate per group, beside plain interpreters one after
    another."""

    plain: Cost
    clean: Cost
    endless: Cost
    least: Cost
    """The least that the step with endless candidates can take when the clean one takes what it takes."""
    step: int
    """Executions of a step."""

    def lines(self, title: str) -> list[str]:
        """The table as text."""
        rows = {
            "plain interpreter, one by one": self.plain,
            "sandbox": self.clean,
            "sandbox, an endless one per group": self.endless,
            "  the least that can take": self.least,
        }
        found = [f"{title:34}{'executions':>10}{'CPU ms':>9}{'wall ms':>9}{'CPU x':>8}{'wall x':>8}{'step s':>8}"]
        for name, cost in rows.items():
            cpu, wall = cost.cpu_s / cost.executions, cost.wall_s / cost.executions
            ratios = cpu * self.plain.executions / self.plain.cpu_s, wall * self.plain.executions / self.plain.wall_s
            found.append(
                f"{name:34}{cost.executions:>10}{1e3 * cpu:>9.2f}{1e3 * wall:>9.2f}{ratios[0]:>8.3f}{ratios[1]:>8.3f}"
                f"{wall * self.step:>8.1f}"
            )
        found.append(
            f"an endless candidate per group: {self.endless.wall_s / self.clean.wall_s:.2f}x the clean step's wall; "
            f"no less than {self.least.wall_s / self.clean.wall_s:.2f}x can do "
            f"({self.endless.wall_s / self.least.wall_s:.2f}x the least)"
        )
        return found


def made_step(programs: int, probes: int, numpy: bool = False) -> list[Job]:
    """The smallest programs: a line in, a line out. No two compile to the same code."""
    kinds = (_NUMPY,) if numpy else _KINDS
    return [Job(kinds[n % len(kinds)].format(k=n + 2), (_TEXT,) * probes, limits=_AMPLE) for n in range(programs)]


def real_step(folder: Path, executions: int, probes: int) -> list[Job]:
    """The right programs of a data set that launch/prepare.py has split, in file order, each on its problem's first
    tests, until there are so many executions. Problems on standard input alone: the others have no plain counterpart.
    Raises EvaluationError for a file that is not valid or holds no such program."""
    solutions = load_solutions(folder / "solutions.jsonl")
    jobs: list[Job] = []
    for name, tests in load_hidden(folder / "hidden.jsonl").items():
        inputs = tuple(case.input for case in tests.cases[:probes])
        right = dict.fromkeys(one.program for one in solutions.get(name, ()) if one.correct)
        for program in right if tests.kind == "stdin" else ():
            if executions <= 0:
                return jobs
            jobs.append(Job(program, inputs[:executions], limits=_AMPLE))
            executions -= len(inputs)
    if not jobs:
        raise EvaluationError(f"{folder} holds no right program of a problem on standard input")
    return jobs


def compare(
    clean: list[Job],
    workers: int = 2,
    candidates: int = 16,
    rounds: int = 3,
    plain: int = 64,
    numpy: bool = False,
    cpu_limit_s: float = 0.5,
) -> Comparison:
    """The step `clean`, the same with the first of every `candidates` programs endless, and `plain` of its executions
    in plain interpreters: all of it in each round, in turns."""
    endless = list(clean)
    for number, at in enumerate(range(0, len(clean), candidates)):
        source = _ENDLESS.format(k=number)
        endless[at] = Job(source, clean[at].inputs, limits=Limits(cpu_s=cpu_limit_s))
    step = [(job.program or "", text) for job in clean for text in job.inputs]
    # spread over the programs, and over the inputs of each
    sample = [step[(n * len(step) // plain + n) % len(step)] for n in range(plain)]
    alone = quick = slow = _NOTHING
    rest = []
    with Sandbox(workers=workers, preload_numpy=numpy, share_identical=False) as sandbox:
        for turn in range(rounds):
            alone += _plain(sample[turn::rounds])
            cost, by_program = _sandboxed(sandbox, clean)
            quick += cost
            rest.append(1 - sum(by_program[::candidates]) / sum(by_program))
            slow += _sandboxed(sandbox, endless)[0]
    kept, burnt = sum(rest) / rounds, rounds * len(clean[::candidates]) * cpu_limit_s
    least = Cost(slow.executions, kept * quick.cpu_s + burnt, kept * quick.wall_s + burnt / workers)
    return Comparison(alone, quick, slow, least, len(step))


def in_a_row(executions: int, workers: int = 2, slices: int = 10) -> Iterator[str]:
    """So many executions in one sandbox, some of them faulty; after each slice what is held by the trainer and by the
    workers, and in the end how often each verdict fell."""
    jobs = _endless_jobs(probes := 10)
    verdicts: Counter[str] = Counter()
    yield f"{'executions':>10}{'seconds':>9}  {'trainer MB':>11}{'files':>6}  {'workers MB':>11}{'files':>6}"
    begun = time.monotonic()
    with Sandbox(workers=workers) as sandbox:
        for _ in range(slices):
            for _, outcomes in sandbox.stream(islice(jobs, executions // slices // probes)):
                verdicts.update(outcome.verdict for outcome in outcomes)
            time.sleep(0.2)  # the last supervisor ends a moment after it has answered
            own = _held([os.getpid()])
            theirs = _held([pid for top in sandbox.worker_pids for pid in _tree(top)])
            yield (
                f"{verdicts.total():>10}{time.monotonic() - begun:>9.1f}  {own[0]:>11.1f}{own[1]:>6}  "
                f"{theirs[0]:>11.1f}{theirs[1]:>6}"
            )
    yield ", ".join(f"{name} {count}" for name, count in verdicts.most_common())


def _endless_jobs(probes: int) -> Iterator[Job]:
    """Every 25th is faulty: an exception, memory, output, time, in turn."""
    number = 0
    while True:
        number += 1
        kinds, turn = (_FAULTY, number // 25) if number % 25 == 0 else (_KINDS, number)
        limits = Limits(cpu_s=0.1, memory_mb=128, output_bytes=10_000)
        yield Job(kinds[turn % len(kinds)].format(k=number), (_TEXT,) * probes, limits=limits)


def _plain(executions: list[tuple[str, str]]) -> Cost:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.monotonic()
    for source, text in executions:
        subprocess.run([sys.executable, "-I", "-c", source], input=text.encode(), capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(len(executions), cpu, time.monotonic() - begun)


def _sandboxed(sandbox: Sandbox, jobs: list[Job]) -> tuple[Cost, list[float]]:
    """What the jobs took in all, and the CPU seconds of each program."""
    before = time.process_time() + sum(map(_cpu_below, sandbox.worker_pids))
    begun = time.monotonic()
    found = sandbox.run(jobs)
    wall = time.monotonic() - begun
    verdicts = Counter(outcome.verdict for outcomes in found for outcome in outcomes)
    if not verdicts.keys() <= {"ok", "timeout"}:
        raise RuntimeError(f"a program of the benchmark went wrong: {dict(verdicts)}")
    cost = Cost(verdicts.total(), time.process_time() + sum(map(_cpu_below, sandbox.worker_pids)) - before, wall)
    return cost, [sum(outcome.cpu_s for outcome in outcomes) for outcomes in found]


def _cpu_below(pid: int) -> float:
    """CPU seconds of a process, of those below it, and of those below it that have ended."""
    total = 0.0
    for found in _tree(pid):
        try:
            fields = Path(f"/proc/{found}/stat").read_text().rsplit(")", 1)[1].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        total += sum(int(field) for field in fields[11:15]) / os.sysconf("SC_CLK_TCK")
    return total


def _tree(pid: int) -> Iterator[int]:
    """A process and all below it."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return
    yield pid
    for child in children:
        yield from _tree(int(child))


def _held(pids: list[int]) -> tuple[float, int]:
    """Resident MB and open files of some processes."""
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6, sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in pids)
