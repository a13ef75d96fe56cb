"""The embedded engine: samples from the trainer's own parameters, on the trainer's own devices.

`generate` keeps a fixed number of lanes busy (lanes.py): whenever enough of them have ended, the next answers of the
queue take their places, so that one long answer delays no other. New weights come as the policy itself: nothing is
copied, no folder is written. Left out: serving (many clients, streaming), speculative decoding, paged memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import jax
import numpy as np
from flax import nnx

from erpo_jax.errors import UserError
from erpo_jax.policy import DecodeWeights, KVCache, Policy
from erpo_jax.rollout.engine import BrokenPolicyError, Completion, FinishReason, Sampling
from erpo_jax.rollout.lanes import Filling, Lanes, Programs
from erpo_jax.rollout.requests import check_requests
from erpo_jax.rollout.sampling import seed_words

Progress = Callable[[int, int], None]


class EngineError(UserError):
    """An engine that cannot be made, or weights that it cannot take: names the size or the parameter, and what fits."""


@dataclass
class _Answer:
    """One completion in the making."""

    prompt: int
    sample: int
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)


class JaxEngine:
    """An Engine over a Policy. `batch_rows` answers are sampled side by side: a multiple of mesh.data * mesh.fsdp.

    A completion depends on the weights, its prompt, (seed, sample index) and the shapes compiled for it: the prompt's
    bucket, the number of lanes and the cache's capacity. At equal shapes it is the same bit for bit, whatever else is
    in the call and in whatever order. `compact` lets a call go on with a quarter of the lanes when that is enough for
    what is left: on a CPU a step's time grows with the lanes (default there), on a GPU hardly. `end_ids` None takes the
    policy's; with none at all every answer runs to max_new_tokens (benchmarks).
    """

    embedded = True

    def __init__(
        self,
        policy: Policy,
        *,
        batch_rows: int,
        max_prompt_tokens: int,
        version: int = 0,
        compact: bool | None = None,
        end_ids: Sequence[int] | None = None,
    ) -> None:
        mesh = policy.mesh
        self._shards = mesh.shape["data"] * mesh.shape["fsdp"]
        if batch_rows < 1 or batch_rows % self._shards:
            below = batch_rows // self._shards * self._shards
            near = f"{below} or {below + self._shards}" if below > 0 else f"{self._shards}"
            raise EngineError(
                f"rollout.batch_rows={batch_rows} must be a multiple of mesh.data * mesh.fsdp = {self._shards}; "
                f"the nearest valid values are {near}"
            )
        if max_prompt_tokens < 1:
            raise EngineError(f"rollout.max_prompt_tokens={max_prompt_tokens} must be at least 1")
        on_cpu = mesh.devices.flat[0].platform == "cpu"
        self.batch_rows = batch_rows
        self.max_prompt_tokens = max_prompt_tokens
        self.weights_version = version
        self._compact = on_cpu if compact is None else compact
        self._end_ids = policy.end_ids if end_ids is None else tuple(end_ids)
        decoder = nnx.merge(policy.graphdef, policy.params)
        self.programs = Programs(policy.graphdef, policy.spec, mesh, decoder.compute_dtype, self._end_ids)
        self._policy: Policy | None = policy

    @property
    def compilations(self) -> int:
        """How many programs have been compiled so far: at most one per kind and shape."""
        return self.programs.compilations

    @property
    def compile_seconds(self) -> float:
        """The time spent compiling so far."""
        return self.programs.compile_s

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        n: int,
        sampling: Sampling,
        seeds: Sequence[int],
        progress: Progress | None = None,
    ) -> list[list[Completion]]:
        """See Engine. Raises RequestError (a ValueError) naming the prompt; RuntimeError when the weights are gone or
        the model's logits are not finite."""
        policy = self._living()
        check_requests(
            prompts,
            n,
            sampling,
            seeds,
            vocabulary=policy.spec.vocabulary,
            max_prompt_tokens=self.max_prompt_tokens,
            max_positions=policy.spec.max_positions,
        )
        call = _Call(self, policy, prompts, n, sampling, seeds)
        total = len(prompts) * n
        for done in call.run():
            if progress is not None:
                progress(done, total)
        return call.completions(self.weights_version)

    def refresh(self, policy: Policy, version: int) -> None:
        """Sample from `policy` from now on. Its parameters stay where they are; an update that donates them must be
        followed by a refresh with its result. Raises EngineError naming the parameter that differs in name, shape,
        dtype or layout."""
        if self._policy is None:
            raise RuntimeError("the engine is closed")
        if policy.spec != self._policy.spec or policy.mesh != self._policy.mesh:
            raise EngineError("the engine was made for another model or mesh than this policy's; make a new engine")
        _check_same(dict(nnx.to_flat_state(self._policy.params)), dict(nnx.to_flat_state(policy.params)))
        self._policy = policy
        self.weights_version = version

    def rest(self) -> None:
        """Nothing is held between two calls."""

    def close(self) -> None:
        """Let go of the weights and the compiled programs. A closed engine answers nothing."""
        self._policy = None
        self.programs = Programs(
            self.programs.graphdef, self.programs.spec, self.programs.mesh, self.programs.compute_dtype, self._end_ids
        )

    def _living(self) -> Policy:
        if self._policy is None:
            raise RuntimeError("the engine is closed")
        if any(leaf.is_deleted() for leaf in jax.tree.leaves(self._policy.params)):
            raise RuntimeError(
                f"the weights of version {self.weights_version} were donated to an update and are gone; "
                "call engine.refresh(policy, version) with the updated policy before generate"
            )
        return self._policy


class _Call:
    """One call of generate: the queue of answers, the lanes, and who sits in which."""

    def __init__(
        self,
        engine: JaxEngine,
        policy: Policy,
        prompts: Sequence[Sequence[int]],
        n: int,
        sampling: Sampling,
        seeds: Sequence[int],
    ) -> None:
        self.programs = engine.programs
        self.policy, self.prompts, self.sampling, self.seeds = policy, prompts, sampling, seeds
        self.shards, self.end_ids = engine._shards, engine._end_ids
        self.answers = [[_Answer(i, j) for j in range(n)] for i in range(len(prompts))]
        # prompts of one bucket side by side, so that they can be prefilled together
        order = sorted(range(len(prompts)), key=self._slots)
        self.queue = [answer for i in order for answer in self.answers[i]]
        self.few = _round_up(math.ceil(engine.batch_rows / 4), self.shards) if engine._compact else engine.batch_rows
        self.rows = self.few if len(self.queue) <= self.few else engine.batch_rows
        self.n, self.rows_at_first = n, self.rows
        self.seated: list[_Answer | None] = [None] * self.rows
        self.prefilled: tuple[dict[int, int], KVCache] | None = None

    def run(self) -> Iterator[int]:
        """Work until every answer has ended; yields how many have, each time some did."""
        if not self.queue:
            return
        done = 0
        longest = max(map(self._slots, range(len(self.prompts))))
        capacity = bucket(longest + self.sampling.max_new_tokens, CAPACITY_STEPS)
        weights = self.programs.weights(self.policy.params)
        lanes = self.programs.empty(self.rows, capacity)
        while self.queue or any(self.seated):
            lanes = self._seat(lanes)
            lanes, ended = self._decode(weights, lanes)
            done += ended
            lanes = self._shrink(lanes)
            if ended:
                yield done

    def completions(self, version: int) -> list[list[Completion]]:
        return [[self._completion(answer, version) for answer in group] for group in self.answers]

    def _completion(self, answer: _Answer, version: int) -> Completion:
        reason: FinishReason = "stop" if answer.token_ids[-1] in self.end_ids else "length"
        return Completion(tuple(answer.token_ids), tuple(answer.logprobs), reason, version)

    def _seat(self, lanes: Lanes) -> Lanes:
        """Give the free lanes to the answers at the head of the queue, prefilling prompts as they come up."""
        free = [row for row, answer in enumerate(self.seated) if answer is None]
        while free and self.queue:
            rows_of, prefilled = self._prefill_head()
            source_r = np.full(self.rows, -1, np.int32)
            tokens_r, positions_r = np.zeros(self.rows, np.int32), np.zeros(self.rows, np.int32)
            seeds, samples = [0] * self.rows, [0] * self.rows
            while free and self.queue and self.queue[0].prompt in rows_of:
                row, answer = free.pop(0), self.queue.pop(0)
                prompt = self.prompts[answer.prompt]
                source_r[row], tokens_r[row], positions_r[row] = rows_of[answer.prompt], prompt[-1], len(prompt) - 1
                seeds[row], samples[row] = self.seeds[answer.prompt], answer.sample
                self.seated[row] = answer
            filling = Filling(source_r, tokens_r, positions_r, seed_words(seeds, samples))
            lanes = self.programs.fill(lanes, prefilled, filling)
        if not self.queue:
            self.prefilled = None  # its memory is free for the rest of the call
        return lanes

    def _prefill_head(self) -> tuple[dict[int, int], KVCache]:
        """The prefilled cache that holds the prompt at the head of the queue, and which of its rows is which prompt."""
        if self.prefilled is None or self.queue[0].prompt not in self.prefilled[0]:
            slots = self._slots(self.queue[0].prompt)
            rows = self._prefill_rows(slots)
            waiting = dict.fromkeys(answer.prompt for answer in self.queue if self._slots(answer.prompt) == slots)
            chosen = list(waiting)[:rows]
            tokens_qs, segments_qs = np.zeros((rows, slots), np.int32), np.zeros((rows, slots), np.int32)
            for row, i in enumerate(chosen):
                tokens_qs[row, : len(self.prompts[i])] = self.prompts[i]
                segments_qs[row, : len(self.prompts[i])] = 1
            cache = self.programs.prefill(self.policy.params, tokens_qs, segments_qs)
            self.prefilled = {i: row for row, i in enumerate(chosen)}, cache
        return self.prefilled

    def _slots(self, prompt: int) -> int:
        return bucket(len(self.prompts[prompt]), PROMPT_STEPS)

    def _prefill_rows(self, slots: int) -> int:
        """How many prompts are prefilled together: as many as the lanes hold at once, in powers of two, within
        PREFILL_TOKENS. It follows from the numbers of lanes and samples alone: no neighbour changes a shape."""
        wanted = 2 ** math.ceil(math.log2(math.ceil(self.rows_at_first / self.n)))
        return _round_up(max(1, min(wanted, PREFILL_TOKENS // slots)), self.shards)

    def _decode(self, weights: DecodeWeights, lanes: Lanes) -> tuple[Lanes, int]:
        """Run the lanes on until some must be looked at. Returns how many answers ended."""
        if self.queue:
            stop_at = self.rows - max(1, self.rows // REFILL_SHARE)
        else:
            stop_at = self.few if self.rows > self.few else 0
        greedily = self.sampling.temperature == 0.0
        lanes, chunk = self.programs.decode(
            self.policy.params,
            weights,
            lanes,
            np.float32(self.sampling.temperature),
            np.int32(self.sampling.max_new_tokens),
            np.int32(stop_at),
            greedily=greedily,
        )
        tokens_cr, logprobs_cr, emitted_r, live_r = map(np.asarray, chunk)
        ended = 0
        for row, answer in enumerate(self.seated):
            if answer is None:
                continue
            new = slice(0, int(emitted_r[row]))
            if not np.isfinite(logprobs_cr[new, row]).all():
                raise BrokenPolicyError(
                    f"the log-prob of a token sampled for prompt {answer.prompt} is not finite: the policy's weights "
                    "or logits are broken"
                )
            answer.token_ids.extend(tokens_cr[new, row].tolist())
            answer.logprobs.extend(logprobs_cr[new, row].tolist())
            if not live_r[row]:
                self.seated[row] = None
                ended += 1
        return lanes, ended

    def _shrink(self, lanes: Lanes) -> Lanes:
        """Go on with fewer lanes once nothing waits and they suffice."""
        taken = [row for row, answer in enumerate(self.seated) if answer is not None]
        if self.queue or self.rows <= self.few or not taken or len(taken) > self.few:
            return lanes
        free = [row for row, answer in enumerate(self.seated) if answer is None]
        kept = (taken + free)[: self.few]
        self.seated, self.rows = [self.seated[row] for row in kept], self.few
        return self.programs.take(lanes, np.asarray(kept, np.int32))


PROMPT_STEPS, CAPACITY_STEPS = 2, 4  # buckets per doubling: a wider one wastes work, one more is one more compilation
PREFILL_TOKENS = 2048  # prompts are prefilled together up to so many tokens: more would only take memory
REFILL_SHARE = 8  # free lanes are filled once they are a rows/8: each filling copies into the cache


def bucket(length: int, steps: int) -> int:
    """The least size that holds `length`: 64, then `steps` sizes per doubling, evenly spaced. bucket(70, 2) = 96."""
    if length <= 64:
        return 64
    below: int = 2 ** ((length - 1).bit_length() - 1)
    return below + _round_up(length - below, below // steps)


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _check_same(old: dict[tuple, nnx.Variable], new: dict[tuple, nnx.Variable]) -> None:
    def name(path: tuple) -> str:
        return "/".join(map(str, path))

    for path in [*old, *new]:
        if path not in new or path not in old:
            what = "is missing from" if path not in new else "is unknown in"
            raise EngineError(f"parameter {name(path)} {what} the new weights; the engine keeps the old ones")
        before, after = old[path][...], new[path][...]
        for what, was, now in (("shape", before.shape, after.shape), ("dtype", before.dtype, after.dtype)):
            if was != now:
                raise EngineError(f"parameter {name(path)} has {what} {now} in the new weights, not {was}")
        if not after.sharding.is_equivalent_to(before.sharding, after.ndim):
            raise EngineError(
                f"parameter {name(path)} has the layout {after.sharding} in the new weights, not {before.sharding}"
            )
