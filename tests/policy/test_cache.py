"""Packing and the key/value cache: neither may change what a sequence gives."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from erpo_jax.policy import load, make_mesh


def test_packed_sequences_equal_separate_ones(tiny, forward):
    policy = load(tiny("llama").folder, make_mesh())
    rng = np.random.default_rng(1)
    lengths = (5, 17, 9)
    parts = [rng.integers(0, 96, n).astype(np.int32) for n in lengths]
    packed = np.zeros((1, 40), np.int32)
    positions, segments = np.zeros_like(packed), np.zeros_like(packed)
    start = 3  # padding first, and last
    spans = []
    for i, part in enumerate(parts):
        span = slice(start, start + len(part))
        packed[0, span], positions[0, span], segments[0, span] = part, np.arange(len(part)), i + 1
        spans.append(span)
        start = span.stop
    together = forward(policy, packed, positions, segments)
    assert np.isfinite(together).all()
    for part, span in zip(parts, spans, strict=True):
        alone = forward(policy, np.pad(part, (0, 17 - len(part)))[None])[:, : len(part)]
        np.testing.assert_allclose(together[0, span], alone[0], atol=2e-5)


@pytest.mark.parametrize(
    ("family", "split", "pad"),
    [("qwen3_tied", (1, 1, 1), "left"), ("llama_biases", (1, 1, 1), "right"), ("qwen2", (2, 2, 2), "left")],
)
def test_prefill_and_decode_equal_the_whole_forward(tiny, forward, family, split, pad):
    policy = load(tiny(family).folder, make_mesh(*split))
    rng = np.random.default_rng(2)
    lengths, prompt, new = np.array([3, 11, 7, 1]), 12, 6
    whole = [rng.integers(0, 96, n + new).astype(np.int32) for n in lengths]
    tokens, positions, segments = (np.zeros((4, prompt), np.int32) for _ in range(3))
    for row, n in enumerate(lengths):
        span = slice(prompt - n, prompt) if pad == "left" else slice(0, n)
        tokens[row, span], positions[row, span], segments[row, span] = whole[row][:n], np.arange(n), 1
    tail = np.stack([ids[n:] for ids, n in zip(whole, lengths, strict=True)])

    @jax.jit
    def run(params: nnx.State) -> tuple[jax.Array, jax.Array]:
        decoder = nnx.merge(policy.graphdef, params)
        hidden_rsd, cache = decoder.prefill(tokens, positions, segments, prompt + new + 2)
        weights = decoder.decode_weights()

        def step(carry, at):
            hidden_rd, cache = decoder.decode(
                jnp.asarray(tail)[:, at], jnp.asarray(lengths, jnp.int32) + at, carry, prompt + at, weights
            )
            return cache, decoder.logits(hidden_rd, weights.unembed_vd)

        _, logits_srv = jax.lax.scan(step, cache, jnp.arange(new, dtype=jnp.int32))
        return decoder.logits(hidden_rsd), logits_srv

    prompt_logits, new_logits = map(np.asarray, run(policy.params))
    longest = np.zeros((4, 11 + new), np.int32)
    for row, ids in enumerate(whole):
        longest[row, : len(ids)] = ids  # padding behind a sequence is never seen by it
    full = forward(load(tiny(family).folder, make_mesh()), longest)
    for row, n in enumerate(lengths):
        expected = full[row, : n + new]
        span = slice(prompt - n, prompt) if pad == "left" else slice(0, n)
        np.testing.assert_allclose(prompt_logits[row, span], expected[:n], atol=2e-5)
        np.testing.assert_allclose(new_logits[:, row], expected[n:], atol=2e-5)


def test_decode_makes_its_own_weights_when_given_none(tiny):
    policy = load(tiny("qwen3_untied").folder, make_mesh(), compute_dtype="bfloat16")

    @jax.jit
    def run(params: nnx.State) -> tuple[jax.Array, jax.Array, jax.Array]:
        decoder = nnx.merge(policy.graphdef, params)
        ids = jnp.arange(8, dtype=jnp.int32).reshape(2, 4)
        ones = jnp.ones_like(ids)
        _, cache = decoder.prefill(ids, jnp.tile(jnp.arange(4, dtype=jnp.int32)[None], (2, 1)), ones, 6)
        with_none, after = decoder.decode(ids[:, 0], 4 * ones[:, 0], cache, jnp.int32(4))
        given, _ = decoder.decode(ids[:, 0], 4 * ones[:, 0], cache, jnp.int32(4), decoder.decode_weights())
        return with_none, given, after.segments_rc

    with_none, given, segments_rc = run(policy.params)
    assert with_none.dtype == jnp.bfloat16
    np.testing.assert_array_equal(np.asarray(with_none, np.float32), np.asarray(given, np.float32))
    np.testing.assert_array_equal(segments_rc, [[1, 1, 1, 1, 1, 0]] * 2)


def test_a_cache_too_small_for_the_prompt_is_refused(tiny):
    policy = load(tiny("qwen3_tied").folder, make_mesh())
    ids = jnp.zeros((1, 9), jnp.int32)
    with pytest.raises(ValueError, match="8 slots cannot hold a prompt of 9 tokens"):
        nnx.merge(policy.graphdef, policy.params).prefill(ids, ids, ids, 8)
