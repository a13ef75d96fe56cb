"""What the contestants learn from: candidates of a real rollout file, or as many of one length."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from erpo_jax.benchmarks.timing import BenchmarkError
from erpo_jax.config import LossConfig, MaskConfig
from erpo_jax.errors import UserError
from erpo_jax.run_folder import read_rollouts
from erpo_jax.update import Candidate
from erpo_jax.update.reference import plan


def of_one_length(count: int, groups: int, tokens: int, prompt_tokens: int, vocabulary: int) -> list[Candidate]:
    """`groups` prompts of `prompt_tokens` random ids and `count` answers that fill up to `tokens`. The rank mask keeps
    half of every group, that is half of all tokens. Id 0 does not occur (Tunix reads it as padding)."""
    rng = np.random.default_rng(0)
    if count % groups or count // groups < 2 or not 0 < prompt_tokens < tokens:
        raise BenchmarkError(
            f"--candidates {count} in --groups {groups} of at least 2, with --prompt-tokens {prompt_tokens} of "
            f"--tokens {tokens}: sizes that do not fit"
        )
    size = count // groups
    prompts = rng.integers(1, vocabulary, (groups, prompt_tokens)).tolist()
    return [
        Candidate(
            prompt_ids=prompts[group],
            completion_ids=rng.integers(1, vocabulary, tokens - prompt_tokens).tolist(),
            rollout_logprobs=[0.0] * (tokens - prompt_tokens),
            group=group,
            index=index,
            reward=float(index) / size,
        )
        for group in range(groups)
        for index in range(size)
    ]


def of_rollouts(file: Path, count: int, vocabulary: int) -> list[Candidate]:
    """The file's first whole groups, at most `count` candidates: their lengths, rewards and shared prompts as they are,
    their ids taken modulo the vocabulary of the benchmark's policy (never 0). Raises BenchmarkError."""
    read = ("problem", "prompt_ids", "token_ids", "logprobs", "reward", "present")
    try:
        records = [record for record in read_rollouts(file, read) if record["present"]]
    except (OSError, UserError) as error:
        raise BenchmarkError(f"--rollouts {file} is not a rollouts/step-*.jsonl.zst of a run: {error}") from error
    if not records:
        raise BenchmarkError(f"--rollouts {file} holds no candidate that was learnt from")
    names = list(dict.fromkeys(record["problem"] for record in records))
    made: list[Candidate] = []
    for group, name in enumerate(names):
        members = [record for record in records if record["problem"] == name]
        if len(made) + len(members) > count:
            break
        made += [
            Candidate(
                prompt_ids=[1 + token % (vocabulary - 1) for token in record["prompt_ids"]],
                completion_ids=[1 + token % (vocabulary - 1) for token in record["token_ids"]],
                rollout_logprobs=record["logprobs"],
                group=group,
                index=index,
                reward=float("nan") if record["reward"] is None else record["reward"],
            )
            for index, record in enumerate(members)
        ]
    if not made:
        raise BenchmarkError(f"--rollouts {file}: its first group has more than --candidates {count}")
    return made


def tokens(candidate: Candidate) -> int:
    """Prompt and answer."""
    return len(candidate.prompt_ids) + len(candidate.completion_ids)


def kept_share(candidates: Sequence[Candidate], mask: MaskConfig, loss: LossConfig) -> float:
    """s: the kept candidates' share of all tokens, every candidate with its own prompt."""
    made = plan(candidates, mask, loss)
    kept = sum(tokens(c) for c, scale in zip(made.candidates, made.scales, strict=True) if scale)
    return kept / sum(tokens(c) for c in made.candidates)
