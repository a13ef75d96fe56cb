"""What kind of programmer a quickstart policy is: right how often, wrong in which ways, and what agreement says about
it.

The numbers that the shipped policy must have (README.md of assets/quickstart lists them). Hidden tests are read here,
so nothing that trains imports this module. Probes come from the policy itself; what its answers lack of K is filled
by the input grammar.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from erpo_jax.evaluate import HiddenTests, pass_at_k
from erpo_jax.problems import Problem, Prompts, extract_program
from erpo_jax.quickstart import inputs
from erpo_jax.quickstart.operations import SOURCES
from erpo_jax.reward import consensus, output_key
from erpo_jax.rollout import Engine, Sampling
from erpo_jax.sandbox import Job, Sandbox

PROGRAM_TOKENS = 80
INPUT_TOKENS = 48


@dataclass(frozen=True)
class Probes:
    """K probes per problem, and the share of the policy's answers that the grammar accepts."""

    texts: tuple[tuple[str, ...], ...]
    accepted: float


@dataclass(frozen=True)
class Measurement:
    """Shares in [0, 1] unless said otherwise; "wrong" is failing a hidden test.

    auc: chance that a right candidate's PCR is above a wrong one's (ties count half). entropy: nats per answer token,
    the mean of -log p of the sampled tokens. shared_wrong: of the wrong candidates that give outputs, those whose
    outputs on all probes equal another wrong candidate's of the group. no_output: of the wrong candidates, those
    without any output.
    """

    temperature: float
    problems: int
    samples: int
    pass_at_1: float
    pass_at_n: float
    auc: float
    entropy: float
    wrong_at_one: float
    share_at_one: float
    wrong_at_half: float
    share_at_half: float
    shared_wrong: float
    no_output: float
    truncated: float
    equal_groups: float
    answer_tokens: float
    accepted_probes: float

    def lines(self) -> list[str]:
        n = self.samples
        return [
            f"{self.problems} problems x {n} candidates at temperature {self.temperature:g}, "
            f"{self.accepted_probes:.0%} of the policy's own probe inputs acceptable",
            f"pass@1 {self.pass_at_1:.3f}   pass@{n} {self.pass_at_n:.3f}   entropy {self.entropy:.3f} nats a token   "
            f"{self.answer_tokens:.1f} tokens an answer   {self.truncated:.1%} truncated",
            f"AUC of PCR {self.auc:.3f}   equal groups {self.equal_groups:.0%}   PCR = 1: {self.share_at_one:.0%} of "
            f"candidates, {self.wrong_at_one:.1%} wrong   PCR <= 0.5: {self.share_at_half:.0%}, "
            f"{self.wrong_at_half:.1%} wrong",
            f"wrong candidates: {self.no_output:.0%} give no output; of the others {self.shared_wrong:.0%} behave like "
            f"another wrong one of their group, {1 - self.shared_wrong:.0%} like none",
        ]


def write_probes(engine: Engine, prompts: Prompts, problems: Sequence[Problem], count: int, seed: int) -> Probes:
    """`count` different inputs a problem: the first acceptable ones of 2 * `count` answers, the rest by the grammar."""
    by_grammar = {source.grammar: source.name for source in SOURCES}
    answers = engine.generate(
        [prompts.probe(problem).ids for problem in problems],
        2 * count,
        Sampling(1.0, INPUT_TOKENS),
        [seed + 7919 * i for i in range(len(problems))],
    )
    accepted = 0
    texts: list[tuple[str, ...]] = []
    for problem, completions in zip(problems, answers, strict=True):
        source = by_grammar[str(problem.input_constraints)]
        written = [_fenced(prompts.text(completion.token_ids)) for completion in completions]
        good = [text for text in written if inputs.accepts(source, text)]
        accepted += len(good)
        chosen = dict.fromkeys(good[:count])
        rng = Random(f"fill/{problem.id}/{seed}")
        while len(chosen) < count:
            chosen[inputs.typical(source, rng)] = None
        texts.append(tuple(chosen))
    return Probes(tuple(texts), accepted / (2 * count * len(problems)))


def measure(
    engine: Engine,
    prompts: Prompts,
    problems: Sequence[Problem],
    hidden: dict[str, HiddenTests],
    probes: Probes,
    sandbox: Sandbox,
    *,
    temperature: float = 1.0,
    samples: int = 16,
    seed: int = 0,
) -> Measurement:
    """Sample `samples` programs a problem, run them on the probes and on the hidden tests, and count."""
    answers = engine.generate(
        [prompts.solve(problem).ids for problem in problems],
        samples,
        Sampling(temperature, PROGRAM_TOKENS),
        [seed + 7919 * i for i in range(len(problems))],
    )
    jobs = [
        Job(
            extract_program(prompts.text(completion.token_ids)),
            (*texts, *(case.input for case in hidden[problem.id].cases)),
        )
        for problem, texts, completions in zip(problems, probes.texts, answers, strict=True)
        for completion in completions
    ]
    outcomes = sandbox.run(jobs)
    keys = [
        [output_key(o.output) if o.verdict == "ok" and o.output is not None else None for o in row] for row in outcomes
    ]
    rewards, right = [], []
    shared = alone = silent = equal = 0
    for index, problem in enumerate(problems):
        group = keys[index * samples : (index + 1) * samples]
        count = len(probes.texts[index])
        expected = [output_key(case.output) for case in hidden[problem.id].cases]
        right_g = [row[count:] == expected for row in group]
        pcr_g = [float(value or 0.0) for value in consensus([row[:count] for row in group]).pcr_g]
        wrong: Counter[tuple[Hashable | None, ...]] = Counter(
            tuple(row[:count]) for row, ok in zip(group, right_g, strict=True) if not ok
        )
        for behaviour, number in wrong.items():
            if not any(key is not None for key in behaviour):
                silent += number
            elif number > 1:
                shared += number
            else:
                alone += 1
        equal += max(pcr_g) == min(pcr_g)
        rewards.append(pcr_g)
        right.append(right_g)
    pcr_bg, right_bg = np.asarray(rewards), np.asarray(right)
    flat = [completion for completions in answers for completion in completions]
    tokens = sum(len(completion.token_ids) for completion in flat)
    at_one, at_half = pcr_bg == 1.0, pcr_bg <= 0.5
    return Measurement(
        temperature=temperature,
        problems=len(problems),
        samples=samples,
        pass_at_1=float(right_bg.mean()),
        pass_at_n=float(np.mean([pass_at_k(samples, int(row.sum()), samples) for row in right_bg])),
        auc=area_under_curve(pcr_bg.ravel(), right_bg.ravel()),
        entropy=-sum(sum(completion.logprobs) for completion in flat) / max(tokens, 1),
        wrong_at_one=_share(~right_bg[at_one]),
        share_at_one=float(at_one.mean()),
        wrong_at_half=_share(~right_bg[at_half]),
        share_at_half=float(at_half.mean()),
        shared_wrong=shared / max(shared + alone, 1),
        no_output=silent / max(shared + alone + silent, 1),
        truncated=sum(completion.finish_reason == "length" for completion in flat) / len(flat),
        equal_groups=equal / len(problems),
        answer_tokens=tokens / len(flat),
        accepted_probes=probes.accepted,
    )


def area_under_curve(score: np.ndarray, right: np.ndarray) -> float:
    """Chance that a right one's score is above a wrong one's, ties counted half; 0.5 when there is only one kind."""
    up, down = score[right], score[~right]
    if not len(up) or not len(down):
        return 0.5
    difference = up[:, None] - down[None, :]
    return float(np.mean((difference > 0) + 0.5 * (difference == 0)))


def _fenced(answer: str) -> str:
    return answer.removeprefix("```\n").removesuffix("\n```")


def _share(values: np.ndarray) -> float:
    return float(values.mean()) if values.size else 0.0
