"""From problems to scored candidates: sample, extract, execute, compare. Everything of a step that is not the update.

A candidate without a verdict (answer lost, sandbox at fault after its retry, or cut off and `reward.truncated=drop`)
leaves its group before consensus, mean, deviation and rank; it is never scored as 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any, Literal, cast

from erpo_jax.config import Config, RewardConfig
from erpo_jax.errors import Failure
from erpo_jax.execution import limits_for
from erpo_jax.problems import Problem, Prompt, Prompts, extract_program
from erpo_jax.reward import Consensus, consensus, has_verdict, majority, outcome_key, public_reward
from erpo_jax.rollout import Completion, Engine, EngineFailed, Sampling
from erpo_jax.sandbox import Job, Outcome, Sandbox, SandboxError
from erpo_jax.update import Candidate

Progress = Callable[[int, int], None]


@dataclass
class Attempt:
    """One candidate and what became of it. `present` turns False when it leaves its group."""

    completion: Completion
    text: str
    program: str | None
    present: bool
    outcomes: list[Outcome] = field(default_factory=list)
    reward: float | None = None
    """None: absent, or its problem has no probes (no public tests)."""


@dataclass(frozen=True)
class Answers:
    """What an engine of weights `version` answered: per problem, G completions."""

    version: int
    completions: list[list[Completion]]


@dataclass
class Group:
    """The G candidates of one problem in one step. `consensus` is None for the public-test reward."""

    problem: Problem
    prompt: Prompt
    inputs: tuple[str, ...]
    attempts: list[Attempt]
    version: int
    """The weights that were asked. An attempt may be marked as the work of others (`rollout.mixed_versions`)."""
    consensus: Consensus | None = None


def sample(
    problems: Sequence[Problem],
    *,
    engine: Engine,
    prompts: Prompts,
    config: Config,
    seeds: Sequence[int],
    progress: Progress,
) -> Answers:
    """G answers per problem from the policy. Raises EngineFailed when not one comes back.

    Answers of other weights than the engine says it has count as lost, unless `rollout.mixed_versions=mark`.
    """
    asked = [prompts.solve(problem).ids for problem in problems]
    sampling = Sampling(temperature=config.rollout.temperature, max_new_tokens=config.rollout.max_new_tokens)
    answers = engine.generate(asked, config.rollout.group_size, sampling, seeds, progress)
    version = engine.weights_version
    if config.rollout.mixed_versions == "refuse":
        answers = [
            [a if a.weights_version == version else Completion((), (), "lost", a.weights_version) for a in group]
            for group in answers
        ]
    if all(a.finish_reason == "lost" for group in answers for a in group):
        others = sorted({a.weights_version for group in answers for a in group} - {version})
        why = f"all were made by weights {others} in place of {version}" if others else "no request was answered"
        raise EngineFailed(f"the engine gave no usable answer in a whole step: {why}; its logs say more")
    engine.rest()
    return Answers(version, answers)


def groups_of(
    problems: Sequence[Problem],
    inputs: Mapping[str, Sequence[str]],
    answers: Answers,
    *,
    prompts: Prompts,
    config: RewardConfig,
) -> list[Group]:
    """The program in each answer. `inputs`: problem id to what its programs will run on."""
    return [
        Group(
            problem,
            prompt := prompts.solve(problem),
            tuple(inputs[problem.id]),
            [_attempt(completion, prompt, prompts, config) for completion in completions],
            answers.version,
        )
        for problem, completions in zip(problems, answers.completions, strict=True)
    ]


def _attempt(completion: Completion, prompt: Prompt, prompts: Prompts, config: RewardConfig) -> Attempt:
    lost = completion.finish_reason == "lost"
    dropped = completion.finish_reason == "length" and config.truncated == "drop"
    text = prompts.text(completion.token_ids)
    program = None if lost else extract_program(text, prompt.prefill)
    return Attempt(completion=completion, text=text, program=program, present=not lost and not dropped)


def execute(groups: Sequence[Group], sandbox: Sandbox, config: Config, progress: Progress) -> None:
    """Run every present candidate on its group's inputs; one that the sandbox itself failed on leaves its group.
    Raises Failure when no worker is left."""
    running = [(group, attempt) for group in groups if group.inputs for attempt in group.attempts if attempt.present]
    jobs = [
        Job(
            program=attempt.program,
            inputs=group.inputs,
            mode=group.problem.mode,
            entry_point=group.problem.entry_point,
            limits=limits_for(group.problem, config.sandbox),
        )
        for group, attempt in running
    ]
    try:
        for done, (number, outcomes) in enumerate(sandbox.stream(jobs), start=1):
            attempt = running[number][1]
            attempt.outcomes = outcomes
            attempt.present = has_verdict(outcomes)
            progress(done, len(jobs))
    except SandboxError as error:
        raise Failure(str(error)) from error


def score(groups: Sequence[Group], config: RewardConfig) -> None:
    """Give every present candidate its reward: by its probes (consensus, majority) or by the public tests."""
    for group in groups:
        if config.kind == "public":
            rewards = [
                public_reward(group.problem, a.outcomes) if a.present and group.inputs else None for a in group.attempts
            ]
        else:
            rewards = _probe_rewards(group, config)
        for attempt, reward in zip(group.attempts, rewards, strict=True):
            attempt.reward = reward


def _probe_rewards(group: Group, config: RewardConfig) -> list[float | None]:
    nothing = [None] * len(group.inputs)
    mode = group.problem.mode
    keys_gk = [
        [outcome_key(o, mode) for o in a.outcomes] if a.present and a.outcomes else nothing for a in group.attempts
    ]
    present_g = [attempt.present for attempt in group.attempts]
    found = group.consensus = consensus(
        keys_gk,
        present_g=present_g,
        ambiguous=cast(Literal["count", "drop"], config.ambiguous),
        quorum=config.quorum,
    )
    if not found.probes_used:
        return [None] * len(keys_gk)
    if config.kind == "majority":
        return list(majority([list(compress(keys_k, found.used_k)) for keys_k in keys_gk], present_g=present_g))
    return list(found.pcr_g)


def candidates_of(groups: Sequence[Group]) -> list[Candidate]:
    """What the update learns from, in sampling order."""
    return [
        Candidate(
            prompt_ids=group.prompt.ids,
            completion_ids=attempt.completion.token_ids,
            rollout_logprobs=attempt.completion.logprobs,
            group=place,
            index=index,
            reward=float("nan") if attempt.reward is None else attempt.reward,
            present=attempt.present,
        )
        for place, group in enumerate(groups)
        for index, attempt in enumerate(group.attempts)
    ]


def lost(groups: Sequence[Group]) -> list[str]:
    """Each answer that was lost, by its problem and place, in words."""
    return [
        f"candidate {index} of problem {group.problem.id}"
        + (f" (made by weights {version} in place of {group.version})" if version != group.version else "")
        for group in groups
        for index, attempt in enumerate(group.attempts)
        if attempt.completion.finish_reason == "lost"
        for version in [attempt.completion.weights_version]
    ]


def records(
    groups: Sequence[Group], advantages_bg: Sequence[Sequence[float]], weights_bg: Sequence[Sequence[float]]
) -> list[dict[str, Any]]:
    """One record per candidate: all that is needed to see, regrade or replay it."""
    return [
        {
            "problem": group.problem.id,
            "candidate": index,
            "prompt_ids": list(group.prompt.ids),
            "token_ids": list(attempt.completion.token_ids),
            "logprobs": [round(value, 6) for value in attempt.completion.logprobs],
            "text": attempt.text,
            "program": attempt.program,
            "inputs": list(group.inputs),
            "verdicts": [outcome.verdict for outcome in attempt.outcomes],
            "outputs": [outcome.output for outcome in attempt.outcomes],
            "clusters": list(group.consensus.clusters_gk[index]) if group.consensus else None,
            "reward": attempt.reward,
            "present": attempt.present,
            "advantage": float(advantages_bg[place][index]),
            "weight": float(weights_bg[place][index]),
            "finish_reason": attempt.completion.finish_reason,
            "weights_version": attempt.completion.weights_version,
        }
        for place, group in enumerate(groups)
        for index, attempt in enumerate(group.attempts)
    ]


def summary(groups: Sequence[Group]) -> dict[str, float]:
    """Counts and shares over the step's candidates that neither reward nor update reports."""
    attempts = [attempt for group in groups for attempt in group.attempts]
    outcomes = [outcome for attempt in attempts for outcome in attempt.outcomes]
    verdicts = [outcome.verdict for outcome in outcomes]
    lengths = [len(attempt.completion.token_ids) for attempt in attempts]
    shares = {
        f"execute/{verdict}": verdicts.count(verdict) / max(len(verdicts), 1)
        for verdict in ("ok", "error", "timeout", "memory", "output_limit", "no_program", "sandbox_error")
    }
    return shares | {
        "execute/shared": sum(outcome.shared for outcome in outcomes) / max(len(outcomes), 1),
        "rollout/extracted": sum(attempt.program is not None for attempt in attempts) / len(attempts),
        "rollout/truncated": sum(a.completion.finish_reason == "length" for a in attempts) / len(attempts),
        "rollout/lost": float(sum(a.completion.finish_reason == "lost" for a in attempts)),
        "rollout/other_version": float(
            sum(a.completion.weights_version != group.version for group in groups for a in group.attempts)
        ),
        "rollout/version": float(groups[0].version),
        "rollout/absent": float(sum(not attempt.present for attempt in attempts)),
        "rollout/tokens_mean": sum(lengths) / len(lengths),
        "rollout/tokens_max": float(max(lengths)),
    }
