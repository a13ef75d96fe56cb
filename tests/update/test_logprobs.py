"""Chunked log-probs and entropies against hand numbers, full logits and float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from erpo_jax.update.logprobs import Head, loss_and_gradient, reduce_logits, token_logprobs
from erpo_jax.update.measures import TokenSums


def test_by_hand():
    # logits 0 and ln 3: p = 1/4 and 3/4, H = (1/4) ln 4 + (3/4) ln (4/3) = 0.5623351
    logprob, entropy, log_sum = reduce_logits(jnp.log(jnp.asarray([[1.0, 3.0]])), jnp.asarray([1]))
    assert float(logprob[0]) == pytest.approx(np.log(0.75), rel=1e-6)
    assert float(entropy[0]) == pytest.approx(0.5623351, rel=1e-6)
    assert float(log_sum[0]) == pytest.approx(np.log(4.0), rel=1e-6)


def linear(hidden_xd, unembed_vd):
    return jnp.einsum("...d,vd->...v", hidden_xd, unembed_vd, preferred_element_type=jnp.float32)


def weighed(logprob_rc, entropy_rc, given_rc):
    """A loss with given derivatives by log-prob and entropy."""
    loss = jnp.sum(given_rc[0] * logprob_rc + given_rc[1] * entropy_rc)
    return loss, TokenSums.zero()


def test_a_forbidden_token_counts_for_nothing():
    forbidden_v = jnp.asarray([0.0, 0.0, -jnp.inf])
    logits_v = jnp.asarray([0.0, np.log(3.0), 5.0])
    head = Head(lambda h, w: linear(h, w) + forbidden_v[None, None], logits_v[:, None], 1.0, 1)
    hidden_rsd, target_rs = jnp.ones((1, 1, 1)), jnp.asarray([[1]])
    logprob_rs, entropy_rs = token_logprobs(head, hidden_rsd, target_rs, 1)
    assert float(logprob_rs[0, 0]) == pytest.approx(np.log(0.75), rel=1e-6)
    assert float(entropy_rs[0, 0]) == pytest.approx(0.5623351, rel=1e-6)

    def by_logits(logprob_bar, entropy_bar):
        given_rs = (jnp.full((1, 1), logprob_bar), jnp.full((1, 1), entropy_bar))
        _, (_, unembed_bar_vd) = loss_and_gradient(weighed, head, hidden_rsd, target_rs, given_rs, 1)
        return unembed_bar_vd[:, 0]

    np.testing.assert_allclose(by_logits(1.0, 0.0), [-0.25, 0.25, 0.0], rtol=1e-6)
    # dH/dl = -p * (log p + H)
    p = np.asarray([0.25, 0.75])
    found = by_logits(0.0, 1.0)
    np.testing.assert_allclose(found[:2], -p * (np.log(p) + 0.5623351), rtol=1e-5)
    assert float(found[2]) == 0.0


def dense(hidden_rsd, weight_vd, target_rs, temperature):
    logprobs_rsv = jax.nn.log_softmax(jnp.einsum("rsd,vd->rsv", hidden_rsd, weight_vd) / temperature)
    entropy_rs = -jnp.sum(jnp.exp(logprobs_rsv) * logprobs_rsv, -1)
    return jnp.take_along_axis(logprobs_rsv, target_rs[..., None], -1)[..., 0], entropy_rs


@pytest.mark.parametrize(("chunk_slots", "count"), [(1, 12), (4, 12), (12, 12), (4, 7), (3, 0)])
def test_chunks_equal_full_logits(chunk_slots, count):
    """Also where only the first chunks hold tokens: what lies beyond has no value and no gradient."""
    keys = jax.random.split(jax.random.key(0), 4)
    hidden_rsd = jax.random.normal(keys[0], (3, 12, 8))
    weight_vd = jax.random.normal(keys[1], (50, 8))
    target_rs = jax.random.randint(keys[2], (3, 12), 0, 50)
    computed = -(-count // chunk_slots) * chunk_slots
    here_s = jnp.arange(12) < computed
    given_rs = tuple(jnp.where(here_s[None], x_rs, 0.0) for x_rs in jax.random.normal(keys[3], (2, 3, 12)))
    head = Head(linear, weight_vd, 0.7, chunk_slots)

    wanted, pull = jax.vjp(lambda h, w: dense(h, w, target_rs, 0.7), hidden_rsd, weight_vd)
    found = token_logprobs(head, hidden_rsd, target_rs, jnp.int32(count))
    for a_rs, b_rs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a_rs, jnp.where(here_s[None], b_rs, 0.0), rtol=1e-5, atol=1e-6)
    _, bars = loss_and_gradient(weighed, head, hidden_rsd, target_rs, given_rs, jnp.int32(count))
    for a, b in zip(bars, pull(given_rs), strict=True):
        assert np.linalg.norm(a - b) <= 1e-5 * np.linalg.norm(b)


@pytest.mark.parametrize("spread", [0.05, 0.5])
def test_u7_large_vocabulary_in_bfloat16_against_float64(spread):
    vocabulary, width = 151_936, 64
    rng = np.random.default_rng(0)
    hidden_rsd = jnp.asarray(rng.normal(size=(1, 4, width)), jnp.bfloat16)
    weight_vd = jnp.asarray(spread * rng.normal(size=(vocabulary, width)), jnp.bfloat16)
    target_rs = jnp.asarray([[0, 7, 151_935, 3]])
    _, entropy_rs = token_logprobs(Head(linear, weight_vd, 1.0, 2), hidden_rsd, target_rs, 4)
    exact_sv = np.asarray(hidden_rsd, np.float64)[0] @ np.asarray(weight_vd, np.float64).T
    exact_sv -= exact_sv.max(-1, keepdims=True)
    p_sv = np.exp(exact_sv) / np.exp(exact_sv).sum(-1, keepdims=True)
    entropy_s = -(p_sv * np.log(p_sv, where=p_sv > 0, out=np.zeros_like(p_sv))).sum(-1)
    assert 0.5 < entropy_s.min() < entropy_s.max() < np.log(vocabulary)
    np.testing.assert_allclose(np.asarray(entropy_rs)[0], entropy_s, atol=1e-3)
