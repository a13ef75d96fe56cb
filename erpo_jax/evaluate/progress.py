"""Progress of a measurement: bars on a terminal, a plain line every ten seconds elsewhere."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

EVERY_S = 10.0


class ProgressDisplay:
    """Shows parts of a measurement as they go on. Call `progress(part, done, total)`."""

    def __init__(self, console: Console | None = None):
        self._console = console or Console(stderr=True)
        self._bars = Progress(
            TextColumn("{task.description:>14}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self._console,
        )
        self._tasks: dict[str, TaskID] = {}
        self._last = 0.0

    def __enter__(self) -> ProgressDisplay:
        if self._console.is_terminal:
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self._bars.stop()

    def progress(self, part: str, done: int, total: int) -> None:
        """`done` of `total` of the part are ready."""
        if self._console.is_terminal:
            if part not in self._tasks:
                self._tasks[part] = self._bars.add_task(part, total=total)
            self._bars.update(self._tasks[part], completed=done, total=total)
            return
        now = time.monotonic()
        if done >= total or now - self._last >= EVERY_S:
            self._last = now
            self._console.print(f"{part}: {done}/{total}", highlight=False, markup=False)
