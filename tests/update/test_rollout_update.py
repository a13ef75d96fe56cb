"""Several updates per rollout: what is split, what the ratio is taken against, and how often the step is compiled."""

from dataclasses import replace

import numpy as np
import optax
import pytest

from erpo_jax.config import Config, LossConfig, OptimizerConfig, UpdateConfig
from erpo_jax.update import BatchShape, Candidate, RolloutUpdate, make_optimizer
from erpo_jax.update.reference import reference_gradient, reference_logprobs

# A rate so large that the second pass has ratios far from 1.
FAST = OptimizerConfig(learning_rate=0.02, warmup_steps=0)


def configured(**sections):
    config = Config()
    config.rollout.max_logprob_gap = 100.0  # the samples' log-probs are of no policy
    for name, section in sections.items():
        setattr(config, name, section)
    return config


def test_two_passes_over_two_parts(tiny, sample, distance):
    config = configured(
        update=UpdateConfig(epochs=2, minibatches=2, micro_batch_rows=2, chunk_tokens=16),
        optimizer=FAST,
        loss=LossConfig(entropy_ceiling=3.0),
    )
    policy, candidates = tiny.bigram(), sample(50)
    learn = RolloutUpdate(policy, config, BatchShape(2, 4, 2, (24,), old_logprobs=True))
    state, metrics = learn(tiny.state(policy, FAST), candidates)

    optimizer, params = make_optimizer(FAST), policy.params
    opt_state = optimizer.init(params)
    present = [c for c in candidates if c.present]
    old = reference_logprobs(policy, params, present, 1.0)
    scored = [replace(c, old_logprobs=x.tolist()) for c, x in zip(present, old, strict=True)]
    parts = [[c for c in scored if c.group // 2 == half] for half in (0, 1)]
    for number, part in enumerate(parts * 2):
        grads, found = reference_gradient(policy, params, part, mask=config.mask, loss=config.loss, temperature=1.0)
        changes, opt_state = optimizer.update(grads, opt_state, params)
        params = optax.apply_updates(params, changes)
        assert float(metrics[number]["loss"]) == pytest.approx(float(found["loss"]), rel=1e-4)
        assert int(metrics[number]["response_tokens"]) == sum(len(c.completion_ids) for c in part)
    assert distance(state.params, params) < 1e-4
    # only the very first update sees the policy that the old log-probs come from
    assert [float(m["ratio_mean"]) == pytest.approx(1.0, abs=1e-5) for m in metrics] == [True, False, False, False]
    assert learn.compilations == 1


def test_one_update_needs_no_old_log_probs(tiny, sample):
    config = configured(update=UpdateConfig(micro_batch_rows=2, chunk_tokens=16), optimizer=FAST)
    policy = tiny.bigram()
    learn = RolloutUpdate(policy, config, BatchShape(4, 4, 2, (24,)))
    state, metrics = learn(tiny.state(policy, FAST), sample(51))
    assert len(metrics) == 1
    assert float(metrics[0]["ratio_mean"]) == 1
    assert int(state.step) == 1


def test_an_empty_part_is_skipped(tiny, sample):
    config = configured(update=UpdateConfig(minibatches=2, micro_batch_rows=2, chunk_tokens=16), optimizer=FAST)
    policy = tiny.bigram()
    learn = RolloutUpdate(policy, config, BatchShape(2, 4, 2, (24,), old_logprobs=True))
    candidates = [replace(c, present=c.present and c.group < 2) for c in sample(52)]
    state, metrics = learn(tiny.state(policy, FAST), candidates)
    assert [float(m["skipped_update"]) for m in metrics] == [0, 1]
    assert int(state.step) == 1


def test_u9_fifty_steps_compile_once_per_row_length(tiny):
    config = configured(update=UpdateConfig(micro_batch_rows=2, chunk_tokens=16), optimizer=FAST)
    policy, rng = tiny.bigram(), np.random.default_rng(0)
    learn = RolloutUpdate(policy, config, BatchShape(4, 4, 2, (16, 32, 64)))
    state, lengths = tiny.state(policy, FAST), set()
    for _ in range(50):
        longest = int(rng.integers(2, 60))
        candidates = [
            Candidate(
                prompt_ids=[1, 2, 3],
                completion_ids=(ids := rng.integers(1, 64, rng.integers(1, longest)).tolist()),
                rollout_logprobs=[-4.0] * len(ids),
                group=group,
                index=index,
                reward=float(rng.integers(0, 3)) / 2,
                present=bool(rng.random() < 0.8),
            )
            for group in range(int(rng.integers(0, 5)))
            for index in range(int(rng.integers(1, 5)))
        ]
        state, metrics = learn(state, candidates)
        lengths.add(int(metrics[0]["tokens"]))
    assert len(lengths) > 30
    assert learn.compilations == 3
    assert learn.compilations <= len(learn.shape.row_tokens)
