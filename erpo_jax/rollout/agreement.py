"""Whether an engine samples from the trainer's weights: its greedy answers against the trainer's own forward.

It catches what no message of an engine tells: weights that were not loaded, or only in part, a head that kept its old
copy, a prompt cache that outlived a refresh, another dtype, position or template of the same name. Prompts are asked
again after every refresh, so that a stale cache has something to be stale with; the last one is long, because engines
cache prompts in blocks of up to 128 tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec

from erpo_jax.errors import Failure
from erpo_jax.policy import Policy, row_sharding
from erpo_jax.rollout.engine import Completion, Engine, Sampling

LONG_PROMPT = 300
TOLERANCE = {"float32": 1e-3, "bfloat16": 0.3}
"""Nats, by the less exact dtype of the two: log-probs of one token that are nearer are the same. Implementations of one
model were seen to differ by 5e-6 in float32 and by up to 0.08 in bfloat16."""


class EngineDisagrees(Failure):
    """The engine's answers are not those of the trainer's weights: names prompt and token, and both values."""


@dataclass(frozen=True)
class Agreement:
    """How far apart they were: nats, over `tokens` greedy tokens."""

    tokens: int
    gap_mean: float
    gap_max: float


def check_prompts(prompts: Sequence[Sequence[int]], longest: int, count: int = 3) -> list[list[int]]:
    """The first `count` prompts, and one made of all: LONG_PROMPT tokens, or `longest`, where engines take no more."""
    joined = [token for prompt in prompts for token in prompt]
    size = min(LONG_PROMPT, longest)
    return [*map(list, prompts[:count]), (joined * (size // len(joined) + 1))[:size]]


def check_agreement(
    engine: Engine, policy: Policy, prompts: Sequence[Sequence[int]], *, new_tokens: int = 16, dtype: str = "float32"
) -> Agreement:
    """Compare greedy answers of `new_tokens` tokens. Raises EngineDisagrees.

    A token must be the trainer's own choice given those before it, or as likely within TOLERANCE[dtype]; its log-prob
    (at temperature 1) must be the trainer's within the same.
    """
    answers = [row[0] for row in engine.generate(prompts, 1, Sampling(0.0, new_tokens), range(len(prompts)))]
    logprob_rt, best_rt, choice_rt = _score(policy, prompts, answers, new_tokens)
    gaps = []
    for i, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
        if answer.finish_reason == "lost":
            raise EngineDisagrees(f"the engine did not answer prompt {i} of the check ({len(prompt)} tokens)")
        for t, (token, said) in enumerate(zip(answer.token_ids, answer.logprobs, strict=True)):
            ours, best = float(logprob_rt[i, t]), float(best_rt[i, t])
            gaps.append(abs(said - ours))
            if not max(gaps[-1], best - ours) <= TOLERANCE[dtype]:
                raise EngineDisagrees(
                    f"the engine does not sample from the trainer's weights of version {engine.weights_version}: after "
                    f"prompt {i} of the check ({len(prompt)} tokens), token {t}, it chose id {token} with log-prob "
                    f"{said:.4f}; the trainer gives that id {ours:.4f} and its own choice, id {choice_rt[i, t]}, "
                    f"{best:.4f} (at most {TOLERANCE[dtype]} apart is allowed in {dtype})"
                )
    return Agreement(len(gaps), float(np.mean(gaps)), float(np.max(gaps)))


def _score(
    policy: Policy, prompts: Sequence[Sequence[int]], answers: Sequence[Completion], new_tokens: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The trainer's log-prob of each answer token, its best log-prob there, and the id of that, [R, new_tokens]."""
    shards = policy.mesh.shape["data"] * policy.mesh.shape["fsdp"]
    rows = -(-len(prompts) // shards) * shards
    slots = -(-(max(map(len, prompts)) + new_tokens) // 64) * 64
    tokens_rs, segments_rs = np.zeros((rows, slots), np.int32), np.zeros((rows, slots), np.int32)
    before_rt, chosen_rt = np.zeros((rows, new_tokens), np.int32), np.zeros((rows, new_tokens), np.int32)
    for row, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
        text = [*prompt, *answer.token_ids]
        tokens_rs[row, : len(text)], segments_rs[row, : len(text)] = text, 1
        before_rt[row] = np.arange(new_tokens) + len(prompt) - 1
        chosen_rt[row, : len(answer.token_ids)] = answer.token_ids
    everywhere = NamedSharding(policy.mesh, PartitionSpec())
    given = jax.device_put((tokens_rs, segments_rs), row_sharding(policy.mesh))
    found = _forward(policy.graphdef, policy.params, *given, *jax.device_put((before_rt, chosen_rt), everywhere))
    logprob_rt, best_rt, choice_rt = map(np.asarray, jax.device_put(found, everywhere))
    return logprob_rt, best_rt, choice_rt


@jax.jit(static_argnums=0)
def _forward(
    graphdef: nnx.GraphDef,
    params: nnx.State,
    tokens_rs: jax.Array,
    segments_rs: jax.Array,
    before_rt: jax.Array,
    chosen_rt: jax.Array,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    decoder = nnx.merge(graphdef, params)
    positions_s = jnp.arange(tokens_rs.shape[1], dtype=jnp.int32)
    hidden_rsd = decoder(tokens_rs, jnp.broadcast_to(positions_s[None], tokens_rs.shape), segments_rs)
    hidden_rtd = jnp.take_along_axis(hidden_rsd, before_rt[:, :, None], axis=1)
    logprob_rtv = jax.nn.log_softmax(decoder.logits(hidden_rtd), axis=-1)
    chosen_logprob_rt = jnp.take_along_axis(logprob_rtv, chosen_rt[:, :, None], axis=-1)[..., 0]
    choice_rt = jnp.argmax(logprob_rtv, axis=-1).astype(jnp.int32)
    return chosen_logprob_rt, jnp.max(logprob_rtv, axis=-1), choice_rt
