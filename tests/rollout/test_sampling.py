"""The distribution of one sampled token, its log-prob, and the random keys."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from erpo_jax.rollout.sampling import block_width, greedy, row_keys, sample, seed_words


def keys(rows: int, seed: int = 0) -> jax.Array:
    return row_keys(jnp.asarray(seed_words([seed] * rows, list(range(rows)))))


def draw(logits_v: np.ndarray, temperature: float, rows: int) -> tuple[np.ndarray, np.ndarray]:
    logits_rv = jnp.broadcast_to(jnp.asarray(logits_v, jnp.float32)[None], (rows, len(logits_v)))
    tokens_r, logprobs_r = jax.jit(sample)(
        logits_rv, jnp.float32(temperature), keys(rows), jnp.zeros((rows,), jnp.int32)
    )
    return np.asarray(tokens_r), np.asarray(logprobs_r)


@pytest.mark.parametrize("temperature", [0.7, 1.0, 1.6])
def test_frequencies_follow_the_softmax(temperature: float) -> None:
    logits_v = np.random.default_rng(1).normal(0.0, 1.5, 37)
    rows = 60_000
    tokens_r, _ = draw(logits_v, temperature, rows)
    expected_v = np.exp(logits_v / temperature) / np.exp(logits_v / temperature).sum() * rows
    chi_square = np.sum((np.bincount(tokens_r, minlength=37) - expected_v) ** 2 / expected_v)
    # 36 degrees of freedom: mean 36, 99.9 % of draws below 68
    assert 10 < chi_square < 68


def test_a_wrong_temperature_would_be_seen() -> None:
    logits_v = np.random.default_rng(1).normal(0.0, 1.5, 37)
    tokens_r, _ = draw(logits_v, 1.1, 60_000)
    expected_v = np.exp(logits_v) / np.exp(logits_v).sum() * 60_000
    assert np.sum((np.bincount(tokens_r, minlength=37) - expected_v) ** 2 / expected_v) > 200


def test_successive_tokens_of_a_row_are_independent() -> None:
    logits_rv = jnp.zeros((1, 16), jnp.float32)
    step = jax.jit(sample)
    drawn = [int(step(logits_rv, jnp.float32(1.0), keys(1), jnp.full((1,), t, jnp.int32))[0][0]) for t in range(400)]
    pairs = np.zeros((16, 16))
    for before, after in itertools.pairwise(drawn):
        pairs[before, after] += 1
    # 399 pairs over 256 cells: a key used twice would put all of a row into one cell
    assert pairs.max() < 10


@pytest.mark.parametrize("vocabulary", [2, 37, 64, 131, 1000])
def test_logprob_is_that_of_the_sampled_token(vocabulary: int) -> None:
    logits_v = np.random.default_rng(2).normal(0.0, 3.0, vocabulary)
    tokens_r, logprobs_r = draw(logits_v, 0.8, 64)
    scaled_v = logits_v.astype(np.float32).astype(np.float64) / np.float64(np.float32(0.8))
    exact_v = scaled_v - np.log(np.exp(scaled_v).sum())
    np.testing.assert_allclose(logprobs_r, exact_v[tokens_r], atol=2e-6)


def test_a_token_of_probability_zero_is_never_drawn() -> None:
    logits_v = np.full(200, -np.inf)
    logits_v[[7, 150]] = [0.0, 1.0]
    tokens_r, logprobs_r = draw(logits_v, 1.0, 5000)
    assert set(tokens_r.tolist()) == {7, 150}
    assert np.isfinite(logprobs_r).all()
    # 1 / (1 + e) = 0.26894; four standard deviations are 0.025
    assert abs(np.mean(tokens_r == 7) - 0.26894) < 0.025


def test_huge_logits_stay_finite() -> None:
    logits_v = np.array([3e4, 3e4 + 1.0, -3e4])
    tokens_r, logprobs_r = draw(logits_v, 0.01, 16)
    assert tokens_r.tolist() == [1] * 16
    np.testing.assert_allclose(logprobs_r, 0.0, atol=1e-6)


def test_greedy_takes_the_first_of_equals_at_temperature_one() -> None:
    tokens_r, logprobs_r = greedy(jnp.asarray([[0.0, 2.0, 2.0], [1.0, 0.0, 0.0]], jnp.float32))
    assert tokens_r.tolist() == [1, 0]
    # log(e^2 / (1 + 2 e^2)) and log(e / (e + 2))
    np.testing.assert_allclose(np.asarray(logprobs_r), [-0.7586241, -0.5514447], atol=1e-6)


def test_keys_depend_on_every_bit_of_the_seed_and_on_the_sample() -> None:
    words = seed_words([5, 5, 6, 5 + 2**32, 5 + 2**63, 5], [0, 1, 0, 0, 0, 0])
    assert words.tolist()[3:5] == [[5, 1, 0], [5, 2**31, 0]]
    made = [tuple(row) for row in np.asarray(row_keys(jnp.asarray(words))).tolist()]
    assert made[0] == made[5]
    assert len(set(made)) == 5


@pytest.mark.parametrize(("vocabulary", "width"), [(2, 2), (16, 4), (512, 32), (151_936, 512)])
def test_block_width_is_near_the_root(vocabulary: int, width: int) -> None:
    assert block_width(vocabulary) == width
