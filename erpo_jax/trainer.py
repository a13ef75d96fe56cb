"""The training loop: problems -> probes -> rollouts -> execution -> consensus -> one compiled update -> new weights.

`train` below is the loop, top to bottom. What it leaves out: measuring on hidden tests, which is `erpo_jax.evaluate`, a
package this module never imports and a process of its own.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np

from erpo_jax.checkpoint import Checkpoints
from erpo_jax.config import Config, loosest_dtype
from erpo_jax.display import Display
from erpo_jax.errors import Failure, UserError
from erpo_jax.execution import open_sandbox
from erpo_jax.experience import (
    Answers,
    Group,
    candidates_of,
    execute,
    groups_of,
    lost,
    records,
    sample,
    score,
    summary,
)
from erpo_jax.interrupt import Interrupt, Stopped
from erpo_jax.metrics import Metrics, peak_memory_mb
from erpo_jax.policy import Policy, export, load, make_mesh
from erpo_jax.probes import make_probes
from erpo_jax.problems import Problem, Prompts, load_problems
from erpo_jax.reward import probe_summary, reward_histogram, reward_summary
from erpo_jax.rollout import Engine, check_agreement, check_prompts, open_engine
from erpo_jax.run_folder import RunFolder
from erpo_jax.supply import Supply, unpack_answers
from erpo_jax.update import GAP_EDGES, RolloutUpdate, TrainState, advantages, init_state, largest_gap, weights


class RunFailed(Failure):
    """The run cannot go on; its newest checkpoint is whole."""


def train(config: Config, run: RunFolder, display: Display, interrupt: Interrupt) -> int:
    """Run the configured steps, from the newest checkpoint if there is one. Returns the number of finished steps.

    Raises UserError (bad input), and, after a checkpoint of the last finished step, Failure (a sandbox or engine at
    fault, non-finite updates in a row) and Stopped (told to stop).
    """
    policy = load_policy(config)
    prompts = Prompts(config.prompt, policy.tokenizer())
    problems = fitting_problems(config, prompts, display)
    run.check_data(problems, allow_change=config.problems.allow_changed_data)
    with (
        Checkpoints(run.checkpoints, keep=config.train.keep_checkpoints) as checkpoints,
        open_sandbox(config.sandbox) as sandbox,
        open_engine(config, policy, run.path) as engine,
    ):
        phase = Phases(display, interrupt)
        introduce(config, policy, sandbox.tier, problems, display)
        with phase("probes") as progress:
            inputs = inputs_of(problems, config, engine=engine, prompts=prompts, sandbox=sandbox, progress=progress)

        count, seconds = sum(map(len, inputs.values())), phase.seconds()["probes"]
        display.say(f"inputs   {count} for {len(inputs)} problems, {seconds:.0f} s")
        update = RolloutUpdate(policy, config)
        state, first, note = resume(checkpoints, init_state(policy, config.optimizer), config.train.steps, display)
        policy = policy.with_params(state.params)

        def renew(policy: Policy, version: int) -> None:
            with phase("refresh"):
                engine.refresh(policy, version)
            if not engine.embedded and check_is_due(version, first, config.rollout.check_every):
                with phase("check"):
                    display.say(agreement(engine, policy, problems, prompts, config))

        def make(step: int, answers: Answers | None = None) -> list[Group]:
            chosen = problems_of_step(step, problems, config)
            with phase("sample") as progress:
                answers = answers or sample(
                    chosen,
                    engine=engine,
                    prompts=prompts,
                    config=config,
                    seeds=seeds_of_step(step, config),
                    progress=progress,
                )
            groups = groups_of(chosen, inputs, answers, prompts=prompts, config=config.reward)
            with phase("execute") as progress:
                execute(groups, sandbox, config, progress)
            refuse_broken_sandbox(groups)
            with phase("reward"):
                score(groups, config.reward)
            return groups

        step, last, nonfinite = first, config.train.steps, 0
        with Metrics(run.path, first) as metrics, Supply(engine, make, renew) as supply:
            try:
                supply.refresh(policy, version=first)
                if "answers" in note:
                    supply.begin(first, unpack_answers(note["answers"]))
                while step < last:
                    interrupt.check()
                    began = time.monotonic()
                    groups = supply.take(step)
                    if config.rollout.async_steps and step + 1 < last:
                        supply.begin(step + 1)
                    with phase("update"):
                        state, measured = update(state, candidates_of(groups))
                        learned = over_updates(measured, config.update.minibatches)
                    if learned["mismatched"]:
                        save_rollouts(run, step, groups, config)
                        raise mismatch(step, learned, config)
                    step += 1
                    policy = policy.with_params(state.params)
                    if step < last:
                        supply.refresh(policy, version=step)
                    with phase("record"):
                        save_rollouts(run, step - 1, groups, config)
                    for name in lost(groups):
                        display.say(f"step {step - 1}: lost {name}")
                    row = step_metrics(groups, learned, phase.seconds(), time.monotonic() - began, update.compilations)
                    metrics.write(step - 1, row, {"update/logprob_gap": gap_histogram(learned)})
                    display.step(step - 1, row)
                    nonfinite = nonfinite + 1 if learned["nonfinite"] else 0
                    if nonfinite >= config.train.max_nonfinite:
                        raise RunFailed(
                            f"{nonfinite} updates in a row were not finite; their candidates are in {run.rollouts}; "
                            f"a smaller optimizer.learning_rate or model.compute_dtype=float32 may help"
                        )
                    if step % config.train.checkpoint_every == 0 or step == last:
                        checkpoints.save(step, state, {"weights_version": step, **supply.note(step, wait=True)})
                    if config.train.export_every and step % config.train.export_every == 0:
                        export_step(policy, run, step)
            except (Stopped, Failure):
                if step:
                    checkpoints.save(step, state, {"weights_version": step, **supply.note(step, wait=False)})
                raise
        export_step(policy, run, step)
    interrupt.check()
    return step


def load_policy(config: Config) -> Policy:
    """The configured checkpoint on the configured mesh. Raises UserError when the devices are too few."""
    model, mesh = config.model, config.mesh
    return load(
        model.path,
        make_mesh(mesh.data, mesh.fsdp, mesh.tensor),
        compute_dtype=model.compute_dtype,
        remat=model.remat,
        attention=model.attention,
        revision=model.revision,
    )


def fitting_problems(config: Config, prompts: Prompts, display: Display) -> list[Problem]:
    """The problems whose prompts fit; the others are named. Raises UserError when a step cannot be filled."""
    listed = load_problems(config.problems.path)[: config.problems.limit or None]
    fitting = [problem for problem in listed if len(prompts.solve(problem).ids) <= config.rollout.max_prompt_tokens]
    left_out = sorted({problem.id for problem in listed} - {problem.id for problem in fitting})
    if left_out:
        shown = ", ".join(left_out[:5]) + (f" and {len(left_out) - 5} more" if len(left_out) > 5 else "")
        display.say(
            f"left out, prompt longer than rollout.max_prompt_tokens={config.rollout.max_prompt_tokens}: {shown}"
        )
    if len(fitting) < config.train.problems_per_step:
        raise UserError(
            f"train.problems_per_step={config.train.problems_per_step}, but {config.problems.path} has {len(fitting)} "
            f"problems that can be used; set train.problems_per_step to at most {len(fitting)}"
        )
    functions = sum(problem.mode == "function" for problem in fitting)
    if functions and config.model.path == "quickstart":
        display.say(
            f"warning: {functions} problems ask for a function; the quickstart policy was pretrained on small programs "
            f"over stdin, described in words of its own, and solves none of them; set model.path"
        )
    return fitting


def inputs_of(problems: Sequence[Problem], config: Config, **tools: Any) -> dict[str, tuple[str, ...]]:
    """What each problem's candidates run on: its probes, or its public tests where those are the reward."""
    if config.reward.kind == "public":
        return {problem.id: tuple(test.input for test in problem.public_tests) for problem in problems}
    return {
        name: found.inputs
        for name, found in make_probes(problems, config=config, seed=config.train.seed, **tools).items()
    }


def problems_of_step(step: int, problems: Sequence[Problem], config: Config) -> list[Problem]:
    """The problems of a step: a new order each pass, a function of (seed, step). None is twice in a step."""
    count = config.train.problems_per_step
    steps_per_pass = len(problems) // count
    number, place = divmod(step, steps_per_pass)
    order = np.random.default_rng([config.train.seed, number]).permutation(len(problems))
    chosen = order if config.problems.shuffle else np.arange(len(problems))
    return [problems[index] for index in chosen[place * count : (place + 1) * count]]


def seeds_of_step(step: int, config: Config) -> list[int]:
    """One sampling seed per problem of a step, at least G apart: an engine may use seed + j for completion j."""
    count, spacing = config.train.problems_per_step, config.rollout.group_size
    start = np.random.default_rng([config.train.seed, 1]).integers(2**20)
    return [int((start + (step * count + place) * spacing) % 2**31) for place in range(count)]


def resume(
    checkpoints: Checkpoints, state: TrainState, total: int, display: Display
) -> tuple[TrainState, int, dict[str, Any]]:
    """The newest checkpoint, its step and its note, or the fresh state and 0."""
    steps = checkpoints.steps()
    if not steps:
        return state, 0, {}
    restored, note = checkpoints.restore(steps[-1], state)
    done = steps[-1] == total
    display.say(f"finished {total} of {total} steps" if done else f"going on after {steps[-1]} of {total} steps")
    display.start_at(steps[-1])
    return restored, steps[-1], note


def check_is_due(version: int, first: int, every: int) -> bool:
    """Whether to compare engine and trainer at these weights: the first two of a session, then every so many."""
    return version in (first, first + 1) or (every > 0 and version % every == 0)


def agreement(engine: Engine, policy: Policy, problems: Sequence[Problem], prompts: Prompts, config: Config) -> str:
    """Compare the engine's greedy answers to a few problems with the trainer's forward. Raises EngineDisagrees."""
    longest = config.rollout.max_prompt_tokens
    asked = check_prompts([prompts.solve(problem).ids for problem in problems[:8]], longest)
    new_tokens = min(16, config.rollout.max_new_tokens)
    found = check_agreement(engine, policy, asked, new_tokens=new_tokens, dtype=loosest_dtype(config))
    return (
        f"engine   weights {engine.weights_version}: {found.tokens} greedy tokens are the trainer's own, "
        f"log-probs within {found.gap_max:.1e} nats"
    )


def refuse_broken_sandbox(groups: Sequence[Group]) -> None:
    """A sandbox that fails on every candidate of a step says nothing about programs. Raises RunFailed."""
    verdicts = [outcome.verdict for group in groups for attempt in group.attempts for outcome in attempt.outcomes]
    if verdicts and all(verdict == "sandbox_error" for verdict in verdicts):
        raise RunFailed("the sandbox failed on every program of a step; `python -m erpo_jax.sandbox selftest` says how")


def mismatch(step: int, learned: Mapping[str, float], config: Config) -> RunFailed:
    """Rollouts that the trainer's policy would hardly have written teach it nothing about itself."""
    return RunFailed(
        f"step {step}: sampler and trainer differ by {learned['logprob_gap_mean']:.2g} nats a token on average "
        f"(largest {learned['logprob_gap_max']:.2g}), more than rollout.max_logprob_gap={largest_gap(config):g}; "
        f"nothing was learnt from the step. Most often the engine holds other weights or another dtype than the "
        f"trainer, or a stale prompt cache: compare their dtypes, and set rollout.check_every=1 to find the step at "
        f"which it begins. A gap that is known and harmless passes with a larger rollout.max_logprob_gap"
    )


def over_updates(measured: Sequence[Mapping[str, Any]], first_pass: int) -> dict[str, float]:
    """The metrics of a step's updates as one row: maxima of maxima, counts of events, means of the rest.

    The sampler's gap is that of the first `first_pass` updates, which saw the sampler's own weights or all
    but; the other values are of the updates that learnt something, where any did.
    """
    learning = [row for row in measured if not row["skipped_update"]] or measured
    row = {}
    for name in measured[0]:
        whole = name in ("nonfinite", "skipped_update", "misplaced_tokens", "mismatched")
        source = measured if whole else measured[:first_pass] if name.startswith("logprob_gap") else learning
        values = [float(each[name]) for each in source]
        summed = whole or name.startswith("logprob_gap_from")
        row[name] = max(values) if name.endswith("_max") else sum(values) if summed else sum(values) / len(values)
    return row


def gap_histogram(learned: Mapping[str, float]) -> dict[float, float]:
    """Lower edge, nats, to the number of tokens whose log-prob gap lies between it and the next."""
    return {edge: learned[f"logprob_gap_from_{edge:g}"] for edge in GAP_EDGES}


def save_rollouts(run: RunFolder, step: int, groups: Sequence[Group], config: Config) -> None:
    """Write the step's rollout records, with the advantages and weights that the update used."""
    reward_bg = np.array(
        [[np.nan if a.reward is None else a.reward for a in group.attempts] for group in groups], np.float32
    )
    present_bg = np.array([[a.present for a in group.attempts] for group in groups])
    advantage_bg = advantages(reward_bg, present_bg, config.loss.advantage)
    weight_bg = weights(config.mask, reward_bg, advantage_bg, present_bg)
    rows = records(groups, np.asarray(advantage_bg).tolist(), np.asarray(weight_bg).tolist())
    run.record(step, [{"step": step} | row for row in rows])


def export_step(policy: Policy, run: RunFolder, step: int) -> None:
    """exports/<version>/, once: a resumed run finds the folder of the same weights already there."""
    folder = run.exports / str(step)
    if not folder.exists():
        try:
            export(policy, folder)
        except OSError as error:
            raise UserError(
                f"cannot export to {folder}: {error.strerror or error}; the same command tries again"
            ) from error


def step_metrics(
    groups: Sequence[Group], learned: dict[str, float], seconds: dict[str, float], whole: float, compilations: int
) -> dict[str, float]:
    """Everything a step has to say, as flat names for JSONL and TensorBoard."""
    rewards = [[attempt.reward for attempt in group.attempts] for group in groups]
    found = [group.consensus for group in groups if group.consensus is not None]
    counts = reward_histogram([reward for row in rewards for reward in row if reward is not None])
    return {
        **{f"reward/{name}": value for name, value in reward_summary(rewards).items()},
        **{f"reward/histogram_{edge / 10:.1f}": float(count) for edge, count in enumerate(counts)},
        **{f"reward/{name}": value for name, value in probe_summary(found).items()},
        **summary(groups),
        **{f"update/{name}": value for name, value in learned.items()},
        **{f"seconds/{name}": value for name, value in seconds.items()},
        "seconds/step": whole,
        "update/compilations": float(compilations),
        "memory/peak_mb": peak_memory_mb(),
    }


def introduce(config: Config, policy: Policy, tier: str, problems: Sequence[Problem], display: Display) -> None:
    """The run's header: what runs where."""
    millions = sum(leaf.size for leaf in jax.tree.leaves(policy.params)) / 1e6
    device = jax.devices()[0]
    shape = " x ".join(f"{size} {name}" for name, size in policy.mesh.shape.items())
    display.say(f"policy   {config.model.path}: {millions:.1f} M parameters, {config.model.compute_dtype}")
    display.say(f"devices  {shape} on {device.device_kind}")
    display.say(f"sandbox  tier {tier}")
    display.say(
        f"method   {config.train.problems_per_step} of {len(problems)} problems x {config.rollout.group_size} "
        f"candidates a step, reward {config.reward.kind}, mask {config.mask.kind}, "
        f"ceiling {config.loss.entropy_ceiling} nats (c = {config.loss.entropy_coefficient})"
    )


class Phases:
    """The parts of a step: each is shown and timed; one that reports progress can be told to stop there.

    Sampling and execution report progress, the update and what follows it do not: a step is never left half learnt.
    """

    def __init__(self, display: Display, interrupt: Interrupt):
        self._display, self._interrupt = display, interrupt
        self._seconds: dict[str, float] = {}

    def seconds(self) -> dict[str, float]:
        """Seconds of each phase since the last call."""
        found, self._seconds = self._seconds, {}
        return found

    @contextmanager
    def __call__(self, name: str) -> Iterator[Any]:
        began = time.monotonic()
        with self._display.phase(name) as shown:

            def progress(done: int, total: int) -> None:
                shown(done, total)
                self._interrupt.check()

            yield progress
        self._seconds[name] = self._seconds.get(name, 0.0) + time.monotonic() - began
