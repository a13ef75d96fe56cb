"""What may be asked of an engine, checked before anything runs.

Left out: whatever only one engine knows (its memory, say).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from erpo_jax.errors import UserError
from erpo_jax.rollout.engine import Sampling

MAX_SEED = 2**64 - 1


class RequestError(UserError):
    """A request that no engine can answer: names the prompt's index, the sizes found, and the limit."""


def check_requests(
    prompts: Sequence[Sequence[int]],
    n: int,
    sampling: Sampling,
    seeds: Sequence[int],
    *,
    vocabulary: int,
    max_prompt_tokens: int,
    max_positions: int,
) -> None:
    """Raises RequestError for the first thing that is wrong: n, the sampling, the seeds, then each prompt in order."""
    if n < 1:
        raise RequestError(f"n={n}: at least 1 completion per prompt must be asked for")
    if not (math.isfinite(sampling.temperature) and sampling.temperature >= 0.0):
        raise RequestError(f"temperature={sampling.temperature} must be 0 (greedy) or a finite number above it")
    if sampling.max_new_tokens < 1:
        raise RequestError(f"max_new_tokens={sampling.max_new_tokens} must be at least 1")
    if len(seeds) != len(prompts):
        raise RequestError(f"{len(prompts)} prompts came with {len(seeds)} seeds; each prompt needs one")
    for i, seed in enumerate(seeds):
        if not 0 <= seed <= MAX_SEED:
            raise RequestError(f"seed {i} is {seed}; it must lie between 0 and 2**64 - 1")
    for i, prompt in enumerate(prompts):
        length = len(prompt)
        if length == 0:
            raise RequestError(f"prompt {i} is empty; it needs at least 1 token")
        if length > max_prompt_tokens:
            raise RequestError(f"prompt {i} has {length} tokens; max_prompt_tokens is {max_prompt_tokens}")
        if length + sampling.max_new_tokens > max_positions:
            raise RequestError(
                f"prompt {i} has {length} tokens, and {length} + max_new_tokens ({sampling.max_new_tokens}) is over "
                f"the model's {max_positions} positions; max_new_tokens may be at most {max_positions - length}"
            )
        low, high = min(prompt), max(prompt)
        if low < 0 or high >= vocabulary:
            wrong = low if low < 0 else high
            raise RequestError(
                f"prompt {i} holds the token id {wrong}; the vocabulary of {vocabulary} goes from 0 to {vocabulary - 1}"
            )
