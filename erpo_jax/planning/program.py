"""The configured update, compiled for a mesh whose devices and weights need not be there, and what it needs there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from erpo_jax.config import Config
from erpo_jax.errors import UserError
from erpo_jax.planning.cost import Cost, count
from erpo_jax.planning.synthetic import synthetic_candidates
from erpo_jax.policy import ModelSpec, Policy, abstract, make_mesh
from erpo_jax.quiet import quiet
from erpo_jax.update import Batch, TrainState, batch_shape, make_optimizer, make_update, pack
from erpo_jax.update.forward import make_forward
from erpo_jax.update.optimizer import optimizer_shardings


@dataclass(frozen=True)
class Program:
    """One compiled update. Bytes are those of one device."""

    compiled: jax.stages.Compiled
    kept_micro_batches: int
    micro_batches: int
    chunks: float
    """Chunks of answer tokens whose logits a micro-batch makes, one after another; the mean over micro-batches."""

    @property
    def loops(self) -> dict[str, float]:
        """How often the loops run whose number is a value of the batch, by a part of their name (see `count`)."""
        others = self.micro_batches - self.kept_micro_batches
        return {
            "token_logprobs": self.chunks,
            "policy_loss": self.kept_micro_batches,
            "entropy_ceiling/while": others,
            "entropy_ceiling/cond": self.micro_batches,
        }

    @cached_property
    def text(self) -> str:
        """The optimised HLO that one device runs."""
        return self.compiled.as_text() or ""

    def cost(self, *, above_ceiling: bool) -> Cost:
        return count(self.text, branch=int(above_ceiling), trips=self.loops)

    @property
    def state_bytes(self) -> int:
        """Parameters, optimizer state and the batch; the new ones take their place."""
        memory: Any = self.compiled.memory_analysis()
        return int(memory.argument_size_in_bytes + memory.output_size_in_bytes - memory.alias_size_in_bytes)

    @property
    def temporary_bytes(self) -> int:
        """What the update needs besides, at its peak."""
        memory: Any = self.compiled.memory_analysis()
        return int(memory.temp_size_in_bytes)

    @property
    def total_bytes(self) -> int:
        return self.state_bytes + self.temporary_bytes


def compile_update(config: Config, spec: ModelSpec, devices: Sequence[jax.Device]) -> Program:
    """Compile the update of a full step: every prompt and answer as long as allowed. Raises UserError."""
    mesh = config.mesh
    policy = abstract(
        spec,
        make_mesh(mesh.data, mesh.fsdp, mesh.tensor, devices),
        ".",
        compute_dtype=config.model.compute_dtype,
        remat=config.model.remat,
        attention=config.model.attention,
    )
    batch = pack(synthetic_candidates(config, spec.vocabulary), batch_shape(config), config.mask, config.loss)
    return compile_batch(config, policy, abstract_state(policy, config), batch)


def compile_batch(config: Config, policy: Policy, state: TrainState, batch: Batch) -> Program:
    """Compile the update of this packed batch; `state` holds arrays or their shapes. Raises UserError."""
    update = make_update(
        policy,
        loss=config.loss,
        mask=config.mask,
        update=config.update,
        optimizer=config.optimizer,
        temperature=config.rollout.temperature,
    )
    everywhere = NamedSharding(policy.mesh, PartitionSpec())
    shapes = jax.tree.map(lambda value: jax.ShapeDtypeStruct(value.shape, value.dtype, sharding=everywhere), batch)
    with quiet():
        try:
            compiled = update.lower(state, shapes).compile()
        except NotImplementedError as error:  # cuDNN names what it cannot do
            raise UserError(f"model.attention={config.model.attention}: {error}; use model.attention=xla") from error
    forward = make_forward(policy, config.update, config.rollout.temperature)
    answers_m = batch.response_mask_rs.sum(axis=1).reshape(-1, config.update.micro_batch_rows).max(axis=1)
    chunks_m = -(-answers_m[: int(batch.micro_batches)] // forward.chunk_slots)
    return Program(compiled, int(batch.kept_micro_batches), int(batch.micro_batches), float(chunks_m.mean()))


def abstract_state(policy: Policy, config: Config) -> TrainState:
    """The state of an update around an abstract policy: shapes, dtypes and shardings."""
    shardings = optimizer_shardings(config.optimizer, policy.params)
    shapes = jax.eval_shape(make_optimizer(config.optimizer).init, policy.params)
    opt_state = jax.tree.map(
        lambda shape, sharding: jax.ShapeDtypeStruct(shape.shape, shape.dtype, sharding=sharding), shapes, shardings
    )
    everywhere = NamedSharding(policy.mesh, PartitionSpec())
    step: Any = jax.ShapeDtypeStruct((), jnp.int32, sharding=everywhere)
    return TrainState(policy.params, opt_state, step)
