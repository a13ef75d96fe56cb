"""The sandbox on the nodes of a Ray cluster: each worker is an actor that holds a local sandbox of one worker.

What runs, in which order, and what is shared between equal programs is decided as for local workers (sandbox/pool.py,
sandbox/sandbox.py); only the way to a worker differs. A node that is lost takes along its workers, and the jobs they
held are begun again on others; a node that comes later is used. Left out: shipping the package. Nodes need erpo_jax
installed, as they need Ray.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Any, cast

from erpo_jax.sandbox import Sandbox, SandboxError
from erpo_jax.sandbox.pool import Driver
from erpo_jax.sandbox.sandbox import TIERS
from erpo_jax.sandbox.worker import Ticket

_START_SECONDS = 60.0
_KNOCK_SECONDS = 10.0
_FREE_SECONDS = 10.0  # what an earlier sandbox held is given back after a while
_OPENINGS = 3  # a worker's node may be lost while it starts
_STRENGTH = [*TIERS, "unsafe"]
_log = logging.getLogger("erpo_jax.sandbox")


class RaySandbox(Sandbox):
    """As `Sandbox`, with its workers on the nodes of a Ray cluster, a CPU of the cluster for each.

    address       of the cluster ("host:port"), or "auto" for the one this machine belongs to
    workers       0 is one for each free CPU of the cluster
    tier          "auto" takes on each node the strongest that passes the self-test there; `tier` then says the weakest
                  in use. A node without the tier asked for is left out, and `refused` says why

    Raises SandboxError when Ray is not installed or cannot be reached, and when no node passes the self-test.
    """

    def __init__(self, address: str = "auto", **settings: Any) -> None:
        self._address, self._connected = address, False
        super().__init__(**settings)

    def _open(self, tier: str, workers: int, preload_numpy: bool, unsafe: bool) -> str:
        try:
            self._connect()
            pool = RayPool({"tier": tier, "preload_numpy": preload_numpy, "unsafe": unsafe})
            self._pool = pool
            pool.grow(workers)
        except BaseException:
            self.close()
            raise
        self.refused = tuple(dict.fromkeys(pool.refused))
        return pool.tier

    def _connect(self) -> None:
        try:
            import ray
        except ImportError as error:
            raise SandboxError("the sandbox on Ray needs the package ray: pip install 'erpo_jax[ray]'") from error
        if ray.is_initialized():
            return
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        on_sigterm = signal.getsignal(signal.SIGTERM)
        try:
            _knock(os.environ.get("RAY_ADDRESS", "auto") if self._address == "auto" else self._address)
            ray.init(address=self._address, log_to_driver=False, configure_logging=False)
        except (OSError, RuntimeError, ValueError) as error:
            raise SandboxError(f"cannot connect to a Ray cluster at '{self._address}': {_reason(error)}") from error
        self._connected = True
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, on_sigterm)  # Ray puts its own in place: an exit without a word

    @property
    def worker_pids(self) -> list[int]:
        """None: the workers are processes of other machines."""
        return []

    def self_test(self, tier: str | None = None) -> None:
        """Runs known programs on every worker. Raises SandboxError with what went wrong."""
        import ray

        try:
            ray.get([worker.actor.self_test.remote() for worker in self.pool.workers])
        except ray.exceptions.RayError as error:
            raise SandboxError(_reason(error)) from error

    def close(self) -> None:
        """Ends every worker, and the connection if it was made here."""
        super().close()
        if self._connected:
            import ray

            ray.shutdown()
            self._connected = False


class _Host:
    """The actor: a local sandbox of one worker, on some node."""

    def open(self, settings: dict[str, Any]) -> tuple[str, str]:
        """The address of the node, and the tier it gives."""
        import ray

        self._sandbox = Sandbox(workers=1, **settings)
        return ray.util.get_node_ip_address(), self._sandbox.tier

    def run(self, ticket: Ticket) -> tuple[list[dict[str, Any]], str]:
        ticket.tries = 0
        (done,) = self._sandbox.pool.drive(iter([ticket]))
        return done.answers, done.refused

    def self_test(self) -> None:
        self._sandbox.self_test()


class _Remote:
    """The trainer's hold on one actor; what worker.Worker is to a local process."""

    def __init__(self, settings: dict[str, Any], openings: int = 1) -> None:
        import ray

        host = ray.remote(num_cpus=1, max_restarts=0)(_Host)
        self.actor = cast(Any, host.options(scheduling_strategy="SPREAD").remote())
        self.opening = self.actor.open.remote(settings)
        self.openings = openings
        self.node, self.tier = "", ""
        self.given: deque[Ticket] = deque()
        self.answers: deque[Any] = deque()  # what Ray calls a reference, one for each of `given`

    def __str__(self) -> str:
        return f"node {self.node}"

    def give(self, ticket: Ticket) -> None:
        ticket.answers = []
        ticket.tries += 1
        self.given.append(ticket)
        self.answers.append(self.actor.run.remote(ticket))


class RayPool(Driver[_Remote]):
    """Actors in place of local workers. Raises SandboxError when none is to be had."""

    ahead = 2  # the way to another machine is long
    tries = 5  # several nodes may go in a row; a program that breaks its worker is given up on its node

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self.workers = []
        self._opening: list[_Remote] = []
        self.tier = ""
        """The weakest in use; once it is known to the user, nothing weaker is taken in."""
        self._known = False
        self.refused: list[str] = []

    def grow(self, workers: int) -> None:
        """Starts workers until there are so many (0: one for each free CPU), and waits for those that have a CPU to run
        on. The others join when they find one."""
        import ray

        end = time.monotonic() + _FREE_SECONDS
        while not (free := int(ray.available_resources().get("CPU", 0))):
            if time.monotonic() > end:
                raise SandboxError("the Ray cluster has no free CPU for a sandbox worker")
            time.sleep(0.1)
        self._opening = [_Remote(self._settings) for _ in range(workers or free)]
        self._settle(min(workers or free, free))
        self._known = True
        if len(self.workers) < workers:
            _log.warning("%d of %d sandbox workers stand", len(self.workers), workers)

    def close(self) -> None:
        """Ends every worker."""
        for worker in [*self.workers, *self._opening]:
            _end(worker)
        self.workers, self._opening = [], []

    def _settle(self, count: int) -> None:
        """Waits until `count` of the workers that are starting stand or have failed."""
        import ray

        end = time.monotonic() + _START_SECONDS
        while count and self._opening:
            starting = {worker.opening: worker for worker in self._opening}
            ready, _ = ray.wait(list(starting), timeout=max(0.0, end - time.monotonic()))
            if not ready:
                break
            count -= self._welcome(starting[ready[0]])
        if not self.workers:
            reasons = "; ".join(dict.fromkeys(self.refused)) or f"none started within {_START_SECONDS:g} s"
            raise SandboxError(f"no node of the Ray cluster gives a sandbox worker: {reasons}")

    def _welcome(self, worker: _Remote) -> bool:
        """Takes in a worker that has started, or says why not. False if another is starting in its place."""
        import ray

        self._opening.remove(worker)
        try:
            worker.node, worker.tier = ray.get(worker.opening)
            reason = ""
            if self._known and _STRENGTH.index(worker.tier) > _STRENGTH.index(self.tier):
                reason = f"node {worker.node} came late and gives tier '{worker.tier}' only"
        except ray.exceptions.RayError as error:
            reason = _reason(error)
            if not isinstance(error, SandboxError) and worker.openings < _OPENINGS:
                _end(worker)
                self._opening.append(_Remote(self._settings, worker.openings + 1))
                return False
        if reason:
            _end(worker)
            self.refused.append(reason)
            _log.warning("a node of the Ray cluster is left out: %s", reason)
            return True
        self.workers.append(worker)
        self.tier = max((other.tier for other in self.workers), key=_STRENGTH.index)
        _log.info("sandbox worker on node %s, tier '%s'", worker.node, worker.tier)
        return True

    def _gather(self, again: deque[Ticket]) -> Iterator[Ticket]:
        import ray

        running = {worker.answers[0]: worker for worker in self.workers if worker.answers}
        starting = {worker.opening: worker for worker in self._opening}
        ready, _ = ray.wait([*running, *starting], timeout=1.0)
        for reference in ready:
            if reference in starting:
                self._welcome(starting[reference])
                continue
            worker = running[reference]
            try:
                answers, refused = ray.get(reference)
            except ray.exceptions.RayError as error:
                yield from self._lost(worker, f"was lost: {_reason(error)}", again)
                continue
            worker.answers.popleft()
            ticket = worker.given.popleft()
            ticket.answers, ticket.refused = answers, refused
            yield ticket

    def _replace(self, worker: _Remote) -> None:
        _end(worker)
        self.workers.remove(worker)
        self._opening.append(_Remote(self._settings))
        if not self.workers:
            self._settle(1)


def _knock(address: str) -> None:
    """Raises OSError when nobody listens at "host:port": Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), _KNOCK_SECONDS).close()


def _end(worker: _Remote) -> None:
    import ray

    ray.kill(worker.actor)


def _reason(error: BaseException) -> str:
    """One line of what Ray reports over many."""
    cause = getattr(error, "cause", None)
    lines = str(cause if isinstance(cause, SandboxError) else error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
