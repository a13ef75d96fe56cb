"""Whether an engine samples from the very policy it was given: its greedy answers against the trainer's own forward.

It catches whatever goes wrong without a word between an update and the next rollout: a tensor that was not renewed, a
cache that was not, a rounding that is larger than thought. The engine's tokens are read by the policy as they are, so
that a near tie decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from erpo_jax.policy import Decoder, Policy, row_sharding
from erpo_jax.rollout.engine import Engine, Sampling

CHECKED = 4
LONGEST = 320
"""Tokens of the longest prompt: more than two blocks of vLLM's cache on any device, so that a stale one shows."""


@dataclass(frozen=True)
class Check:
    """Over `tokens` greedy tokens: the largest and the mean difference of log-probs in nats, and the share of tokens
    that are the policy's own first choice."""

    tokens: int
    gap_max: float
    gap_mean: float
    agree: float


def check_prompts(policy: Policy, longest: int, count: int = CHECKED) -> list[list[int]]:
    """Prompts of pseudo-random ids, the same each time. `longest` is what the engine takes, in tokens."""
    rng = np.random.default_rng(0)
    lengths = np.linspace(min(longest, LONGEST), 1, count).astype(int)
    return [rng.integers(0, policy.spec.vocabulary, length).tolist() for length in lengths]


def compare(engine: Engine, policy: Policy, prompts: list[list[int]], *, new_tokens: int = 16) -> Check:
    """Ask for one greedy answer a prompt and read it with `policy`, whose weights the engine should have."""
    answers = [
        answer for (answer,) in engine.generate(prompts, 1, Sampling(0.0, new_tokens), list(range(len(prompts))))
    ]
    shards = policy.mesh.shape["data"] * policy.mesh.shape["fsdp"]
    rows = -(-len(prompts) // shards) * shards
    slots = max(map(len, prompts)) + new_tokens
    tokens_rs, segments_rs = np.zeros((rows, slots), np.int32), np.zeros((rows, slots), np.int32)
    places_rt = np.zeros((rows, new_tokens), np.int32)
    for row, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
        text = [*prompt, *answer.token_ids]
        tokens_rs[row, : len(text)], segments_rs[row, : len(text)] = text, 1
        places_rt[row] = np.minimum(np.arange(new_tokens) + len(prompt), slots - 1)
    by_rows = row_sharding(policy.mesh)
    inputs = [jax.device_put(array, by_rows) for array in (tokens_rs, segments_rs, places_rt)]
    logprob_rt, first_rt = map(np.asarray, _read(policy.graphdef, policy.params, *inputs))
    gaps, firsts = [], []
    for row, answer in enumerate(answers):
        made = len(answer.token_ids)
        gaps += np.abs(logprob_rt[row, :made] - np.asarray(answer.logprobs, np.float32)).tolist()
        firsts += (first_rt[row, :made] == np.asarray(answer.token_ids, np.int32)).tolist()
    return Check(len(gaps), max(gaps, default=0.0), float(np.mean(gaps or [0.0])), float(np.mean(firsts or [1.0])))


@partial(jax.jit, static_argnums=0)
def _read(
    graphdef: nnx.GraphDef, params: nnx.State, tokens_rs: jax.Array, segments_rs: jax.Array, places_rt: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The log-prob of the token at each place given those before it, and the likeliest token there."""
    decoder: Decoder = nnx.merge(graphdef, params)
    positions_rs = jnp.broadcast_to(jnp.arange(tokens_rs.shape[1], dtype=jnp.int32)[None], tokens_rs.shape)
    hidden_rsd = decoder(tokens_rs, positions_rs, segments_rs)
    hidden_rtd = jnp.take_along_axis(hidden_rsd, places_rt[..., None] - 1, axis=1)
    logits_rtv = decoder.logits(hidden_rtd)
    target_rt = jnp.take_along_axis(tokens_rs, places_rt, axis=1)
    chosen_rt = jnp.take_along_axis(logits_rtv, target_rt[..., None], axis=2)[..., 0]
    return chosen_rt - jax.nn.logsumexp(logits_rtv, axis=-1), jnp.argmax(logits_rtv, axis=-1).astype(jnp.int32)
