"""The compiled step against the plain reference, and every rule on when and what it learns."""

import json
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from erpo_jax.checkpoint import Checkpoints
from erpo_jax.config import LossConfig, MaskConfig, OptimizerConfig, UpdateConfig
from erpo_jax.policy import export, load
from erpo_jax.update import GAP_EDGES, BatchError, BatchShape, make_update, pack
from erpo_jax.update.reference import plan, reference_gradient, reference_logprobs
from tests.update.conftest import SPEC

HF_CONFIG = {
    "model_type": "qwen3",
    "vocab_size": SPEC.vocabulary,
    "hidden_size": SPEC.model,
    "intermediate_size": SPEC.feed_forward,
    "num_hidden_layers": SPEC.layers,
    "num_attention_heads": SPEC.heads,
    "num_key_value_heads": SPEC.kv_heads,
    "head_dim": SPEC.head_dim,
    "max_position_embeddings": SPEC.max_positions,
    "rope_theta": SPEC.rope_theta,
    "rms_norm_eps": SPEC.norm_eps,
    "tie_word_embeddings": SPEC.tied,
    "initializer_range": SPEC.initializer_range,
}
BELOW = LossConfig(entropy_ceiling=10.0)
NO_TERM = LossConfig(entropy_coefficient=0.0)
TIED = [[0.3] * 4] * 4


def bits(tree):
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(tree)]


def against_reference(tiny, candidates, distance, *, policy=None, mask=None, loss=None, temperature=1.0):
    mask, loss, policy = mask or MaskConfig(), loss or LossConfig(), policy or tiny.bigram()
    wanted, parts = reference_gradient(policy, policy.params, candidates, mask=mask, loss=loss, temperature=temperature)
    found, metrics, _ = tiny.run(candidates, policy=policy, mask=mask, loss=loss, temperature=temperature)
    assert distance(found, wanted) < 1e-5
    for name, value in parts.items():
        assert metrics[name] == pytest.approx(float(value), rel=1e-5, abs=1e-7)
    assert metrics["grad_norm"] == pytest.approx(float(optax.tree.norm(wanted)), rel=1e-5)
    return metrics


@pytest.mark.parametrize("seed", [0, 1])
def test_above_the_ceiling(tiny, sample, distance, seed):
    metrics = against_reference(tiny, sample(seed), distance, policy=tiny.policy())
    assert metrics["entropy_excess"] > 0


def test_below_the_ceiling(tiny, sample, distance):
    metrics = against_reference(tiny, sample(3), distance, loss=BELOW)
    assert metrics["entropy_excess"] == 0
    assert metrics["loss"] == metrics["policy_loss"]


def test_only_the_entropy_is_left(tiny, sample, distance):
    metrics = against_reference(tiny, sample(4, TIED), distance)
    assert metrics["kept_fraction"] == metrics["policy_loss"] == metrics["skipped_update"] == 0
    assert metrics["tied_groups_share"] == 1


def test_temperature(tiny, sample, distance):
    against_reference(tiny, sample(5), distance, temperature=0.6)


def test_old_logprobs_clipping_and_importance(tiny, sample, distance):
    loss = LossConfig(importance_cap=1.1, entropy_ceiling=3.0)
    metrics = against_reference(tiny, sample(6, old=True), distance, loss=loss, policy=tiny.policy())
    assert 0.2 < metrics["ratio_clipped_share"] < 1
    assert metrics["ratio_max"] > 1.2
    assert metrics["ratio_mean"] != 1


def test_u6_just_under_and_just_over_the_ceiling(tiny, sample):
    candidates = sample(7)
    plain, metrics, state = tiny.run(candidates, loss=NO_TERM)
    h = metrics["entropy"]
    under, _, state_under = tiny.run(candidates, loss=LossConfig(entropy_ceiling=h))
    assert bits(under) == bits(plain)
    assert bits(state_under) == bits(state)
    over, metrics, _ = tiny.run(candidates, loss=LossConfig(entropy_ceiling=h - 1e-2))
    assert metrics["loss"] - metrics["policy_loss"] == pytest.approx(1e-4, rel=1e-3)
    # the term's gradient is 2 * c * excess * dH: half the excess, half the effect
    half, _, _ = tiny.run(candidates, loss=LossConfig(entropy_ceiling=h - 5e-3))
    for a, b, none in zip(*(map(np.asarray, jax.tree.leaves(tree)) for tree in (over, half, plain)), strict=True):
        assert np.linalg.norm((b - none) - (a - none) / 2) < 1e-3 * np.linalg.norm(a - none)


@pytest.mark.parametrize("denominator", ["all_tokens", "kept_tokens", "sequences"])
def test_u5_three_of_four_groups_tied(tiny, sample, distance, denominator):
    rewards = [[0.7] * 4, [0.0, 0.5, 1.0, 1.0], [0.3] * 4, [1.0] * 4]
    loss = LossConfig(entropy_coefficient=0.0, denominator=denominator)
    candidates = sample(8, rewards, absent=0)
    metrics = against_reference(tiny, candidates, distance, loss=loss)
    assert metrics["tied_groups_share"] == 0.75
    assert metrics["kept_fraction"] == 2 / 16
    kept = [len(c.completion_ids) for c in candidates if c.group == 1][:2]
    divisor = {
        "all_tokens": sum(len(c.completion_ids) for c in candidates),
        "kept_tokens": sum(kept),
        "sequences": 2,
    }[denominator]
    parts = kept if denominator != "sequences" else [1, 1]
    # r = 1: the loss is -(n1 * A1 + n2 * A2) / divisor with A of (0, 0.5, 1, 1)
    by_hand = (parts[0] * 1.3055798 + parts[1] * 0.2611160) / divisor
    assert metrics["policy_loss"] == pytest.approx(by_hand, rel=1e-5)


@pytest.mark.parametrize("case", ["tied", "absent"])
def test_u4_nothing_to_learn_changes_no_bit(tiny, sample, case):
    candidates = sample(9, TIED) if case == "tied" else [replace(c, present=False) for c in sample(9)]
    optimizer = OptimizerConfig(learning_rate=0.1)
    policy = tiny.bigram()
    before = bits(tiny.state(policy, optimizer))
    loss = BELOW if case == "tied" else LossConfig()
    _, metrics, state = tiny.run(candidates, loss=loss, optimizer=optimizer)
    assert metrics["skipped_update"] == 1
    assert metrics["nonfinite"] == 0
    assert bits(state) == before
    if case == "absent":
        assert metrics["response_tokens"] == metrics["tokens"] == metrics["entropy"] == metrics["candidates"] == 0


def test_non_finite_gradient_is_skipped(tiny, sample):
    candidates = sample(10, old=True)
    policy = tiny.bigram()
    optimizer, update = OptimizerConfig(), UpdateConfig(micro_batch_rows=2, chunk_tokens=16)
    compiled = tiny.update(policy, loss=LossConfig(), mask=MaskConfig(), update=update, optimizer=optimizer)
    batch = pack(candidates, BatchShape(4, 4, 2, (24,), old_logprobs=True), MaskConfig(), LossConfig())
    batch.old_logprobs_rs[batch.response_mask_rs] = np.nan
    before = bits(tiny.state(policy, optimizer))
    state, metrics = compiled(tiny.state(policy, optimizer), batch)
    assert float(metrics["nonfinite"]) == 1
    assert float(metrics["skipped_update"]) == 0
    assert bits(state) == before


def test_a_layout_for_another_mask_is_refused(tiny, sample):
    candidates, policy = sample(11, absent=0), tiny.bigram()
    update = UpdateConfig(micro_batch_rows=2, chunk_tokens=16)
    compiled = tiny.update(policy, loss=LossConfig(), mask=MaskConfig(), update=update)
    batch = pack(candidates, BatchShape(4, 4, 2, (24,)), MaskConfig(percent=25), LossConfig())
    with pytest.raises(BatchError, match="layout disagrees"):
        compiled(tiny.state(policy), batch)
    whole = pack(candidates, BatchShape(4, 4, 2, (24,)), MaskConfig(), LossConfig())
    with pytest.raises(BatchError, match="layout disagrees"):
        compiled(tiny.state(policy), replace(whole, micro_batches=whole.micro_batches - 1))
    with pytest.raises(BatchError, match="not a multiple"):
        compiled(tiny.state(policy), jax.tree.map(lambda x: x[:5] if x.ndim == 2 and x.shape[0] > 4 else x, whole))


def test_metrics_by_hand(tiny, sample):
    rewards = [[1.0, 1.0, 1.0, 0.0], [0.5] * 4, [0.0, 0.25, 0.5, 0.75], [float("nan")] * 4]
    candidates = [replace(c, present=(c.group, c.index) != (2, 3)) for c in sample(12, rewards)]
    _, metrics, _ = tiny.run(candidates, loss=BELOW)
    here = [c for c in candidates if c.present]
    # group 0: 3 and 0 kept, 0 has a positive advantage; group 1 tied; group 2: (0, 0.25, 0.5), one kept; group 3: none
    assert metrics["candidates"] == 15
    assert metrics["kept_fraction"] == pytest.approx(3 / 15)
    assert metrics["kept_positive_share"] == pytest.approx(1 / 3)
    assert metrics["tied_groups_share"] == pytest.approx(1 / 3)
    assert metrics["reward_mean"] == pytest.approx((3.0 + 2.0 + 0.75) / 11)
    # (1, 1, 1, 0): A = 0.25 / 0.500001 thrice and -1.5; (0, 0.25, 0.5): -1, 0, 1 (over 0.250001)
    assert metrics["advantage_mean"] == pytest.approx(0.0, abs=1e-6)
    assert metrics["advantage_abs_mean"] == pytest.approx((3 * 0.5 + 1.5 + 2) / 11, rel=1e-5)
    # what is computed: a prompt once per row, not once per candidate
    batch = pack(candidates, BatchShape(4, 4, 2, (24,)), MaskConfig(), BELOW)
    assert metrics["tokens"] == np.count_nonzero(batch.segments_rs)
    assert metrics["tokens"] < sum(len(c.prompt_ids) + len(c.completion_ids) for c in here)
    assert metrics["response_tokens"] == sum(len(c.completion_ids) for c in here)
    assert metrics["kept_tokens"] == sum(
        len(c.completion_ids) for c in here if (c.group, c.index) in {(0, 3), (0, 0), (2, 0)}
    )
    assert metrics["ratio_mean"] == metrics["ratio_max"] == 1
    assert metrics["ratio_clipped_share"] == metrics["misplaced_tokens"] == metrics["nonfinite"] == 0
    assert metrics["learning_rate"] == pytest.approx(5e-7 / 20)


@pytest.fixture
def shifted(tiny, sample):
    """Candidates whose sampler log-probs are the policy's own minus 0.125; the first token's minus another 0.625."""
    policy, candidates = tiny.bigram(), sample(13, absent=0)
    own = reference_logprobs(policy, policy.params, candidates, 1.0)
    own[0][0] -= 0.625
    return [replace(c, rollout_logprobs=(x - 0.125).tolist()) for c, x in zip(candidates, own, strict=True)]


def test_log_prob_gap(tiny, shifted):
    _, metrics, _ = tiny.run(shifted, loss=BELOW)
    tokens = metrics["response_tokens"]
    assert metrics["logprob_gap_mean"] == pytest.approx(0.125 + 0.625 / tokens, rel=1e-4)
    assert metrics["logprob_gap_max"] == pytest.approx(0.75, rel=1e-4)
    counts = [metrics[f"logprob_gap_from_{edge:g}"] for edge in GAP_EDGES]
    assert counts == [0, 0, 0, 0, 0, 0, 0, tokens - 1, 1, 0]  # 0.1 to 0.3, and 0.3 to 1


def test_importance_weights_by_hand(tiny, shifted):
    """exp(0.125) = 1.133148 on every token but one; there exp(0.75) = 2.117 is cut to the cap of 2. r stays 1."""
    _, metrics, _ = tiny.run(shifted, loss=replace(BELOW, importance_cap=2.0))
    made = plan(shifted, MaskConfig(), BELOW)
    of_token = [-scale * advantage for scale, advantage in zip(made.scales, made.advantages, strict=True)]
    assert of_token[0] != 0  # the candidate of the one token learns
    by_hand = 1.133148 * sum(x * len(c.completion_ids) for x, c in zip(of_token, shifted, strict=True))
    assert metrics["policy_loss"] == pytest.approx(by_hand + (2.0 - 1.133148) * of_token[0], rel=1e-4)
    assert metrics["ratio_mean"] == 1


@pytest.mark.parametrize(("max_gap", "mismatched"), [(0.1, 1), (0.2, 0)])
def test_candidates_of_another_policy_change_no_bit(tiny, shifted, max_gap, mismatched):
    policy, optimizer, update = tiny.bigram(), OptimizerConfig(), UpdateConfig(micro_batch_rows=2, chunk_tokens=16)
    compiled = make_update(
        policy, loss=BELOW, mask=MaskConfig(), update=update, optimizer=optimizer, temperature=1.0, max_gap=max_gap
    )
    before = bits(tiny.state(policy, optimizer))
    batch = pack(shifted, BatchShape(4, 4, 2, (24,)), MaskConfig(), BELOW)
    state, metrics = compiled(tiny.state(policy, optimizer), batch)
    assert (float(metrics["mismatched"]), bits(state) == before) == (mismatched, bool(mismatched))


def test_a_donated_state_can_be_used_and_counts(tiny, sample):
    policy, optimizer = tiny.bigram(), OptimizerConfig(learning_rate=1e-2, warmup_steps=4)
    update = UpdateConfig(micro_batch_rows=2, chunk_tokens=16)
    compiled = tiny.update(policy, loss=BELOW, mask=MaskConfig(), update=update, optimizer=optimizer)
    state = tiny.state(policy, optimizer)
    given = jax.tree.leaves(state.params)[0]
    rates = []
    for seed in range(3):
        batch = pack(sample(seed), BatchShape(4, 4, 2, (24,)), MaskConfig(), BELOW)
        state, metrics = compiled(state, batch)
        rates.append(float(metrics["learning_rate"]))
    assert given.is_deleted()
    assert rates == pytest.approx([0.0025, 0.005, 0.0075])
    assert int(state.step) == 3
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(state.params))
    assert jnp.result_type(*jax.tree.leaves(state.params)) == jnp.float32


def test_u11_save_and_export_right_after_a_donated_step(tiny, sample, tmp_path):
    policy = tiny.policy()
    _, _, state = tiny.run(sample(0), policy=policy)  # its own state was donated
    with Checkpoints(tmp_path / "checkpoints") as checkpoints:
        checkpoints.save(1, state, {})
        restored, _ = checkpoints.restore(1, tiny.state(policy))
    assert bits(restored) == bits(state)
    (tmp_path / "config.json").write_text(json.dumps(HF_CONFIG))
    folder = export(replace(policy, source=tmp_path, params=state.params), tmp_path / "export", dtype="float32")
    loaded = load(folder, policy.mesh, remat=False)
    assert loaded.spec == policy.spec
    assert bits(loaded.params) == bits(state.params)


def test_the_reference_plans_by_hand(sample):
    rewards = [[0.0, 0.5, 1.0, 1.0], [0.3] * 4, [0.0, 1.0, 0.0, 0.0], [1.0] * 4]
    made = plan(sample(14, rewards, absent=0), MaskConfig(), LossConfig(denominator="sequences"))
    assert made.weights[:4] == [1, 1, 0, 0]
    assert made.weights[8:12] == [1, 0, 1, 0]
    np.testing.assert_allclose(made.advantages[:4], [-1.3055798, -0.2611160, 0.7833479, 0.7833479], rtol=1e-5)
    assert made.advantages[4:8] == [0.0] * 4
    lengths = [len(c.completion_ids) for c in made.candidates]
    assert made.scales[0] == pytest.approx(1 / (4 * lengths[0]))
    assert made.scales[4] == 0
