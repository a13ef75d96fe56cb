"""Candidates of a configuration's sizes without a policy, a sampler or a problem: to plan with, and to profile with."""

from __future__ import annotations

import numpy as np

from erpo_jax.config import Config
from erpo_jax.update import Candidate


def synthetic_candidates(config: Config, vocabulary: int, *, shortest: float = 1.0, seed: int = 0) -> list[Candidate]:
    """The candidates of one update (a mini-batch of a step), all present, rewards different in a group.

    Prompts are as long as allowed; answers have uniformly drawn lengths from `shortest` (a share) of the longest to the
    longest.
    """
    rng = np.random.default_rng(seed)
    prompt, longest = config.rollout.max_prompt_tokens, config.rollout.max_new_tokens
    size = config.rollout.group_size
    made = []
    for group in range(config.train.problems_per_step // config.update.minibatches):
        rewards = rng.permutation(size) / max(size - 1, 1)
        for index in range(size):
            tokens = int(rng.integers(max(1, round(shortest * longest)), longest + 1))
            logprobs = np.full(tokens, -np.log(vocabulary), np.float32)
            made.append(
                Candidate(
                    prompt_ids=rng.integers(vocabulary, size=prompt),  # type: ignore[arg-type]
                    completion_ids=rng.integers(vocabulary, size=tokens),  # type: ignore[arg-type]
                    rollout_logprobs=logprobs,  # type: ignore[arg-type]
                    group=group,
                    index=index,
                    reward=float(rewards[index]),
                    old_logprobs=logprobs,  # type: ignore[arg-type]
                )
            )
    return made
