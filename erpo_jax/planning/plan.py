"""Will the configured update fit on those GPUs, what would fit, and how fast can it be at best."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from jax.sharding import AbstractMesh

from erpo_jax.config import Config
from erpo_jax.planning.cost import Cost
from erpo_jax.planning.gpus import Gpu
from erpo_jax.planning.program import Program
from erpo_jax.policy import MESH_AXES, ModelSpec, ShardingError, check_fit

# The rest is the CUDA context, NCCL's buffers and what fragmentation loses.
USABLE = 0.95

Compile = Callable[[Config, str], Program]


@dataclass(frozen=True)
class Roofline:
    """Seconds that the update takes at the least: each bound alone, as if the others were free."""

    compute: float
    memory: float
    network: float

    @property
    def bound(self) -> str:
        return max(("compute", "memory", "network"), key=lambda name: float(getattr(self, name)))

    @property
    def seconds(self) -> float:
        return max(self.compute, self.memory, self.network)


def roofline(cost: Cost, gpu: Gpu, compute_dtype: str) -> Roofline:
    """Products in float32 run as TF32 at half the rate of bfloat16."""
    peak = gpu.bfloat16_flops if compute_dtype == "bfloat16" else gpu.bfloat16_flops / 2
    return Roofline(cost.flops / peak, cost.bytes / gpu.memory_bandwidth, cost.wire_bytes / gpu.link_bandwidth)


@dataclass(frozen=True)
class Plan:
    """What was found out about one configuration on one kind of GPU. Bytes are those of one device."""

    config: Config
    gpu: Gpu
    program: Program
    largest_rows: int | None = None
    """The largest `update.micro_batch_rows` that fits; None when the configuration does not."""
    fitting: tuple[str, ...] = ()
    """The nearest settings that fit, as words for the command line, when the configuration does not; () for none."""

    @property
    def devices(self) -> int:
        return self.config.mesh.data * self.config.mesh.fsdp * self.config.mesh.tensor

    @property
    def fits(self) -> bool:
        return fits(self.program.total_bytes, self.gpu)

    @property
    def left_bytes(self) -> int:
        """Usable memory that the update leaves to a rollout engine on the same device."""
        return int(USABLE * self.gpu.memory_bytes) - self.program.total_bytes


def make_plan(config: Config, spec: ModelSpec, gpu: Gpu, compile_: Compile) -> Plan:
    """Compile the update and, when it fits, look for the largest micro-batch; when not, for the nearest that does.

    `compile_(config, why)` compiles one configuration (see `compile_update`) and may tell the user why.
    """
    plan = Plan(config, gpu, compile_(config, "as configured"))
    if plan.fits:
        return replace(plan, largest_rows=_largest_rows(plan, compile_))
    if not fits(plan.program.state_bytes, gpu):
        enough = plan.devices
        while not fits(plan.program.state_bytes * plan.devices // enough, gpu):
            enough *= 2
        return replace(plan, fitting=(f"--gpus {enough}", f"mesh.fsdp={config.mesh.fsdp * enough // plan.devices}"))
    least, kept = plan.program.total_bytes, dict[str, Any]()
    for changes in _smaller(config, spec):
        tried = kept | changes
        words = tuple(f"{name}={str(value).lower()}" for name, value in tried.items())
        needed = compile_(_changed(config, tried), " ".join(words)).total_bytes
        if needed < least:  # what does not help is taken back
            least, kept = needed, tried
        if fits(needed, gpu):
            return replace(plan, fitting=words)
    return replace(plan, fitting=_more_devices(plan, compile_))


def _more_devices(plan: Plan, compile_: Compile) -> tuple[str, ...]:
    """The configuration as it is on the fewest devices that hold it, up to 8 times as many; () when those do not."""
    for times in (2, 4, 8):
        mesh, rows = plan.config.mesh, plan.config.update.micro_batch_rows
        changes: dict[str, Any] = {"mesh.fsdp": mesh.fsdp * times}
        if rows % (shards := mesh.data * mesh.fsdp * times):
            changes["update.micro_batch_rows"] = -(-rows // shards) * shards
        words = (f"--gpus {plan.devices * times}", *(f"{name}={value}" for name, value in changes.items()))
        if fits(compile_(_changed(plan.config, changes), " ".join(words)).total_bytes, plan.gpu):
            return words
    return ()


def fits(needed: int, gpu: Gpu) -> bool:
    """Whether so many bytes are to be had on the device."""
    return needed <= USABLE * gpu.memory_bytes


def _largest_rows(plan: Plan, compile_: Compile) -> int:
    """Memory grows alike with every row a device; where that line meets the device's memory, compiling has the word."""
    config, shards = plan.config, plan.config.mesh.data * plan.config.mesh.fsdp
    here = config.update.micro_batch_rows // shards
    most = plan.program.kept_micro_batches * here  # rows that there are to fill

    def needed(rows: int) -> int:
        changed = _changed(config, {"update.micro_batch_rows": rows * shards})
        return compile_(changed, f"{rows} rows a device").total_bytes

    if 2 * here > most or not fits(at_double := needed(2 * here), plan.gpu):
        return here * shards
    a_row = max((at_double - plan.program.total_bytes) / here, 1.0)
    rows = min(most, 2 * here + int((USABLE * plan.gpu.memory_bytes - at_double) / a_row))
    while rows > 2 * here and not fits(needed(rows), plan.gpu):
        rows -= 1
    return rows * shards


def _smaller(config: Config, spec: ModelSpec) -> Iterator[dict[str, Any]]:
    """Settings that need less memory, the nearest first. The last ones shorten answers."""
    mesh = config.mesh
    if not config.model.remat:
        yield {"model.remat": True}
    rows = config.update.micro_batch_rows
    while (rows := rows // 2) >= mesh.data * mesh.fsdp:
        yield {"update.micro_batch_rows": rows}
    if config.update.chunk_tokens > 128:
        yield {"update.chunk_tokens": 128}
    if config.optimizer.first_moment_dtype == "float32":
        yield {"optimizer.first_moment_dtype": "bfloat16"}
    fsdp, tensor = mesh.fsdp, mesh.tensor
    while fsdp % 2 == 0 and _divides(spec, mesh.data, fsdp := fsdp // 2, tensor := tensor * 2):
        yield {"mesh.fsdp": fsdp, "mesh.tensor": tensor}
    answer = config.rollout.max_new_tokens
    while (answer := answer // 2) >= 256:
        yield {"rollout.max_new_tokens": answer, "update.row_tokens": 0}


def _divides(spec: ModelSpec, *mesh: int) -> bool:
    try:
        check_fit(spec, AbstractMesh(mesh, MESH_AXES))
    except ShardingError:
        return False
    return True


def _changed(config: Config, changes: Mapping[str, Any]) -> Config:
    for name, value in changes.items():
        section, leaf = name.split(".")
        config = replace(config, **{section: replace(getattr(config, section), **{leaf: value})})
    return config
