"""Group advantages against numbers computed by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from erpo_jax.update import advantages, group_advantages, tied

ALL = np.ones((1, 4), bool)


@pytest.mark.parametrize("xp", [np, jnp])
def test_formula(xp):
    # mean 0.625; squared deviations 0.390625 + 0.015625 + 2 * 0.140625 = 0.6875; std = sqrt(0.6875 / 3) = 0.4787136
    found = group_advantages(xp.asarray([[0.0, 0.5, 1.0, 1.0]], dtype=xp.float32), xp.asarray(ALL))
    np.testing.assert_allclose(found, [[-1.3055798, -0.2611160, 0.7833479, 0.7833479]], rtol=1e-6)
    assert found.dtype == np.float32


def test_epsilon_is_added_to_the_deviation():
    # two candidates 2e-6 apart: deviation 1e-6, std = sqrt(2) * 1e-6, so A = 1 / (sqrt(2) + 1) = 0.4142136
    found = group_advantages(np.asarray([[0.0, 2e-6]], np.float32), np.ones((1, 2), bool))
    np.testing.assert_allclose(found, [[-0.4142136, 0.4142136]], rtol=1e-5)


@pytest.mark.parametrize("reward", [0.3, 0.7])
@pytest.mark.parametrize("size", [6, 7, 8, 16, 31, 64])
def test_u1_equal_rewards_give_exactly_zero(reward, size):
    reward_bg = np.full((3, size), reward, np.float32)
    found = jax.jit(group_advantages)(reward_bg, np.ones((3, size), bool))
    assert not np.any(np.asarray(found))
    assert not np.any(group_advantages(reward_bg, np.ones((3, size), bool)))


def test_the_usual_formula_would_not_give_zero():
    sizes = [np.full(size, reward, np.float32) for reward in (0.3, 0.7) for size in range(6, 65)]
    usual = [np.abs((r - np.mean(r)) / (np.std(r, ddof=1) + 1e-6)).max() for r in sizes]
    assert max(usual) > 0.01


def test_absent_candidates_take_no_part():
    reward_bg = np.asarray([[0.0, 9.0, 1.0, 9.0], [0.3, 9.0, 9.0, 9.0], [9.0] * 4], np.float32)
    present_bg = np.asarray([[1, 0, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]], bool)
    # the first group is (0, 1): mean 0.5, std 0.7071068, 0.5 / 0.7071078 = 0.7071058; a group of one, and of none: 0
    found = group_advantages(reward_bg, present_bg)
    np.testing.assert_allclose(found, [[-0.7071058, 0, 0.7071058, 0], [0] * 4, [0] * 4], rtol=1e-6)
    assert tied(reward_bg, present_bg).tolist() == [False, True, True]


@pytest.mark.parametrize("kind", ["group", "minus_one"])
def test_no_reward_is_no_advantage(kind):
    found = advantages(np.full((1, 4), np.nan, np.float32), ALL, kind)
    assert found.tolist() == [[0.0] * 4]


def test_minus_one():
    present_bg = np.asarray([[1, 1, 0, 1]], bool)
    found = advantages(np.asarray([[0.0, 1.0, 0.0, np.nan]], np.float32), present_bg, "minus_one")
    assert found.tolist() == [[-1.0, -1.0, 0.0, 0.0]]
