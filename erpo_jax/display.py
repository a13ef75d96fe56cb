"""What a run shows: a live panel on a terminal, plain lines anywhere else. It never changes what the run does."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

# metric -> column head and format, in the order shown
COLUMNS = {
    "reward/mean": ("reward", "{:.3f}"),
    "reward/tied_groups": ("tied", "{:.2f}"),
    "update/entropy": ("H nats", "{:.4f}"),
    "update/kept_fraction": ("kept", "{:.2f}"),
    "update/kept_positive_share": ("up", "{:.2f}"),
    "update/loss": ("loss", "{:+.5f}"),
    "update/grad_norm": ("|g|", "{:.3g}"),
    "update/logprob_gap_max": ("gap max", "{:.1e}"),
    "seconds/step": ("s", "{:.1f}"),
}


class Display:
    """`say` prints a line that stays, `phase` shows progress inside a step, `step` adds a row of metrics."""

    def __init__(self, total_steps: int, console: Console | None = None, rows: int = 12):
        self.console = console or Console()
        self._live: Live | None = None
        self._rows: deque[tuple[int, Mapping[str, float]]] = deque(maxlen=rows)
        self._steps = _progress()
        self._phases = _progress()
        self._total = self._steps.add_task("steps", total=total_steps)
        self._last_line = 0.0

    def __enter__(self) -> Display:
        if self.console.is_terminal:
            self._live = Live(self._view(), console=self.console, refresh_per_second=4)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.update(self._view())
            self._live.stop()

    def say(self, line: str) -> None:
        self.console.print(line, highlight=False, markup=False, soft_wrap=True)

    @contextmanager
    def phase(self, name: str) -> Iterator[PhaseProgress]:
        """A part of a step with its own progress bar (terminal), or a line every ten seconds (elsewhere)."""
        task = self._phases.add_task(name, total=None)
        try:
            yield PhaseProgress(self, name, task)
        finally:
            self._phases.remove_task(task)

    def step(self, step: int, values: Mapping[str, float]) -> None:
        self._rows.append((step, values))
        self._steps.update(self._total, completed=step + 1)
        if self._live is not None:
            self._live.update(self._view())
            return
        cells = [f"{head} {form.format(values[name])}" for name, (head, form) in COLUMNS.items() if name in values]
        self.say(f"step {step}  " + "  ".join(cells))

    def start_at(self, step: int) -> None:
        self._steps.update(self._total, completed=step)

    def advance_phase(self, name: str, task: TaskID, done: int, total: int) -> None:
        self._phases.update(task, completed=done, total=total)
        now = time.monotonic()
        if self._live is None and now - self._last_line > 10 and done < total:
            self._last_line = now
            self.say(f"  {name} {done}/{total}")

    def _view(self) -> RenderableType:
        table = Table(box=None, padding=(0, 1))
        table.add_column("step", justify="right")
        for head, _ in COLUMNS.values():
            table.add_column(head, justify="right")
        for step, values in self._rows:
            table.add_row(
                str(step), *(form.format(values[name]) if name in values else "" for name, (_, form) in COLUMNS.items())
            )
        return Panel(Group(table, self._phases, self._steps), title="erpo_jax", title_align="left")


class PhaseProgress:
    """Called with (done, total) while a part of a step goes on."""

    def __init__(self, display: Display, name: str, task: TaskID):
        self._display, self._name, self._task = display, name, task

    def __call__(self, done: int, total: int) -> None:
        self._display.advance_phase(self._name, self._task, done, total)


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description:>10}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
