"""Reads an XLA trace: how long each operation of one program ran, and which part of the method it belongs to.

Left out: what the host does, and gaps between operations; TensorBoard's profile page shows both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import jax

from erpo_jax.errors import UserError
from erpo_jax.planning.cost import COLLECTIVES, products
from erpo_jax.planning.hlo import Module, parse

PARTS = {
    "attention": "scores, softmax and weighted values",
    "matmul": "projections and feed-forward",
    "loss": "logits, log-probs, entropies",
    "optimizer": "clipping, AdamW",
    "collectives": "gathers and reductions between devices, waiting included",
    "other": "norms, activation functions, rotations, casts, copies, embedding",
}


@dataclass(frozen=True)
class Operation:
    """One instruction of the program, over all steps and devices of the trace."""

    name: str
    part: str
    scope: str
    """The jax.named_scope path that it comes from."""
    count: int
    seconds: float
    """Its own time: what ran inside a loop or a call counts there alone."""


def read_trace(folder: Path, text: str) -> list[Operation]:
    """Operations of the program `text` (HLO) in the newest trace below `folder`, slowest first. Raises UserError."""
    files = sorted(folder.rglob("*.xplane.pb"), key=lambda file: file.stat().st_mtime)
    if not files:
        raise UserError(f"{folder} holds no trace (*.xplane.pb)")
    module = parse(text)
    parts = _parts(module)
    count: dict[str, int] = defaultdict(int)
    seconds: dict[str, float] = defaultdict(float)
    for events in _lines(jax.profiler.ProfileData.from_file(str(files[-1])), module.name):
        for name, own in _own_times(events):
            count[name] += 1
            seconds[name] += own * 1e-9
    found = [Operation(name, *parts.get(name, ("other", "")), count[name], seconds[name]) for name in seconds]
    if not found:
        raise UserError(f"the trace {files[-1]} has no operation of {module.name}")
    return sorted(found, key=lambda operation: -operation.seconds)


def shares(operations: Iterable[Operation]) -> dict[str, float]:
    """Part -> its share of the time of all operations."""
    seconds = dict.fromkeys(PARTS, 0.0)
    for operation in operations:
        seconds[operation.part] += operation.seconds
    whole = sum(seconds.values()) or 1.0
    return {part: spent / whole for part, spent in seconds.items()}


Event = tuple[str, float, float]


def _lines(trace: jax.profiler.ProfileData, module: str) -> Iterable[list[Event]]:
    """(operation, start, end) in nanoseconds, one list per thread of the CPU or stream of a GPU."""
    planes = list(trace.planes)
    devices = [plane for plane in planes if plane.name.startswith("/device:")]
    for plane in devices or planes:
        for line in plane.lines:
            if devices and not line.name.startswith("Stream"):
                continue  # what the profiler sums up itself
            events = []
            for event in line.events:
                stats = dict(event.stats)
                if stats.get("hlo_module") == module:
                    events.append((str(stats["hlo_op"]), event.start_ns, event.start_ns + event.duration_ns))
            yield events


def _own_times(events: list[Event]) -> list[tuple[str, float]]:
    """Each event's duration less that of the events inside it."""
    own: list[tuple[str, float]] = []
    open_: list[tuple[float, int]] = []
    for name, start, end in sorted(events, key=lambda event: (event[1], -event[2])):
        while open_ and open_[-1][0] <= start:
            open_.pop()
        if open_:
            parent, spent = own[open_[-1][1]]
            own[open_[-1][1]] = (parent, spent - (end - start))
        open_.append((end, len(own)))
        own.append((name, end - start))
    return own


def _parts(module: Module) -> dict[str, tuple[str, str]]:
    """Instruction -> (part, scope)."""
    found = {}
    for computation in module.computations.values():
        for instruction in computation:
            kind = instruction.opcode.removesuffix("-start").removesuffix("-done")
            scope = instruction.scope
            if kind in COLLECTIVES:
                part = "collectives"
            elif "optimizer/" in scope:
                part = "optimizer"
            elif "attend/" in scope:
                part = "attention"
            elif "token_logprobs" in scope or "unembed" in scope:
                part = "loss"
            elif products(instruction, computation, module):
                part = "matmul"
            else:
                part = "other"
            found[instruction.name] = (part, scope)
    return found
