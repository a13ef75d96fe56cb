"""The embedded engine and vLLM on the same problems: do they sample from the same policy?

Both answer every problem G times under several seeds, at the temperature of training, with the weights as they are;
another `train.seed` is another experiment, with probes of its own.
What is compared is what training sees of an answer: its PCR on the same probes, whether it passes the hidden tests,
its length and the mean log-prob of its tokens. Differences are paired by problem; a standard error is that of a mean
over problems. Left out: training in between, where small differences grow into another run.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from erpo_jax.command import load_config
from erpo_jax.evaluate.session import Session
from erpo_jax.execution import open_sandbox
from erpo_jax.experience import Group, execute, groups_of, sample, score
from erpo_jax.policy import load, make_mesh
from erpo_jax.probes import make_probes
from erpo_jax.problems import Prompts
from erpo_jax.rollout import open_engine

MEASURES = ("PCR", "pass@1", "tokens", "cut off", "log-prob")


def compare(words: list[str], seeds: int, vllm_python: str) -> Iterator[str]:
    """A report for people, a line as soon as it is known. `words` as of a command line. Raises UserError."""
    config = load_config(words)
    served = load_config([*words, "rollout.engine=vllm", f"vllm.python={vllm_python}", "vllm.kind=process"])
    session = Session.of(config)
    problems = list(session.problems)
    with ExitStack() as stack:
        sandbox = stack.enter_context(open_sandbox(config.sandbox))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="erpo_jax-bench-")))
        policy = load(config.model.path, make_mesh(), compute_dtype=config.model.compute_dtype)
        prompts = Prompts(config.prompt, policy.tokenizer())
        engines = {
            name: stack.enter_context(open_engine(each, policy, folder / name))
            for name, each in (("jax", config), ("vllm", served))
        }
        config.probes.store = str(folder)
        made = make_probes(
            problems, engine=engines["jax"], prompts=prompts, sandbox=sandbox, config=config, seed=config.train.seed
        )
        inputs = {name: found.inputs for name, found in made.items()}
        grader = session.grader(sandbox)
        count, size = len(problems), config.rollout.group_size
        yield f"{count} problems x {size} answers x {seeds} seeds, T={config.rollout.temperature:g}"
        found: dict[str, list[np.ndarray]] = {name: [] for name in engines}
        for seed in range(seeds):
            for place, (name, engine) in enumerate(engines.items()):
                # the engines must not share random numbers any more than two seeds of one engine do
                first = (2 * (config.train.seed * seeds + seed) + place) * count * size
                spaced = [first + i * size for i in range(count)]
                answers = sample(
                    problems, engine=engine, prompts=prompts, config=config, seeds=spaced, progress=_silent
                )
                groups = groups_of(problems, inputs, answers, prompts=prompts, config=config.reward)
                execute(groups, sandbox, config, _silent)
                score(groups, config.reward)
                verdicts = grader.grade({g.problem.id: [a.program for a in g.attempts] for g in groups})
                found[name].append(np.asarray([_measures(group, verdicts[group.problem.id]) for group in groups]))
            yield f"seed {seed}:  " + "   ".join(
                f"{name} PCR {found[name][-1][:, 0].mean():.4f} pass@1 {found[name][-1][:, 1].mean():.4f}"
                for name in engines
            )
    yield from _lines(np.asarray(found["jax"]), np.asarray(found["vllm"]))


def _measures(group: Group, verdicts: list[bool | None]) -> tuple[float, ...]:
    """MEASURES, means over the group."""
    completions = [attempt.completion for attempt in group.attempts]
    rewards = [attempt.reward for attempt in group.attempts if attempt.reward is not None]
    return (
        float(np.mean(rewards)),
        float(np.mean([bool(verdict) for verdict in verdicts])),
        float(np.mean([len(c.token_ids) for c in completions])),
        float(np.mean([c.finish_reason == "length" for c in completions])),
        float(np.mean(np.concatenate([c.logprobs for c in completions]))),
    )


def _lines(jax_spm: np.ndarray, vllm_spm: np.ndarray) -> Iterator[str]:
    """From values by seed, problem and measure."""
    yield f"{'':>10} {'jax':>9} {'vllm':>9} {'vllm - jax':>11} {'SE':>8} {'SE off':>7}"
    difference_pm = (vllm_spm - jax_spm).mean(0)
    for m, name in enumerate(MEASURES):
        mean = difference_pm[:, m].mean()
        error = difference_pm[:, m].std(ddof=1) / np.sqrt(len(difference_pm))
        ours, theirs = jax_spm[..., m].mean(), vllm_spm[..., m].mean()
        yield f"{name:>10} {ours:9.4f} {theirs:9.4f} {mean:+11.4f} {error:8.4f} {abs(mean) / max(error, 1e-12):7.1f}"


def _silent(done: int, total: int) -> None:
    pass
