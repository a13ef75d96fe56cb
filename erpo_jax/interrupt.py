"""Ctrl-C and a scheduler's SIGTERM, turned into one exception at a place where nothing is half done."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType


class Stopped(Exception):
    """The run was told to stop; `signum` says by which signal."""

    def __init__(self, signum: int):
        super().__init__(f"told to stop by {signal.Signals(signum).name}")
        self.signum = signum


class Interrupt:
    """While entered, the first SIGINT or SIGTERM is remembered and `check()` raises Stopped.

    A second SIGINT ends at once.
    """

    def __init__(self) -> None:
        self._signum: int | None = None
        self._before: dict[int, object] = {}

    def check(self) -> None:
        if self._signum is not None:
            raise Stopped(self._signum)

    def _remember(self, signum: int, frame: FrameType | None) -> None:
        if self._signum is not None and signum == signal.SIGINT:
            raise KeyboardInterrupt
        self._signum = signum

    def __enter__(self) -> Interrupt:
        for signum in (signal.SIGINT, signal.SIGTERM):
            self._before[signum] = signal.signal(signum, self._remember)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)  # type: ignore[arg-type]
