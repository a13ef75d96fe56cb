"""Seconds of several contestants, run in turn, so that what else the machine does meets all of them."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax

from erpo_jax.errors import UserError


class BenchmarkError(UserError):
    """A benchmark that cannot be run as asked: names the option or the package."""


@dataclass(frozen=True)
class Timing:
    """Seconds of each measured run: by the clock, and of all processors together."""

    wall_s: tuple[float, ...]
    cpu_s: tuple[float, ...]

    def __str__(self) -> str:
        wall, cpu = (f"{min(s):.2f} / {statistics.median(s):.2f} s" for s in (self.wall_s, self.cpu_s))
        return f"wall {wall}, cpu {cpu}"


def in_turn(runs: Sequence[Callable[[], object]], repeats: int) -> list[Timing]:
    """Each run `repeats` times, one after the other and all over again. They must have compiled before."""
    measured: list[list[tuple[float, float]]] = [[] for _ in runs]
    for _ in range(repeats):
        for run, seconds in zip(runs, measured, strict=True):
            wall, cpu = time.perf_counter(), time.process_time()
            run()
            seconds.append((time.perf_counter() - wall, time.process_time() - cpu))
    return [Timing(*map(tuple, zip(*seconds, strict=True))) for seconds in measured]


def machine() -> str:
    """One line on where this was measured."""
    device = jax.devices()[0]
    processors = len(os.sched_getaffinity(0))
    return f"jax {jax.__version__} on {device.platform} ({device.device_kind}), {processors} processors"
