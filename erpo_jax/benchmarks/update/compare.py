"""The update against what else there is, in one run: seconds, counted operations, compiled memory.

All start from the same weights and see the same candidates; before anything is measured, their log-probs of every
answer token are compared. Our step is measured at three settings of the entropy term: off, on with the entropy at or
below the ceiling (the usual case), and above it.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from erpo_jax.benchmarks.timing import BenchmarkError, Timing, in_turn
from erpo_jax.benchmarks.update.candidates import kept_share, of_one_length, of_rollouts, tokens
from erpo_jax.benchmarks.update.contestants import Contestant, erpo, plain_reference, verl_like
from erpo_jax.benchmarks.update.tunix import tunix
from erpo_jax.config import LossConfig, MaskConfig, UpdateConfig
from erpo_jax.planning import count
from erpo_jax.policy import ModelSpec, Policy, init, make_mesh
from erpo_jax.update import Candidate, row_lengths

OFF = LossConfig(entropy_coefficient=0.0)
BELOW = LossConfig(entropy_ceiling=1e6)
ABOVE = LossConfig(entropy_ceiling=0.0)
USUAL = "erpo_jax, below the ceiling"
LARGE_VOCABULARY = 151_936


@dataclass(frozen=True)
class Sizes:
    """The policy and its batch."""

    layers: int = 2
    width: int = 256
    vocabulary: int = 8192
    candidates: int = 16
    groups: int = 2
    tokens: int = 256
    prompt_tokens: int = 64
    micro_batch_rows: int = 1
    chunk_tokens: int = 128

    def policy(self, vocabulary: int) -> Policy:
        """Random weights in the proportions of Qwen3-0.6B."""
        heads = max(self.width // 64, 1)
        spec = ModelSpec(
            family="qwen3",
            vocabulary=vocabulary,
            model=self.width,
            feed_forward=3 * self.width,
            layers=self.layers,
            heads=heads,
            kv_heads=max(heads // 2, 1),
            head_dim=self.width // heads,
            max_positions=8192,
            rope_theta=1e6,
            norm_eps=1e-6,
            tied=True,
            qk_norm=True,
        )
        return init(spec, make_mesh(), 0, ".", remat=False)


@dataclass(frozen=True)
class Result:
    """One contestant's figures for one step."""

    contestant: str
    does: str
    timing: Timing
    flops: float
    temporaries: int
    """Bytes of compiled temporaries, the most of its programs."""
    temporaries_large: int | None
    """The same at a vocabulary of 151,936; None where that is not compiled."""


@dataclass(frozen=True)
class UpdateBenchmark:
    what: str
    share: float
    logprob_gap: float
    logits_large: int
    """Bytes of all float32 logits of the candidates at a vocabulary of 151,936."""
    results: tuple[Result, ...]

    def lines(self) -> list[str]:
        """A report for people. Ratios are ours (below the ceiling) over each other one's."""
        s = self.share
        ours = next(result for result in self.results if result.contestant == USUAL)
        lines = [
            self.what,
            f"kept share s = {s:.3f}; (1 + 3 s) / 5 = {(1 + 3 * s) / 5:.3f}; largest gap between log-probs "
            f"{self.logprob_gap:.1e} nats",
            f"all float32 logits at a vocabulary of {LARGE_VOCABULARY:,}: {self.logits_large / 2**20:,.0f} MiB",
        ]
        for r in self.results:
            lines += [
                f"{r.contestant}: {r.does}",
                f"    {r.timing} (least / median of {len(r.timing.cpu_s)}), {r.flops / 1e9:.2f} GFLOP, "
                f"temporaries {r.temporaries / 2**20:,.0f} MiB",
            ]
            if r.temporaries_large is not None:
                large = r.temporaries_large
                lines.append(
                    f"    temporaries at the large vocabulary {large / 2**20:,.0f} MiB, "
                    f"{large / self.logits_large:.1%} of all logits"
                )
            if r is not ours:
                least, median = (pick(ours.timing.cpu_s) / pick(r.timing.cpu_s) for pick in (min, statistics.median))
                both = ours.temporaries_large, r.temporaries_large
                memory = f", temporaries at the large vocabulary {both[0] / both[1]:.3f}" if both[0] and both[1] else ""
                lines.append(
                    f"    ours / this: cpu {least:.3f} (least), {median:.3f} (median), operations "
                    f"{ours.flops / r.flops:.3f}{memory}"
                )
        return lines


def compare(
    sizes: Sizes,
    *,
    rollouts: Path | None = None,
    with_tunix: bool = True,
    repeats: int = 5,
    say: Callable[[str], None] = lambda line: None,
) -> UpdateBenchmark:
    """Measure `repeats` steps of each, in turn. Raises BenchmarkError."""
    if sizes.width % (2 * max(sizes.width // 64, 1)) or sizes.vocabulary < 2:
        raise BenchmarkError(
            f"--width {sizes.width} must be a multiple of 64 (heads of 64), --vocabulary {sizes.vocabulary} at least 2"
        )
    if rollouts is None:
        candidates = of_one_length(sizes.candidates, sizes.groups, sizes.tokens, sizes.prompt_tokens, sizes.vocabulary)
    else:
        candidates = of_rollouts(rollouts, sizes.candidates, sizes.vocabulary)
    contestants = [make() for make in _contestants(sizes, sizes.vocabulary, candidates, with_tunix)]
    usual = [contestant.name for contestant in contestants].index(USUAL)
    say("comparing log-probs")
    gap = _same_logprobs(contestants[usual:])
    for contestant in contestants:
        say(f"compiling {contestant.name}")
        contestant.run()
    say("measuring")
    timings = in_turn([contestant.run for contestant in contestants], repeats)
    say("counting operations")
    programs = [_compiled(contestant) for contestant in contestants]
    large: list[int | None] = [None] * usual
    for make in _contestants(sizes, LARGE_VOCABULARY, candidates, with_tunix)[usual:]:
        say(f"compiling at a vocabulary of {LARGE_VOCABULARY:,}")
        large.append(_temporaries(_compiled(make())))
    results = [
        Result(c.name, c.does, timing, _flops(compiled, c.branch), _temporaries(compiled), more)
        for c, timing, compiled, more in zip(contestants, timings, programs, large, strict=True)
    ]
    lengths = [tokens(c) for c in candidates]
    what = (
        f"{len(candidates)} candidates of {min(lengths)} to {max(lengths)} tokens ({sum(lengths):,} in all, "
        f"{sum(len(c.completion_ids) for c in candidates):,} in answers); {sizes.layers} layers, width {sizes.width}, "
        f"vocabulary {sizes.vocabulary:,}, float32, no rematerialisation"
    )
    share = kept_share(candidates, MaskConfig(), BELOW)
    return UpdateBenchmark(what, share, gap, sum(lengths) * LARGE_VOCABULARY * 4, tuple(results))


def _contestants(
    sizes: Sizes, vocabulary: int, candidates: Sequence[Candidate], with_tunix: bool
) -> list[Callable[[], Contestant]]:
    """Not made yet: each holds a policy and an optimizer of its own."""
    policy = sizes.policy(vocabulary)
    rows = row_lengths(2 * max(map(tokens, candidates)))
    update = UpdateConfig(micro_batch_rows=sizes.micro_batch_rows, chunk_tokens=sizes.chunk_tokens)
    made: list[Callable[[], Contestant]] = [
        partial(erpo, name, policy, candidates, loss, update, rows)
        for name, loss in (("erpo_jax, above the ceiling", ABOVE), ("erpo_jax, entropy term off", OFF), (USUAL, BELOW))
    ]
    made += [partial(plain_reference, policy, candidates, BELOW), partial(verl_like, policy, candidates)]
    return [*made, partial(tunix, policy, candidates)] if with_tunix else made


def _same_logprobs(contestants: Sequence[Contestant]) -> float:
    first, *others = (np.concatenate(contestant.logprobs()) for contestant in contestants)
    gap = max(float(np.max(np.abs(first - other))) for other in others)
    if not gap < 1e-3:
        raise AssertionError(f"log-probs differ by {gap}: the contestants do not see the same")
    return gap


def _compiled(contestant: Contestant) -> list[Any]:
    return [lowered.compile() for lowered in contestant.lower()]


def _flops(compiled: Sequence[Any], branch: int) -> float:
    return sum(count(program.as_text(), branch=branch).flops for program in compiled)


def _temporaries(compiled: Sequence[Any]) -> int:
    return max(int(program.memory_analysis().temp_size_in_bytes) for program in compiled)
