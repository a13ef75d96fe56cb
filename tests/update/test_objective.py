"""The loss of one token and the factors of one candidate, against numbers computed by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from erpo_jax.config import LossConfig
from erpo_jax.update.objective import entropy_penalty, importance_weight, policy_ratio, token_objective, token_scale

LOSS = LossConfig()


@pytest.mark.parametrize(
    ("ratio", "advantage", "g", "slope"),
    [
        (1.0, 2.0, 2.0, 2.0),
        (1.1, 2.0, 2.2, 2.0),
        (1.5, 2.0, 2.4, 0.0),  # clipped at 1.2
        (0.5, 2.0, 1.0, 2.0),  # min keeps the unclipped side
        (1.0, -2.0, -2.0, -2.0),
        (0.5, -2.0, -1.6, 0.0),  # clipped at 0.8
        (1.5, -2.0, -3.0, -2.0),
        (2.9, -2.0, -5.8, -2.0),
        (5.0, -2.0, -6.0, 0.0),  # dual clip: 3 * A
    ],
)
def test_clipping(ratio, advantage, g, slope):
    value, gradient = jax.value_and_grad(lambda r: token_objective(r, jnp.float32(advantage), LOSS))(jnp.float32(ratio))
    assert float(value) == pytest.approx(g, rel=1e-6)
    assert float(gradient) == pytest.approx(slope, rel=1e-6)


def test_u2_masked_slot_stays_finite():
    def objective(logprob):
        mask = jnp.asarray([True, False])
        ratio = policy_ratio(logprob, jnp.asarray([-1.0, -200.0], jnp.float32), mask)
        return jnp.sum(jnp.where(mask, token_objective(ratio, jnp.float32(-1.0), LOSS), 0.0))

    value, gradient = jax.value_and_grad(objective)(jnp.asarray([-1.0, 0.0], jnp.float32))
    assert float(value) == -1.0
    assert gradient.tolist() == [-1.0, 0.0]


def test_log_ratio_is_clamped():
    found = policy_ratio(jnp.asarray([0.0, -200.0]), jnp.asarray([-200.0, 0.0]), jnp.asarray([True, True]))
    np.testing.assert_allclose(found, [np.exp(20.0), np.exp(-20.0)], rtol=1e-6)


def test_importance_weight_is_capped_and_constant():
    logprob, sampler = jnp.log(jnp.asarray([0.5, 0.5, 0.5])), jnp.log(jnp.asarray([0.1, 0.4, 0.5]))
    mask = jnp.asarray([True, True, False])
    np.testing.assert_allclose(importance_weight(logprob, sampler, mask, 2.0), [2.0, 1.25, 1.0], rtol=1e-6)
    gradient = jax.grad(lambda x: jnp.sum(importance_weight(x, sampler, mask, 2.0)))(logprob)
    assert gradient.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("denominator", "scale"),
    [
        ("all_tokens", [1 / 20, 0.0, 0.5 / 20, 0.0]),  # 4 + 8 + 2 + 6
        ("kept_tokens", [1 / 6, 0.0, 0.5 / 6, 0.0]),  # 4 + 2
        ("sequences", [1 / (2 * 4), 0.0, 0.5 / (2 * 2), 0.0]),
    ],
)
def test_denominators(denominator, scale):
    weight_c = jnp.asarray([1.0, 0.0, 0.5, 1.0])
    advantage_c = jnp.asarray([-1.0, -1.0, 1.0, 0.0])
    found = token_scale(weight_c, advantage_c, jnp.asarray([4, 8, 2, 6]), denominator)
    np.testing.assert_allclose(found, scale, rtol=1e-6)


@pytest.mark.parametrize("denominator", ["all_tokens", "kept_tokens", "sequences"])
def test_nothing_kept_is_zero(denominator):
    none_c = jnp.zeros(3)
    assert token_scale(none_c, none_c - 1.0, jnp.asarray([4, 0, 2]), denominator).tolist() == [0.0] * 3


@pytest.mark.parametrize(
    ("entropy", "coefficient", "penalty", "slope"),
    [
        (0.4, 1.0, 0.0, 0.0),
        (0.5, 1.0, 0.0, 0.0),
        (0.75, 1.0, 0.0625, 0.5),
        (0.75, 2.0, 0.125, 1.0),
        (0.75, 0.0, 0.0, 0.0),
    ],
)
def test_entropy_ceiling(entropy, coefficient, penalty, slope):
    found = entropy_penalty(jnp.float32(entropy), LossConfig(entropy_coefficient=coefficient))
    assert [float(value) for value in found] == [penalty, slope]
