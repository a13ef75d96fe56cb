"""Chunked log-probs and entropies against hand numbers, full logits and float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from erpo_jax.update.logprobs import reduce_logits, token_logprobs


def test_by_hand():
    # logits 0 and ln 3: p = 1/4 and 3/4, H = (1/4) ln 4 + (3/4) ln (4/3) = 0.5623351
    logprob, entropy, log_sum = reduce_logits(jnp.log(jnp.asarray([[1.0, 3.0]])), jnp.asarray([1]))
    assert float(logprob[0]) == pytest.approx(np.log(0.75), rel=1e-6)
    assert float(entropy[0]) == pytest.approx(0.5623351, rel=1e-6)
    assert float(log_sum[0]) == pytest.approx(np.log(4.0), rel=1e-6)


def test_a_forbidden_token_counts_for_nothing():
    def values(logits_v):
        logprob_rs, entropy_rs = token_logprobs(
            lambda hidden_xd, unembed_vd: jnp.einsum("...d,vd->...v", hidden_xd, unembed_vd) + forbidden_v[None, None],
            logits_v[:, None],
            jnp.ones((1, 2, 1)),
            jnp.asarray([[0, 1]]),
            temperature=1.0,
            chunk_slots=2,
        )
        return logprob_rs[0, 1], entropy_rs[0, 1]

    forbidden_v = jnp.asarray([0.0, 0.0, -jnp.inf])
    logits_v = jnp.asarray([0.0, np.log(3.0), 5.0])
    logprob_gradient, entropy_gradient = jax.jacrev(values)(logits_v)
    assert float(values(logits_v)[1]) == pytest.approx(0.5623351, rel=1e-6)
    np.testing.assert_allclose(logprob_gradient, [-0.25, 0.25, 0.0], rtol=1e-6)
    # dH/dl = -p * (log p + H)
    p = np.asarray([0.25, 0.75])
    np.testing.assert_allclose(entropy_gradient[:2], -p * (np.log(p) + 0.5623351), rtol=1e-5)
    assert float(entropy_gradient[2]) == 0.0


def dense(hidden_rsd, weight_vd, tokens_rs, temperature):
    logits_rsv = jnp.einsum("rsd,vd->rsv", hidden_rsd, weight_vd) / temperature
    logprobs_rsv = jax.nn.log_softmax(logits_rsv)
    entropy_rs = -jnp.sum(jnp.exp(logprobs_rsv) * logprobs_rsv, -1)
    chosen_rs = jnp.take_along_axis(logprobs_rsv[:, :-1], tokens_rs[:, 1:, None], -1)[..., 0]
    return jnp.pad(chosen_rs, ((0, 0), (1, 0))), jnp.pad(entropy_rs[:, :-1], ((0, 0), (1, 0)))


@pytest.mark.parametrize("chunk_slots", [1, 5, 100])
def test_chunks_equal_full_logits(chunk_slots):
    keys = jax.random.split(jax.random.key(0), 4)
    hidden_rsd = jax.random.normal(keys[0], (3, 13, 8))
    weight_vd = jax.random.normal(keys[1], (50, 8))
    tokens_rs = jax.random.randint(keys[2], (3, 13), 0, 50)
    cotangents = jax.random.normal(keys[3], (2, 3, 13))

    def logits(hidden_xd, weight_vd):
        return jnp.einsum("...d,vd->...v", hidden_xd, weight_vd)

    def chunked(hidden_rsd, weight_vd):
        return token_logprobs(logits, weight_vd, hidden_rsd, tokens_rs, temperature=0.7, chunk_slots=chunk_slots)

    found, pull = jax.vjp(chunked, hidden_rsd, weight_vd)
    wanted, pull_dense = jax.vjp(lambda h, w: dense(h, w, tokens_rs, 0.7), hidden_rsd, weight_vd)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    pairs = zip(pull((cotangents[0], cotangents[1])), pull_dense((cotangents[0], cotangents[1])), strict=True)
    for a, b in pairs:
        assert np.linalg.norm(a - b) <= 1e-5 * np.linalg.norm(b)


@pytest.mark.parametrize("spread", [0.05, 0.5])
def test_large_vocabulary_in_bfloat16_against_float64(spread):
    vocabulary, width = 151_936, 64
    rng = np.random.default_rng(0)
    hidden_rsd = jnp.asarray(rng.normal(size=(1, 4, width)), jnp.bfloat16)
    weight_vd = jnp.asarray(spread * rng.normal(size=(vocabulary, width)), jnp.bfloat16)
    tokens_rs = jnp.asarray([[0, 7, 151_935, 3]])

    def logits(hidden_xd, weight_vd):
        return jnp.einsum("...d,vd->...v", hidden_xd, weight_vd, preferred_element_type=jnp.float32)

    _, entropy_rs = token_logprobs(logits, weight_vd, hidden_rsd, tokens_rs, temperature=1.0, chunk_slots=2)
    exact_sv = np.asarray(hidden_rsd, np.float64)[0, :-1] @ np.asarray(weight_vd, np.float64).T
    exact_sv -= exact_sv.max(-1, keepdims=True)
    p_sv = np.exp(exact_sv) / np.exp(exact_sv).sum(-1, keepdims=True)
    entropy_s = -(p_sv * np.log(p_sv, where=p_sv > 0, out=np.zeros_like(p_sv))).sum(-1)
    assert 0.5 < entropy_s.min() < entropy_s.max() < np.log(vocabulary)
    np.testing.assert_allclose(np.asarray(entropy_rs)[0, 1:], entropy_s, atol=1e-3)
