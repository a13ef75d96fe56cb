"""`Sandbox`: the public face. Chooses a tier, turns jobs into tickets for the pool and answers into outcomes."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any

from erpo_jax.sandbox import selftest
from erpo_jax.sandbox.outcome import Job, Outcome, SandboxError
from erpo_jax.sandbox.pool import Driver, Pool
from erpo_jax.sandbox.worker import Ticket

TIERS = ("namespaces", "landlock", "seccomp")  # strongest first
_WEAKER = {
    "landlock": "programs run under Landlock and seccomp, without namespaces of their own",
    "seccomp": "programs can READ every file that this user can read; better run where there are user namespaces",
    "unsafe": "programs run WITHOUT ISOLATION, with limits alone",
}
_BATCH = 32  # programs fingerprinted at once
_MOST = 10**9  # of any limit
_PATIENCE = 20.0  # as in judge.py: wall seconds a program may take for each of CPU, at most
_log = logging.getLogger("erpo_jax.sandbox")


class Sandbox:
    """Runs untrusted programs, each on each of its inputs in a process of its own. docs/sandbox.md says what a tier
    covers.

    workers             worker processes; 0 is one per core this process may use
    tier                "auto" takes the strongest of namespaces, landlock, seccomp that passes the self-test here
    preload_numpy       import numpy once per worker instead of once per program that imports it
    skip_after_timeout  skip a job's later inputs after its first timeout; their outcomes say `skipped`
    unsafe              allow the tier "unsafe", which has no isolation
    share_identical     run programs that compile to the same code, on the same inputs, once

    Raises SandboxError when the tier is not to be had or fails the self-test. May be used from any thread, one call at
    a time.
    """

    def __init__(
        self,
        workers: int = 0,
        tier: str = "auto",
        preload_numpy: bool = False,
        skip_after_timeout: bool = True,
        unsafe: bool = False,
        share_identical: bool = True,
    ) -> None:
        if tier not in ("auto", *TIERS, "unsafe"):
            raise SandboxError(f"tier={tier} is not one of auto, {', '.join(TIERS)}, unsafe")
        if tier == "unsafe" and not unsafe:
            raise SandboxError("tier=unsafe runs programs without isolation and needs unsafe=True as well")
        if workers < 0:
            raise SandboxError(f"workers={workers} is less than 0; 0 is one per core")
        self._skip, self._share = skip_after_timeout, share_identical
        self._lock = threading.RLock()
        self._streaming = False
        self._pool: Driver[Any] | None = None
        self.executions_saved = 0
        """Executions that `share_identical` made unnecessary so far."""
        self.refused: tuple[str, ...] = ()
        """Why stronger tiers than this one were passed over."""
        self.tier = self._open(tier, workers, preload_numpy, unsafe)
        if self.tier in _WEAKER:
            reasons = "; ".join(self.refused) or "as asked"
            _log.warning("sandbox tier '%s': %s (%s)", self.tier, _WEAKER[self.tier], reasons)
        else:
            _log.info("sandbox tier '%s'", self.tier)

    def _open(self, tier: str, workers: int, preload_numpy: bool, unsafe: bool) -> str:
        """Starts the pool and gives its tier."""
        chosen = self._choose([tier] if tier != "auto" else [*TIERS, *(["unsafe"] if unsafe else [])], preload_numpy)
        try:
            self.pool.grow(workers or len(os.sched_getaffinity(0)))
        except SandboxError:
            self.close()
            raise
        return chosen

    def _choose(self, names: Sequence[str], preload_numpy: bool) -> str:
        for name in names:
            try:
                self._pool = Pool(name, 1, preload_numpy)
                self.self_test(name)
            except SandboxError as error:
                self.close()
                self.refused += (str(error),)
                continue
            return name
        raise SandboxError("; ".join(dict.fromkeys(self.refused)))

    @property
    def pool(self) -> Driver[Any]:
        """The workers. Raises SandboxError when closed."""
        if self._pool is None:
            raise SandboxError("the sandbox is closed")
        return self._pool

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends every worker and waits for that."""
        with self._lock:
            if self._pool is not None:
                self._pool.close()
                self._pool = None

    @property
    def worker_pids(self) -> list[int]:
        """The processes this one has started for its workers."""
        return [worker.pid for worker in self.pool.workers]

    def self_test(self, tier: str | None = None) -> None:
        """Runs known programs, good and hostile, one at least per verdict. Raises SandboxError with what went wrong."""
        wrong = selftest.failures(self.run, tier or self.tier)
        if wrong:
            raise SandboxError(f"the sandbox fails its self-test in tier '{tier or self.tier}': " + "; ".join(wrong))

    def run(self, jobs: Sequence[Job]) -> list[list[Outcome]]:
        """The outcomes of each job, one per input, in the order of `jobs`. Raises SandboxError for a job that is
        none."""
        results: list[list[Outcome]] = [[] for _ in jobs]
        for index, outcomes in self.stream(jobs):
            results[index] = outcomes
        return results

    def stream(self, jobs: Iterable[Job]) -> Iterator[tuple[int, list[Outcome]]]:
        """(index of the job, its outcomes) as jobs end. An iterator of jobs may be endless: it is read as workers
        become free. Identical programs run once only if `jobs` is a sequence. Raises SandboxError for a job that is
        none."""
        with self._lock, self._alone():
            pool = self.pool
            twins = self._twins(pool, jobs) if self._share and isinstance(jobs, Sequence) else {}
            copies = {index for group in twins.values() for index in group}
            empty: list[tuple[int, list[Outcome]]] = []

            def tickets() -> Iterator[Ticket]:
                for index, job in enumerate(jobs):
                    if job.program is None or not job.inputs:
                        empty.append((index, [Outcome("no_program")] * len(job.inputs)))
                    elif index not in copies:
                        yield self._ticket(index, job)

            for ticket in pool.drive(tickets()):
                if ticket.refused:
                    raise SandboxError(f"job {ticket.key}: {ticket.refused}")
                outcomes = [_outcome(item) for item in ticket.answers]
                yield ticket.key, outcomes
                for index in twins.get(ticket.key, ()):
                    self.executions_saved += len(outcomes)
                    yield index, [replace(outcome, shared=True) for outcome in outcomes]
                while empty:
                    yield empty.pop()
            while empty:
                yield empty.pop()

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """The lock lets the thread that holds it in again: from within the loop over a stream."""
        if self._streaming:
            raise SandboxError("a stream of this sandbox is under way; read it to its end or close it first")
        self._streaming = True
        try:
            yield
        finally:
            self._streaming = False

    def _ticket(self, index: int, job: Job) -> Ticket:
        limits = job.limits
        if job.mode not in ("stdin", "function"):
            raise SandboxError(f"job {index}: mode={job.mode} is not one of stdin, function")
        if job.mode == "function" and not job.entry_point:
            raise SandboxError(f"job {index}: function mode needs an entry_point")
        if isinstance(job.inputs, str) or not all(isinstance(text, str) for text in (job.program, *job.inputs)):
            raise SandboxError(f"job {index}: the program must be a text, and inputs a tuple of texts")
        for name in ("cpu_s", "memory_mb", "output_bytes", "wall_s"):
            value = getattr(limits, name)
            if value is not None and not 0 < value <= _MOST:
                raise SandboxError(f"job {index}: limit {name}={value} must be greater than 0 and at most {_MOST}")
        wall_s = limits.wall_s if limits.wall_s is not None else max(10.0, 5 * limits.cpu_s)
        message = {
            "program": job.program,
            "inputs": job.inputs,
            "mode": job.mode,
            "entry_point": job.entry_point,
            "skip": self._skip,
            "limits": {
                "cpu_s": limits.cpu_s,
                "wall_s": wall_s,
                "wall_fixed": limits.wall_s is not None,
                "memory_mb": int(limits.memory_mb),
                "output_bytes": int(limits.output_bytes),
            },
        }
        return Ticket(index, message, len(job.inputs), max(wall_s, _PATIENCE * limits.cpu_s))

    def _twins(self, pool: Driver[Any], jobs: Sequence[Job]) -> dict[int, list[int]]:
        """For a job that runs, the later ones that are the same: equal in all but the text of an equal program."""
        settings: dict[Any, dict[str, list[int]]] = {}
        for index, job in enumerate(jobs):
            if job.program is not None and job.inputs:
                same = settings.setdefault((job.mode, job.entry_point, job.limits, job.inputs), {})
                same.setdefault(job.program, []).append(index)
        doubtful = [(key, text) for key, texts in settings.items() if len(texts) > 1 for text in texts]
        marks = dict(zip(doubtful, self._fingerprints(pool, [text for _, text in doubtful]), strict=True))
        groups: dict[Any, list[int]] = {}
        for key, texts in settings.items():
            for text, indices in texts.items():
                groups.setdefault((key, marks.get((key, text)) or text), []).extend(indices)
        return {min(group): sorted(group)[1:] for group in groups.values() if len(group) > 1}

    def _fingerprints(self, pool: Driver[Any], programs: list[str]) -> list[str | None]:
        """Per program a mark that equal ones share; None for one that does not compile. Workers do that: a hostile
        source can break a compiler."""
        limits = {"cpu_s": 2.0, "memory_mb": 512}
        batches = [programs[at : at + _BATCH] for at in range(0, len(programs), _BATCH)]
        found: list[list[str | None]] = [[None] * len(batch) for batch in batches]
        tickets = (
            Ticket(index, {"fingerprint": batch, "limits": limits}, 1, 10.0 * len(batch))
            for index, batch in enumerate(batches)
        )
        for ticket in pool.drive(tickets):
            found[ticket.key] = ticket.answers[0].get("fingerprints", found[ticket.key])
        return [mark for batch in found for mark in batch]


def _outcome(item: dict[str, Any]) -> Outcome:
    return Outcome(
        verdict=item["verdict"],
        output=item.get("output"),
        cpu_s=item.get("cpu_s", 0.0),
        wall_s=item.get("wall_s", 0.0),
        memory_mb=item.get("memory_mb", 0.0),
        skipped=item.get("skipped", False),
        detail=item.get("detail", ""),
    )
