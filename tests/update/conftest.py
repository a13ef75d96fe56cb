"""Two tiny policies (a decoder, and a bigram model that compiles fast), random candidates, an update's own gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec

from erpo_jax.config import LossConfig, MaskConfig, OptimizerConfig, UpdateConfig
from erpo_jax.policy import ModelSpec, Policy, init, make_mesh
from erpo_jax.update import BatchShape, Candidate, TrainState, Update, init_state, make_update, pack

VOCABULARY = 64
SPEC = ModelSpec(
    family="qwen3",
    vocabulary=VOCABULARY,
    model=32,
    feed_forward=64,
    layers=2,
    heads=4,
    kv_heads=2,
    head_dim=8,
    max_positions=128,
    rope_theta=1e4,
    norm_eps=1e-6,
    tied=True,
    qk_norm=True,
    initializer_range=0.1,
)
# beta1 = 0 and no clipping: the first moment after one update is the gradient itself.
BARE = OptimizerConfig(beta1=0.0, max_grad_norm=1e30)


@pytest.fixture(autouse=True)
def _quick_compilation(request: pytest.FixtureRequest) -> Iterator[None]:
    """These tests compile much and compute little. Those with the fixture `as_shipped` look at what is compiled."""
    jax.config.update("jax_disable_most_optimizations", "as_shipped" not in request.fixturenames)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture
def as_shipped() -> None:
    """Ask for it to compile with all of XLA's optimizations."""


class Bigram(nnx.Module):
    """The least that answers like a decoder: the next token depends on the last one. It compiles in no time."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.embed_vd = nnx.Param(jax.random.normal(rngs.params(), (VOCABULARY, 16)))
        self.norm_d = nnx.Param(jnp.ones(16))
        self.unembed_vd = nnx.Param(0.5 * jax.random.normal(rngs.params(), (VOCABULARY, 16)))

    def __call__(
        self,
        tokens_rs: jax.Array,
        positions_rs: jax.Array,
        segments_rs: jax.Array,
        branches_rs: jax.Array | None = None,
    ) -> jax.Array:
        return jnp.tanh(self.embed_vd[...][tokens_rs]) * self.norm_d[...][None, None]

    def unembedding(self) -> jax.Array:
        return self.unembed_vd[...]

    def logits(self, hidden_xd: jax.Array, unembed_vd: jax.Array | None = None) -> jax.Array:
        return jnp.einsum("...d,vd->...v", hidden_xd, self.unembedding() if unembed_vd is None else unembed_vd)


@dataclass
class Tiny:
    """Policies and updates, made once per setting."""

    policies: dict[Any, Policy] = field(default_factory=dict)
    updates: dict[str, Update] = field(default_factory=dict)

    def policy(self, data: int = 1, fsdp: int = 1, tensor: int = 1, *, remat: bool = False) -> Policy:
        key = (data, fsdp, tensor, remat)
        if key not in self.policies:
            self.policies[key] = init(SPEC, make_mesh(data, fsdp, tensor), 0, ".", remat=remat)
        return self.policies[key]

    def bigram(self) -> Policy:
        if "bigram" not in self.policies:
            mesh = make_mesh()
            graphdef, params = nnx.split(Bigram(nnx.Rngs(0)))
            params = jax.device_put(params, NamedSharding(mesh, PartitionSpec()))
            self.policies["bigram"] = Policy(SPEC, mesh, graphdef, params, Path())
        return self.policies["bigram"]

    def state(self, policy: Policy, optimizer: OptimizerConfig = BARE) -> TrainState:
        """A fresh state; the policy keeps its own arrays, so that the next test finds them."""
        copied = jax.tree.map(lambda value: jax.device_put(jnp.array(value, copy=True), value.sharding), policy.params)
        return init_state(policy.with_params(copied), optimizer)

    def update(
        self,
        policy: Policy,
        *,
        loss: LossConfig,
        mask: MaskConfig,
        update: UpdateConfig,
        optimizer: OptimizerConfig = BARE,
        temperature: float = 1.0,
    ) -> Update:
        key = repr((policy.mesh, policy.graphdef, loss, mask, update, optimizer, temperature))
        if key not in self.updates:
            self.updates[key] = make_update(
                policy, loss=loss, mask=mask, update=update, optimizer=optimizer, temperature=temperature
            )
        return self.updates[key]

    def run(
        self,
        candidates: list[Candidate],
        *,
        policy: Policy | None = None,
        loss: LossConfig | None = None,
        mask: MaskConfig | None = None,
        micro_batch_rows: int = 2,
        chunk_tokens: int = 16,
        row_tokens: tuple[int, ...] = (24,),
        temperature: float = 1.0,
        optimizer: OptimizerConfig = BARE,
    ) -> tuple[Any, dict[str, float], TrainState]:
        """(gradient, metrics, state after) of one compiled update of these candidates."""
        policy, loss, mask = policy or self.bigram(), loss or LossConfig(), mask or MaskConfig()
        update = UpdateConfig(micro_batch_rows=micro_batch_rows, chunk_tokens=chunk_tokens)
        compiled = self.update(
            policy, loss=loss, mask=mask, update=update, optimizer=optimizer, temperature=temperature
        )
        with_old = any(c.old_logprobs is not None for c in candidates)
        shape = BatchShape(4, 4, micro_batch_rows, row_tokens, old_logprobs=with_old)
        state, metrics = compiled(self.state(policy, optimizer), pack(candidates, shape, mask, loss))
        return gradient(state), {name: float(value) for name, value in metrics.items()}, state


def gradient(state: TrainState) -> Any:
    """The gradient of the last update under `BARE`."""
    is_adam = lambda node: isinstance(node, optax.ScaleByAdamState)  # noqa: E731
    found = [node for node in jax.tree.leaves(state.opt_state, is_leaf=is_adam) if is_adam(node)]
    return found[0].mu


@pytest.fixture(scope="session")
def tiny() -> Tiny:
    return Tiny()


@pytest.fixture(scope="session")
def sample() -> Callable[..., list[Candidate]]:
    """Random candidates of 4 groups of 4, 2 of them absent; rewards are multiples of 0.25 unless given, [4][4].

    The first is present and the longest, 18 tokens, so that the reference compiles once for all samples.
    """

    def make(
        seed: int = 0, rewards: list[list[float]] | None = None, absent: int = 2, old: bool = False
    ) -> list[Candidate]:
        rng = np.random.default_rng(seed)
        gone = rng.choice(np.arange(1, 16), absent, replace=False)
        made: list[Candidate] = []
        for group in range(4):
            prompt = rng.integers(1, VOCABULARY, rng.integers(3, 8) if group else 7).tolist()
            for index in range(4):
                size = rng.integers(2, 12) if group or index else 11
                completion = rng.integers(1, VOCABULARY, size).tolist()
                drawn = float(rng.integers(0, 5)) / 4
                made.append(
                    Candidate(
                        prompt_ids=prompt,
                        completion_ids=completion,
                        rollout_logprobs=(-4.0 + rng.normal(size=size)).tolist(),
                        group=group,
                        index=index,
                        reward=drawn if rewards is None else rewards[group][index],
                        present=len(made) not in gone,
                        old_logprobs=(-4.2 + 0.5 * rng.normal(size=size)).tolist() if old else None,
                    )
                )
        return made

    return make


@pytest.fixture(scope="session")
def distance() -> Callable[[Any, Any], float]:
    """The largest relative L2 error over the parameters of two trees."""

    def measure(found: Any, wanted: Any) -> float:
        def error(a: jax.Array, b: jax.Array) -> float:
            return float(np.linalg.norm(np.asarray(a) - np.asarray(b)) / np.linalg.norm(np.asarray(b)))

        return max(jax.tree.leaves(jax.tree.map(error, found, wanted)))

    return measure
