"""All updates of one step's rollouts: one by default, or `update.epochs` passes over `update.minibatches` parts.

Whole groups are split, in their order, the same way in every pass. With more than one update, the trainer's own
log-probs of every token are computed before the first; the ratio is taken against them. Where rollouts are a step old
(`rollout.async_steps`), it is taken against the log-probs they were drawn with. D and H are each mini-batch's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from erpo_jax.config import Config, loosest_dtype
from erpo_jax.policy import Policy
from erpo_jax.update.batch import Candidate
from erpo_jax.update.forward import make_scorer
from erpo_jax.update.packing import BatchShape, batch_shape, pack, unpack
from erpo_jax.update.step import Metrics, TrainState, make_update


def largest_gap(config: Config) -> float:
    """rollout.max_logprob_gap, nats; where it is null, by dtype and by whether the sampler's policy is the trainer's.

    Two implementations of one policy differ by about 1e-6 in float32 and 0.015 in bfloat16, a policy and its
    successor by far less than another policy, a shifted answer or a wrong temperature do.
    """
    if config.rollout.max_logprob_gap is not None:
        return config.rollout.max_logprob_gap
    if config.update.epochs * config.update.minibatches > 1 or config.rollout.async_steps:
        return 0.3
    return {"float32": 1e-3, "bfloat16": 0.05}[loosest_dtype(config)]


class RolloutUpdate:
    """Learns from the candidates of one step. Built once per run; compiles on first use."""

    def __init__(self, policy: Policy, config: Config, shape: BatchShape | None = None) -> None:
        self.shape = shape or batch_shape(config)
        """The shapes of one mini-batch."""
        self.update = make_update(
            policy,
            loss=config.loss,
            mask=config.mask,
            update=config.update,
            optimizer=config.optimizer,
            temperature=config.rollout.temperature,
            max_gap=largest_gap(config),
        )
        self._score = make_scorer(policy, config.update, config.rollout.temperature)
        self._config = config

    @property
    def compilations(self) -> int:
        """How often the step was compiled: at most `len(self.shape.row_tokens)` times in a run."""
        return self.update.compilations

    def __call__(self, state: TrainState, candidates: Sequence[Candidate]) -> tuple[TrainState, list[Metrics]]:
        """(state after all updates, metrics of each). `state` is donated. Raises BatchError, with nothing learnt."""
        config = self._config
        parts = [self._part(candidates, number) for number in range(config.update.minibatches)]
        if config.rollout.async_steps:
            parts = [[replace(c, old_logprobs=c.rollout_logprobs) for c in part] for part in parts]
        elif self.shape.old_logprobs:
            parts = [self._scored(state, part) for part in parts]
        batches = [pack(part, self.shape, config.mask, config.loss) for part in parts]
        metrics = []
        for _ in range(config.update.epochs):
            for batch in batches:
                state, measured = self.update(state, batch)
                metrics.append(measured)
        return state, metrics

    def _part(self, candidates: Sequence[Candidate], number: int) -> list[Candidate]:
        first, groups = number * self.shape.groups, self.shape.groups
        return [replace(c, group=c.group - first) for c in candidates if first <= c.group < first + groups]

    def _scored(self, state: TrainState, part: Sequence[Candidate]) -> list[Candidate]:
        """The same candidates with the trainer's log-probs under `state` as old log-probs."""
        shape = replace(self.shape, old_logprobs=False)
        batch = pack(part, shape, self._config.mask, self._config.loss)
        found = unpack(batch, self._score(state.params, batch))

        def scored(c: Candidate) -> Candidate:
            return replace(c, old_logprobs=found[c.group * shape.group_size + c.index].tolist())

        return [scored(c) if c.present else c for c in part]
