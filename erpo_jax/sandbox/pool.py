"""The pool: K workers of one tier, and the loop that keeps them busy and survives the loss of any of them.

The caller's thread drives everything; there are no threads here and no queue that grows: a ticket is read when a worker
has room for it. A job whose worker is lost is tried once more in a fresh one. `Driver` is what holds for workers on
other machines too (ray_sandbox.py, in the package above).
"""

from __future__ import annotations

import logging
import selectors
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

from erpo_jax.sandbox.outcome import SandboxError
from erpo_jax.sandbox.worker import Ticket, Worker

_log = logging.getLogger("erpo_jax.sandbox")


class Hold(Protocol):
    """The trainer's hold on a worker."""

    given: deque[Ticket]
    """What it holds, the running one first."""

    def give(self, ticket: Ticket) -> None:
        """Sends a ticket, or begins to."""


H = TypeVar("H", bound=Hold)


class Driver(ABC, Generic[H]):
    """Hands tickets to workers, wherever these are."""

    tries = 2
    """Times a job is begun at most, if its worker is lost each time."""
    ahead = 1
    """Jobs a worker holds at most: more, and one may wait behind a long one while another worker is idle."""
    workers: list[H]

    @abstractmethod
    def grow(self, workers: int) -> None:
        """Starts workers until there are so many. Raises SandboxError."""

    @abstractmethod
    def close(self) -> None:
        """Ends every worker and waits for that."""

    @abstractmethod
    def _gather(self, again: deque[Ticket]) -> Iterator[Ticket]:
        """Waits a while and yields the tickets that are done; those to be begun again go to `again`."""

    @abstractmethod
    def _replace(self, worker: H) -> None:
        """Ends a worker and starts another in its place."""

    def drive(self, tickets: Iterator[Ticket]) -> Iterator[Ticket]:
        """Gives each ticket to a worker and yields it when it is done or given up. Reads `tickets` as workers have
        room; what is under way when nobody asks for more is stopped."""
        again: deque[Ticket] = deque()
        try:
            more = True
            while True:
                more = self._feed(tickets, again, more)
                if not any(worker.given for worker in self.workers):
                    return
                yield from self._gather(again)
        finally:
            for worker in [worker for worker in self.workers if worker.given]:
                self._replace(worker)

    def _feed(self, tickets: Iterator[Ticket], again: deque[Ticket], more: bool) -> bool:
        for held in range(self.ahead):  # every worker gets one before any gets two
            for worker in self.workers:
                if len(worker.given) > held:
                    continue
                ticket = again.popleft() if again else next(tickets, None) if more else None
                if ticket is None:
                    return False
                self._give(worker, ticket)
        return more

    def _give(self, worker: H, ticket: Ticket) -> None:
        worker.give(ticket)

    def _lost(self, worker: H, how: str, again: deque[Ticket]) -> Iterator[Ticket]:
        _log.warning("a sandbox worker (%s) %s; starting another", worker, how)
        running, *queued = worker.given or [None]
        for ticket in queued:
            if ticket is not None:
                ticket.tries -= 1  # it never began
                again.append(ticket)
        self._replace(worker)
        if running is not None and running.tries < self.tries:
            again.append(running)
        elif running is not None:
            running.give_up(f"the sandbox worker {how}")
            yield running


class Pool(Driver[Worker]):
    """Workers on this machine. Raises SandboxError when one cannot be started."""

    def __init__(self, tier: str, workers: int, preload_numpy: bool) -> None:
        self.tier, self._preload_numpy = tier, preload_numpy
        self._waiting = selectors.DefaultSelector()
        self.workers: list[Worker] = []
        self.grow(workers)

    def grow(self, workers: int) -> None:
        # side by side
        fresh = [Worker(self.tier, self._preload_numpy) for _ in range(workers - len(self.workers))]
        try:
            for worker in fresh:
                worker.ready()
        except SandboxError:
            for worker in fresh:
                worker.close()
            raise
        for worker in fresh:
            self._watch(worker)
        self.workers += fresh

    def close(self) -> None:
        for worker in self.workers:
            worker.close()
        self.workers = []
        self._waiting.close()

    def _give(self, worker: Worker, ticket: Ticket) -> None:
        super()._give(worker, ticket)
        self._watch(worker)

    def _gather(self, again: deque[Ticket]) -> Iterator[Ticket]:
        for key, events in self._waiting.select(timeout=1.0):
            worker: Worker = key.data
            if events & selectors.EVENT_WRITE:
                worker.flush()
                self._watch(worker)
            if events & selectors.EVENT_READ:
                try:
                    done = worker.take()
                except EOFError:
                    yield from self._lost(worker, "ended", again)
                    continue
                for ticket in done:
                    if ticket.killed_from_outside and ticket.tries < self.tries:
                        again.append(ticket)
                    else:
                        yield ticket
        for worker in list(self.workers):
            if worker.silent_too_long:
                yield from self._lost(worker, "hung", again)

    def _replace(self, worker: Worker) -> None:
        self._waiting.unregister(worker.link)
        worker.close()
        self.workers.remove(worker)
        self.grow(len(self.workers) + 1)

    def _watch(self, worker: Worker) -> None:
        """Waits for what the worker has to say, and for room where we have something to say."""
        events = worker.events
        try:
            known = self._waiting.get_key(worker.link).events
        except KeyError:
            self._waiting.register(worker.link, events, worker)
            return
        if known != events:
            self._waiting.modify(worker.link, events, worker)
