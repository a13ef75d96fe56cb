"""One program on one input, seen from outside: forks P, reads its pipes, watches its clock, and gives the verdict.

P is believed only where it speaks of itself: how its exception is called, and the value it returned.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import time

from erpo_jax.sandbox import values
from erpo_jax.sandbox.program import CONFINED, REPORT_FD, Program

TYPE_CHECKING = False  # workers do not load `typing`
if TYPE_CHECKING:
    from typing import Any

_DETAIL = 300  # characters of a detail that are kept
_F_ADD_SEALS, _SEALS = 1033, 0x000F  # seal, shrink, grow, write
_QUIET_MS = 3  # how long a full pipe may wait: a program that prints line by line must not wake C for each
_LONGEST_S = 1000.0  # that one poll may wait: its number has 31 bits
_CHUNK = 1 << 16
_FULL = 0.9  # share of the memory limit from which on a crash counts as a lack of memory
_PATIENCE = 20  # wall seconds for each of CPU used: a program that waits for the processor is no sleeper


class Probe:
    """One run of `program` on `text`: start it, `watch` it, then ask for the `outcome`."""

    def __init__(self, program: Program, limits: dict[str, Any], text: str) -> None:
        self.limits, self.cap = limits, int(limits["output_bytes"])
        self.function = program.entry_point is not None
        self.output, self.report, self.errors, self.killed = bytearray(), bytearray(), 0, ""
        stdin = _sealed("" if self.function else text)
        self.out, out = os.pipe()
        self.err, err = os.pipe()
        self.back, back = os.pipe()
        self.started = time.monotonic()
        self.pid = os.fork()
        if self.pid == 0:
            os.dup2(back, REPORT_FD)
            os.dup2(stdin, 0)
            os.dup2(out, 1)
            os.dup2(err, 2)
            program.run(text)
        for handle in (stdin, out, err, back):
            os.close(handle)

    def watch(self) -> None:
        """Sees the process to its end. It is gone when this returns, whatever it did."""
        handle = os.pidfd_open(self.pid)
        end = select.poll()
        end.register(handle, select.POLLIN)
        for pipe in (self.out, self.err, self.back):
            os.set_blocking(pipe, False)
        if not end.poll(_QUIET_MS):
            self._watch_pipes(handle, end)
        _, self.status, self.usage = os.wait4(self.pid, 0)
        for pipe in (self.out, self.err, self.back):
            while self._drain(pipe) and not self._too_much():
                pass
            os.close(pipe)
        os.close(handle)
        self.wall = time.monotonic() - self.started
        self.cpu = self.usage.ru_utime + self.usage.ru_stime

    def _watch_pipes(self, handle: int, end: select.poll) -> None:
        everything = select.poll()
        for number in (handle, self.out, self.err, self.back):
            everything.register(number, select.POLLIN)
        while True:
            left, why = self._time_left()
            if (left <= 0 or self._too_much()) and not self.killed:
                self.killed = why if left <= 0 else "output"
                os.kill(self.pid, signal.SIGKILL)
            for number, _ in everything.poll(1000 if self.killed else int(min(max(left, 0.0), _LONGEST_S) * 1000) + 1):
                if number != handle and not self._drain(number):
                    everything.unregister(number)
            if end.poll(_QUIET_MS):
                return

    @property
    def timed_out(self) -> bool:
        """Whether the verdict is to be `timeout`."""
        if self._too_much():
            return False
        return bool(self.killed) or self.cpu > self.limits["cpu_s"] or self.status & 0x7F == signal.SIGXCPU

    def outcome(self) -> dict[str, Any]:
        """The outcome as it goes to the trainer. Best asked for late: each page that C writes is one to copy at the
        next fork."""
        verdict = self._verdict()
        verdict["cpu_s"] = round(self.cpu, 6)
        verdict["wall_s"] = round(self.wall, 6)
        verdict["memory_mb"] = round(self.usage.ru_maxrss / 1024, 3)
        return verdict

    def _time_left(self) -> tuple[float, str]:
        """Seconds until the first limit, and what that would be."""
        try:
            cpu = time.clock_gettime(~self.pid << 3 | 2)
        except OSError:
            cpu = 0.0  # it has just ended
        cpu_limit, wall_limit = self.limits["cpu_s"], self.limits["wall_s"]
        if not self.limits["wall_fixed"]:
            wall_limit = max(wall_limit, _PATIENCE * cpu)
        cpu_left, wall_left = cpu_limit - cpu, self.started + wall_limit - time.monotonic()
        if cpu_left <= wall_left:
            return cpu_left, f"used up {cpu_limit:g} s of CPU"
        return wall_left, f"ran for {wall_limit:g} s"

    def _drain(self, pipe: int) -> bool:
        """Reads once. False when nothing is there, now or for ever."""
        try:
            piece = os.read(pipe, _CHUNK)
        except BlockingIOError:
            return False
        if pipe == self.out:
            self.output += piece
        elif pipe == self.err:
            self.errors += len(piece)
        else:
            self.report += piece
        return bool(piece)

    def _too_much(self) -> bool:
        return len(self.output) > self.cap or self.errors > self.cap or len(self.report) > self.cap + 1024

    def _verdict(self) -> dict[str, Any]:
        if not self.report.startswith(CONFINED):
            how = self.report.decode("utf-8", "replace") or _ending(self.status)
            return {"verdict": "sandbox_error", "detail": f"the program could not be confined: {one_line(how)}"}
        if self._too_much():
            kept = None if self.function else _text(self.output[: self.cap])
            return {"verdict": "output_limit", "output": kept, "detail": f"more than {self.cap} bytes of output"}
        if self.timed_out:
            return {"verdict": "timeout", "detail": self.killed or f"used up {self.limits['cpu_s']:g} s of CPU"}
        number, code = self.status & 0x7F, self.status >> 8
        if number == signal.SIGKILL:  # not by C, and a program cannot do that to itself
            return {"verdict": "sandbox_error", "detail": "the program was killed from outside the sandbox"}
        kind, _, word = self.report[len(CONFINED) :].decode("utf-8", "replace").partition(":")
        if number or (code and word.startswith("SystemError")):
            how = _ending(self.status) if number else word
            # C code that finds no memory breaks in other ways than a MemoryError
            full = self.usage.ru_maxrss >= _FULL * (self.limits["memory_mb"] << 10)
            return {"verdict": "memory" if full else "error", "detail": one_line(how)}
        if code:
            known = kind in ("memory", "output_limit", "error")
            return {
                "verdict": kind if known else "error",
                "detail": one_line(word) if known else _ending(self.status),
            }
        if not self.function:
            return {"verdict": "ok", "output": _text(self.output)}
        if kind != "value":
            return {"verdict": "error", "detail": "the program ended before the function returned"}
        if not values.is_canonical(word):
            return {"verdict": "error", "detail": "the program forged the report of its value"}
        return {"verdict": "ok", "output": word}


def one_line(text: str) -> str:
    """A program's words about itself, cut, and as they may stand in a log and on a terminal."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text[:_DETAIL])


def _sealed(text: str) -> int:
    """A memory file with `text`, to be read from its start and changed by nobody."""
    handle = os.memfd_create("stdin", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    data = memoryview(text.encode("utf-8", "surrogatepass"))
    while data:
        data = data[os.write(handle, data) :]
    fcntl.fcntl(handle, _F_ADD_SEALS, _SEALS)
    os.lseek(handle, 0, os.SEEK_SET)
    return handle


def _text(raw: bytearray) -> str:
    return raw.decode("utf-8", "backslashreplace")


def _ending(status: int) -> str:
    """What a wait status says, for people."""
    number = status & 0x7F
    try:
        return signal.Signals(number).name if number else f"exit status {status >> 8}"
    except ValueError:
        return f"signal {number}"
