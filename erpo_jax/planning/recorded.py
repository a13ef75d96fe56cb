"""Candidates of a step that was run, from its file in the run folder: to profile with real lengths and rewards."""

from __future__ import annotations

from pathlib import Path

from erpo_jax.config import Config
from erpo_jax.errors import UserError
from erpo_jax.run_folder import read_rollouts
from erpo_jax.update import Candidate, batch_shape

_READ = ("problem", "candidate", "prompt_ids", "token_ids", "logprobs", "reward", "present")


def recorded_candidates(file: Path, config: Config) -> list[Candidate]:
    """The candidates of one update of a step, in the order in which the run had them. Raises UserError."""
    if not file.is_file():
        raise UserError(f"there is no rollout file {file}; a run folder keeps them in rollouts/")
    rows = read_rollouts(file, _READ)
    longest = batch_shape(config).row_tokens[-1]
    for row in rows:
        found = len(row["prompt_ids"]) + len(row["token_ids"])
        if found > longest:
            raise UserError(
                f"{file}: candidate {row['candidate']} of {row['problem']} has {found} tokens, and a row of this "
                f"configuration holds {longest}; give the run's own config.yaml, or a larger update.row_tokens"
            )
    if not any(row["present"] for row in rows):
        raise UserError(f"{file} holds no candidate that was learnt from")
    groups = {problem: group for group, problem in enumerate(dict.fromkeys(row["problem"] for row in rows))}
    here = config.train.problems_per_step // config.update.minibatches
    return [
        Candidate(
            prompt_ids=row["prompt_ids"],
            completion_ids=row["token_ids"],
            rollout_logprobs=row["logprobs"],
            group=groups[row["problem"]],
            index=row["candidate"],
            reward=float("nan") if row["reward"] is None else row["reward"],
            present=row["present"],
            old_logprobs=row["logprobs"],
        )
        for row in rows
        if groups[row["problem"]] < here
    ]
