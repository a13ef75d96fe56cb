"""One token per row from its logits, with a key per row: greedy, or by inverting the cumulative sum in two stages.

The log-prob returned is that of the very token chosen, under softmax(logits / temperature), in float32.
Left out: top-k, top-p, penalties. Training needs the plain distribution, and every log-prob here is exact under it.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np

KEY_IMPLEMENTATION = "threefry2x32"  # fixed, so that no global JAX setting changes what a seed means


def seed_words(seeds: list[int], samples: list[int]) -> np.ndarray:
    """What row_keys takes: uint32 [R, 3], the seed's low and high word and the sample's index."""
    words = [(seed & 0xFFFFFFFF, seed >> 32, sample) for seed, sample in zip(seeds, samples, strict=True)]
    return np.asarray(words, np.uint32).reshape(-1, 3)


def row_keys(words_r3: jax.Array) -> jax.Array:
    """Key data, uint32 [R, 2]: per row, the seed's two words and the sample's index folded into one fixed root."""

    def one(words_3: jax.Array) -> jax.Array:
        key = jax.random.key(0, impl=KEY_IMPLEMENTATION)
        for i in range(3):
            key = jax.random.fold_in(key, words_3[i])
        return jax.random.key_data(key)

    return jax.vmap(one)(words_r3)


def greedy(logits_rv: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The likeliest token, int32 [R], the lowest id among equals, and its log-prob at temperature 1, float32 [R]."""
    tokens_r = jnp.argmax(logits_rv, axis=-1).astype(jnp.int32)
    return tokens_r, jnp.max(logits_rv, axis=-1) - jax.nn.logsumexp(logits_rv, axis=-1)


def sample(
    logits_rv: jax.Array, temperature: jax.Array, keys_r2: jax.Array, counts_r: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Token int32 [R] drawn from softmax(logits / temperature), and its log-prob float32 [R].

    Row r uses fold_in(keys_r2[r], counts_r[r]) and nothing of other rows. The vocabulary is cut into blocks of W
    tokens; one uniform number chooses the block by its mass, a second the token within it: p(block) * p(token | block).
    That is two random numbers a row in place of V, and V/W + W partial sums in place of V: a float32 uniform has steps
    of 2^-23, so that one draw over 151,936 partial sums may be wrong by up to 1 % in total variation, two over 297 and
    512 by 5e-5.
    A token of probability 0 is never drawn.
    """
    rows, vocabulary = logits_rv.shape
    width = block_width(vocabulary)
    blocks = -(-vocabulary // width)
    scaled_rv = logits_rv / temperature
    peak_r = jnp.max(scaled_rv, axis=-1)
    padded_rv = jnp.pad(scaled_rv, ((0, 0), (0, blocks * width - vocabulary)), constant_values=-jnp.inf)
    mass_rbw = jnp.exp(padded_rv - peak_r[:, None]).reshape(rows, blocks, width)
    mass_rb = jnp.sum(mass_rbw, axis=-1)
    uniform_r2 = jax.vmap(_uniform)(keys_r2, counts_r)
    block_r = _pick(mass_rb, uniform_r2[:, 0])
    mass_rw = jnp.take_along_axis(mass_rbw, block_r[:, None, None], axis=1)[:, 0]
    tokens_r = block_r * width + _pick(mass_rw, uniform_r2[:, 1])
    chosen_r = jnp.take_along_axis(scaled_rv, tokens_r[:, None], axis=1)[:, 0]
    return tokens_r, chosen_r - peak_r - jnp.log(jnp.sum(mass_rb, axis=-1))


def block_width(vocabulary: int) -> int:
    """W of sample(): the power of two nearest above the root of V, which makes V/W + W small."""
    return int(2 ** math.ceil(math.log2(max(2.0, math.sqrt(vocabulary)))))


def _pick(mass_rx: jax.Array, uniform_r: jax.Array) -> jax.Array:
    """The first index whose running sum exceeds uniform * total, int32 [R]; its mass is above 0.

    Partial sums may rise or fall by a rounding error where the mass is 0, hence the mask: the total is the largest sum
    at an index that may be chosen, and a uniform below 1 leaves that one, at least, above the threshold.
    """
    sums_rx = jnp.where(mass_rx > 0, jnp.cumsum(mass_rx, axis=-1), -jnp.ones((), mass_rx.dtype))
    threshold_r = uniform_r * jnp.max(sums_rx, axis=-1)
    return jnp.argmax(sums_rx > threshold_r[:, None], axis=-1).astype(jnp.int32)


def _uniform(key_2: jax.Array, count: jax.Array) -> jax.Array:
    key = jax.random.fold_in(jax.random.wrap_key_data(key_2, impl=KEY_IMPLEMENTATION), count)
    return jax.random.uniform(key, (2,), jnp.float32)
