"""The trainer's hold on one worker: its process, its socket, the jobs it has been given.

Workers are new interpreters (never a fork of the trainer). One ends by itself when its socket closes or the trainer
dies, however that happens. Left out: threads; whoever calls drives the worker (pool.py).
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

from erpo_jax.sandbox import wire
from erpo_jax.sandbox.outcome import SandboxError

# -S: no code of installed packages runs before the sandbox stands. Not -I, which would ignore PYTHONHASHSEED
_FLAGS = ["-S", "-s", "-P", "-B", "-X", "utf8"]
_ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "PYTHONHASHSEED": "0",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
# for the interpreter alone, not for programs: some cannot start without the first; a symbol bound late is a page
# written in every fork; an arena per thread is 64 MB of a program's address space each
_PASSED_ON = ("LD_LIBRARY_PATH",)
_FOR_START = {"LD_BIND_NOW": "1", "MALLOC_ARENA_MAX": "1"}
_START_SECONDS = 60.0
_SILENCE_SECONDS = 60.0
_END_SECONDS = 5.0


class Ticket:
    """A message on its way to a worker, and what has come back."""

    def __init__(self, key: int, message: dict[str, Any], answers: int, seconds: float) -> None:
        self.key = key
        self.frame = wire.pack(message)
        self.expected = answers
        self.seconds = seconds  # wall time within which each answer must come, if the worker is alive
        self.tries = 0
        self.answers: list[dict[str, Any]] = []
        self.refused = ""

    @property
    def killed_from_outside(self) -> bool:
        return any(item.get("verdict") == "sandbox_error" for item in self.answers)

    def give_up(self, reason: str) -> None:
        self.answers = [{"verdict": "sandbox_error", "detail": reason}] * self.expected


class Worker:
    """One worker process. Wait until it is `ready`, then `give` and `take`. Raises SandboxError."""

    def __init__(self, tier: str, preload_numpy: bool) -> None:
        self.tier = tier
        self.given: deque[Ticket] = deque()
        self._frames = wire.Frames()
        self._outbox = bytearray()
        self._heard = time.monotonic()
        if sys.platform != "linux":
            raise SandboxError(f"the sandbox needs Linux; this is {sys.platform}")
        if not sys.executable:
            raise SandboxError("sys.executable is empty: the sandbox does not know which interpreter to start")
        self.link, inner = socket.socketpair()
        trainer = os.pidfd_open(os.getpid())
        settings = {
            "link": inner.fileno(),
            "parent": trainer,
            "tier": tier,
            "preload_numpy": preload_numpy,
            "flags": _FLAGS,
            "packages": [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))],
            "hidden": ["erpo_jax"],
            "drop_environment": [*_PASSED_ON, *_FOR_START],
        }
        boot = str(Path(__file__).with_name("boot.py"))
        environment = _ENVIRONMENT | _FOR_START | {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        try:
            self._process = subprocess.Popen(
                [sys.executable, *_FLAGS, boot, json.dumps(settings)],
                env=environment,
                pass_fds=(inner.fileno(), trainer),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            self.link.close()
            raise SandboxError(f"cannot start a sandbox worker with {sys.executable}: {error}") from error
        finally:
            inner.close()
            os.close(trainer)

    def ready(self) -> None:
        """Waits until the worker stands. Raises SandboxError with what it said."""
        self.link.settimeout(_START_SECONDS)
        messages: list[dict[str, Any]] = []
        try:
            while not messages:
                piece = self.link.recv(1 << 16)
                messages = self._frames.feed(piece) if piece else [{"failed": "it ended without a word"}]
        except OSError as error:
            messages = [{"failed": f"no answer within {_START_SECONDS:g} s ({error})"}]
        if "failed" in messages[0]:
            self.close()
            raise SandboxError(f"no sandbox worker of tier '{self.tier}': {messages[0]['failed']}")
        self.link.setblocking(False)

    def __str__(self) -> str:
        return f"process {self.pid}"

    @property
    def pid(self) -> int:
        """The process the trainer started; killing it ends the worker."""
        return self._process.pid

    def give(self, ticket: Ticket) -> None:
        """Sends a ticket, or begins to."""
        ticket.answers = []
        ticket.tries += 1
        if not self.given:
            self._heard = time.monotonic()
        self.given.append(ticket)
        self._outbox += ticket.frame
        self.flush()

    def flush(self) -> None:
        """Sends what the socket takes. A broken one shows at the next `take`."""
        with contextlib.suppress(BlockingIOError, ConnectionError):
            while self._outbox:
                sent = self.link.send(self._outbox[: 1 << 20])
                del self._outbox[:sent]

    @property
    def events(self) -> int:
        """What to wait for on `link`."""
        return selectors.EVENT_READ | (selectors.EVENT_WRITE if self._outbox else 0)

    def take(self) -> list[Ticket]:
        """The tickets that have come to their end. Raises EOFError when the worker is gone."""
        try:
            piece = self.link.recv(1 << 20)
        except BlockingIOError:
            return []
        except ConnectionError as error:
            raise EOFError from error
        if not piece:
            raise EOFError
        self._heard = time.monotonic()
        done = []
        for message in self._frames.feed(piece):
            ticket = self.given[0]
            if "refused" in message:
                ticket.refused = message["refused"]
            elif "every" in message:
                ticket.answers = [message["every"]] * ticket.expected
            else:
                ticket.answers.append(message)
            if ticket.refused or len(ticket.answers) == ticket.expected:
                done.append(self.given.popleft())
        return done

    @property
    def silent_too_long(self) -> bool:
        """Whether a program must have ended long ago: then the worker itself hangs."""
        return bool(self.given) and time.monotonic() - self._heard > self.given[0].seconds + _SILENCE_SECONDS

    def close(self) -> None:
        """Ends the worker and all in it, and waits for that."""
        self.link.close()
        try:
            self._process.wait(0.0 if self.given else _END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
