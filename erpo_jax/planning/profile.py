"""Runs warm updates under XLA's profiler and leaves what there is to look at in a folder.

trace/                 for TensorBoard's profile page (or xprof, Perfetto)
update.hlo.txt         the compiled program, as one device runs it
memory.pprof           live arrays and their origin, for `pprof`
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import jax
from jax.sharding import NamedSharding, PartitionSpec

from erpo_jax.config import Config
from erpo_jax.planning.program import Program, compile_batch
from erpo_jax.planning.trace import PARTS, Operation, read_trace, shares
from erpo_jax.policy import Policy
from erpo_jax.update import Candidate, batch_shape, init_state, pack

# Far above and at the least that an entropy can be: the branch is the caller's choice, not the weights'.
_CEILINGS = {False: 1e9, True: 0.0}


@dataclass(frozen=True)
class Profile:
    """What was measured. `seconds`: wall time of each profiled update."""

    program: Program
    above_ceiling: bool
    tokens: int
    seconds: tuple[float, ...]
    operations: list[Operation]


def profile_update(
    policy: Policy,
    config: Config,
    candidates: Sequence[Candidate],
    folder: Path,
    *,
    steps: int = 3,
    above_ceiling: bool = False,
) -> Profile:
    """Compile the update for these candidates, run it once to warm up, then `steps` times under the profiler.

    The policy's arrays are donated. `above_ceiling` chooses the branch that the step takes.
    """
    config = replace(config, loss=replace(config.loss, entropy_ceiling=_CEILINGS[above_ceiling]))
    batch = pack(candidates, batch_shape(config), config.mask, config.loss)
    state = init_state(policy, config.optimizer)
    program = compile_batch(config, policy, state, batch)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "update.hlo.txt").write_text(program.text)
    on_devices = jax.device_put(batch, NamedSharding(policy.mesh, PartitionSpec()))
    state, metrics = jax.block_until_ready(program.compiled(state, on_devices))
    seconds = []
    with jax.profiler.trace(str(folder / "trace")):
        for _ in range(steps):
            began = time.perf_counter()
            state, metrics = jax.block_until_ready(program.compiled(state, on_devices))
            seconds.append(time.perf_counter() - began)
    jax.profiler.save_device_memory_profile(str(folder / "memory.pprof"))
    operations = read_trace(folder / "trace", program.text)
    return Profile(program, above_ceiling, int(metrics["tokens"]), tuple(seconds), operations)


def profile_lines(profile: Profile, slowest: int = 15) -> list[str]:
    """Everything that a profile found, a line each."""
    best = min(profile.seconds)
    cost = profile.program.cost(above_ceiling=profile.above_ceiling)
    whole = sum(operation.seconds for operation in profile.operations)
    lines = [
        f"{'above' if profile.above_ceiling else 'at or below'} the entropy ceiling: {best:.3f} s an update at best of "
        f"{len(profile.seconds)}, {profile.tokens / best:,.0f} tokens/s, "
        f"{cost.flops / best / 1e9:,.1f} GFLOP/s a device in products",
        "",
        "share of the time of all operations",
    ]
    lines += [f"  {part:<12}{share:7.1%}   {PARTS[part]}" for part, share in shares(profile.operations).items()]
    lines += ["", "slowest operations" + " " * 26 + "share   runs  part"]
    for operation in profile.operations[:slowest]:
        lines.append(
            f"  {operation.name[:40]:<40}{operation.seconds / whole:7.1%}{operation.count:7d}  {operation.part:<12}"
            f"{_shortened(operation.scope.removeprefix('jit(counted)/'))}"
        )
    return lines


def _shortened(scope: str) -> str:
    """Both ends: the part of the method, and the operation."""
    return scope if len(scope) <= 80 else f"{scope[:32]} ... {scope[-43:]}"
