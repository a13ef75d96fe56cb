"""Masks against numbers written by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from erpo_jax.config import LossConfig, MaskConfig
from erpo_jax.update import advantages, ranks, weights
from erpo_jax.update.masks import may_learn

KINDS = MaskConfig.__dataclass_fields__["kind"].metadata["choices"]


def weigh(mask, rewards, present=None):
    reward_bg = np.asarray([rewards], np.float32)
    present_bg = np.ones(reward_bg.shape, bool) if present is None else np.asarray([present], bool)
    on_host = weights(mask, reward_bg, advantages(reward_bg, present_bg, "group"), present_bg)
    on_device = jax.jit(lambda r, p: weights(mask, r, advantages(r, p, "group"), p))(reward_bg, present_bg)
    assert on_host.tolist() == on_device.tolist()
    assert on_device.dtype == jnp.float32
    return on_host[0].tolist()


def test_ranks_are_stable():
    assert ranks(np.asarray([[0.5, 0.2, 0.5, 0.2, 0.1]]), np.ones((1, 5), bool)).tolist() == [[3, 1, 4, 2, 0]]


def test_rank_keeps_the_lower_half():
    assert weigh(MaskConfig(), [0.9, 0.1, 0.5, 0.3]) == [0, 1, 0, 1]
    assert weigh(MaskConfig(), [0.9, 0.1, 0.5, 0.3, 0.2]) == [0, 1, 0, 0, 1]  # 5 * 50 // 100 = 2


def test_ties_fall_in_sampling_order():
    assert weigh(MaskConfig(), [1.0, 1.0, 1.0, 0.0]) == [1, 0, 0, 1]  # one of those at the top is kept, the first
    assert weigh(MaskConfig(), [0.4] * 4) == [1, 1, 0, 0]


def test_absent_candidates_shrink_the_group():
    # 3 take part: 3 * 50 // 100 = 1
    assert weigh(MaskConfig(), [0.9, 0.0, 0.5, 0.3], [1, 0, 1, 1]) == [0, 0, 0, 1]
    assert weigh(MaskConfig(), [0.9, 0.0, 0.5, 0.3], [0, 0, 1, 0]) == [0, 0, 0, 0]  # 1 * 50 // 100 = 0
    assert weigh(MaskConfig(), [0.9, np.nan, 0.5, 0.3]) == [0, 0, 0, 1]


@pytest.mark.parametrize(("percent", "kept"), [(0, 0), (24, 0), (25, 1), (49, 1), (74, 2), (75, 3), (100, 4)])
def test_percent(percent, kept):
    assert weigh(MaskConfig(percent=percent), [0.1, 0.2, 0.3, 0.4]) == [1.0] * kept + [0.0] * (4 - kept)


def test_none_keeps_whoever_takes_part():
    assert weigh(MaskConfig(kind="none"), [0.9, 0.1, np.nan, 0.3], [1, 1, 1, 0]) == [1, 1, 0, 0]


def test_below_is_strict():
    assert weigh(MaskConfig(kind="below"), [0.5, 0.4, 0.0, 1.0]) == [0, 1, 1, 0]
    assert weigh(MaskConfig(kind="below", threshold=0.3), [0.5, 0.4, 0.3, 0.2], [1, 1, 1, 0]) == [0, 0, 0, 0]


def test_soft():
    assert weigh(MaskConfig(kind="soft"), [0.5, 0.1, 0.9, 0.3, 0.7]) == [0.5, 1.0, 0.0, 0.75, 0.25]
    # without the second: (0.5, 0.9, 0.7), ranks 0, 2, 1 of 3
    assert weigh(MaskConfig(kind="soft"), [0.5, 0.1, 0.9, 0.7], [1, 0, 1, 1]) == [1.0, 0.0, 0.0, 0.5]
    assert weigh(MaskConfig(kind="soft"), [0.5, 0.1], [1, 0]) == [1.0, 0.0]


def test_calibrated():
    # steps at 0, 0.25, 0.5, 0.75 and 1; the nearest counts
    mask = MaskConfig(kind="calibrated", calibration=[1.0, 0.75, 0.5, 0.25, 0.0])
    assert weigh(mask, [0.0, 0.3, 0.5, 0.7, 0.9]) == [1.0, 0.75, 0.5, 0.25, 0.0]
    assert weigh(mask, [0.2, 1.0, np.nan, 0.6], [1, 1, 1, 0]) == [0.75, 0.0, 0.0, 0.0]


def test_negative_sign():
    # mean 0.75: the kept one at the top has a positive advantage and goes
    assert weigh(MaskConfig(sign="negative"), [1.0, 1.0, 1.0, 0.0]) == [0, 0, 0, 1]
    assert weigh(MaskConfig(kind="none", sign="negative"), [0.2, 0.2, 0.2, 0.2]) == [0, 0, 0, 0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sign", ["keep", "negative"])
@pytest.mark.parametrize("advantage", ["group", "minus_one"])
def test_layout_covers_all_that_learns(kind, sign, advantage):
    rng = np.random.default_rng(0)
    mask, loss = MaskConfig(kind=kind, sign=sign), LossConfig(advantage=advantage)
    reward_bg = (rng.integers(0, 4, (200, 6)) / 3).astype(np.float32)
    present_bg = rng.random((200, 6)) < 0.8
    advantage_bg = np.asarray(jax.jit(advantages, static_argnums=2)(reward_bg, present_bg, advantage))
    learns_bg = (weights(mask, reward_bg, advantage_bg, present_bg) != 0) & (advantage_bg != 0)
    in_front_bg = may_learn(mask, loss, reward_bg, present_bg)
    assert not np.any(learns_bg & ~in_front_bg)
    assert not np.any(in_front_bg & ~learns_bg & (np.abs(advantage_bg) > 1e-2))


@pytest.mark.parametrize("group_size", range(2, 65))
def test_the_highest_of_a_soft_mask_weighs_nothing_compiled_too(group_size):
    """The host lays a batch out by the same rule: one rounding error more and the step would refuse it."""
    reward_bg = np.linspace(0, 1, group_size, dtype=np.float32)[None]
    present_bg = np.ones_like(reward_bg, bool)
    mask = MaskConfig(kind="soft")
    host_bg = weights(mask, reward_bg, reward_bg, present_bg)
    device_bg = jax.jit(lambda r, p: weights(mask, r, r, p))(reward_bg, present_bg)
    assert host_bg[0, -1] == device_bg[0, -1] == 0.0
    np.testing.assert_allclose(host_bg, device_bg, atol=1e-6)
