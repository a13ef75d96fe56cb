"""Rotary positions and grouped-query attention: over whole rows (packed sequences) and over a key/value cache.

Numerics follow transformers: frequencies, angles and the softmax are float32 whatever the compute dtype. One deliberate
difference: in bfloat16 the rotation itself is float32 too (transformers rounds cosines to bfloat16 first).
Left out: sliding windows, attention sinks, paged caches.
"""

from __future__ import annotations

import math
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from erpo_jax.errors import UserError
from erpo_jax.policy.spec import ModelSpec

Implementation = Literal["xla", "cudnn"]

# a finite score for what is not seen: exp of it is 0, and a row that sees nothing stays finite
_HIDDEN = -1e30


def rotary_frequencies(spec: ModelSpec) -> np.ndarray:
    """Angle per position of each pair of head dimensions, float32 [H/2]: theta^(-2i/H), stretched as in Llama 3."""
    exponents = np.arange(0, spec.head_dim, 2, dtype=np.float32) / np.float32(spec.head_dim)
    frequencies = (1.0 / np.power(np.float64(spec.rope_theta), exponents.astype(np.float64))).astype(np.float32)
    scaling = spec.rope_scaling
    if scaling is None:
        return frequencies
    wavelengths = 2 * math.pi / frequencies.astype(np.float64)
    # 1 keeps a frequency, 0 divides it by the factor, between the two wavelengths it is a linear mix of both
    turns = scaling.original_max_positions / wavelengths
    keep = np.clip((turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor), 0.0, 1.0)
    return (frequencies * (keep + (1.0 - keep) / scaling.factor)).astype(np.float32)


def rotary_tables(spec: ModelSpec, positions_rs: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Cosines and sines, float32 [R, S, 1, H/2], of int positions [R, S]."""
    frequencies = jnp.asarray(rotary_frequencies(spec))
    angles_rsh = positions_rs.astype(jnp.float32)[..., None] * frequencies[None, None]
    return jnp.cos(angles_rsh)[:, :, None], jnp.sin(angles_rsh)[:, :, None]


def rotate(x_rsnh: jax.Array, tables: tuple[jax.Array, jax.Array]) -> jax.Array:
    """Turn each pair (i, i + H/2) of head dimensions by its angle. Same shape and dtype."""
    cos, sin = tables
    first, second = jnp.split(x_rsnh.astype(jnp.float32), 2, axis=-1)
    turned = jnp.concatenate((first * cos - second * sin, second * cos + first * sin), axis=-1)
    return turned.astype(x_rsnh.dtype)


def choose(attention: str, compute_dtype: np.dtype, platform: str) -> Implementation:
    """Resolve "auto": cuDNN's flash attention on a GPU in bfloat16, XLA elsewhere."""
    if attention == "auto":
        on_gpu = platform in ("gpu", "cuda")
        return "cudnn" if on_gpu and compute_dtype == jnp.bfloat16 else "xla"
    if attention == "cudnn" and compute_dtype != jnp.bfloat16:
        raise UserError(f"attention=cudnn needs compute_dtype=bfloat16, not {compute_dtype.name}; use auto or xla")
    if attention == "cudnn":
        return "cudnn"
    if attention == "xla":
        return "xla"
    raise UserError(f"attention={attention!r} is not one of auto, xla, cudnn")


def visible(segments_rs: jax.Array, branches_rs: jax.Array | None) -> jax.Array:
    """bool [R, Q, K]: which keys of a row a query sees, beside causality: those of its own segment and, with branches,
    of its own branch or of the trunk (branch -1) that all branches of the segment go on from."""
    seen_rqk = segments_rs[:, :, None] == segments_rs[:, None, :]
    if branches_rs is not None:
        trunk_rk = branches_rs[:, None, :] < 0
        seen_rqk &= trunk_rk | (branches_rs[:, :, None] == branches_rs[:, None, :])
    return seen_rqk


def attend_rows(
    q_rsnh: jax.Array, k_rsjh: jax.Array, v_rsjh: jax.Array, visible_rqk: jax.Array, implementation: Implementation
) -> jax.Array:
    """Causal attention over what is `visible`. Returns [R, S, N, H] in the dtype of q."""
    # cuDNN's packed layout (offsets of segments) needs Hopper and a bound on segments per row; a mask needs neither
    # jax's own function mixes bfloat16 and float32
    with jax.named_scope("attend"), jax.numpy_dtype_promotion("standard"):
        return jax.nn.dot_product_attention(
            q_rsnh, k_rsjh, v_rsjh, mask=visible_rqk[:, None], is_causal=True, implementation=implementation
        )


def attend_cache(q_rnh: jax.Array, k_rjch: jax.Array, v_rjch: jax.Array, visible_rc: jax.Array) -> jax.Array:
    """One query [R, N, H] per row over a cache [R, J, C, H] of which `visible_rc` counts. Returns [R, N, H]."""
    rows, heads, head_dim = q_rnh.shape
    kv_heads = k_rjch.shape[1]
    q_rjgh = q_rnh.reshape(rows, kv_heads, heads // kv_heads, head_dim)
    scores = jnp.einsum("rjgh,rjch->rjgc", q_rjgh, k_rjch, preferred_element_type=jnp.float32)
    scores = scores * jnp.float32(1.0 / math.sqrt(head_dim))
    scores = jnp.where(visible_rc[:, None, None], scores, jnp.float32(_HIDDEN))
    weights = jax.nn.softmax(scores, axis=-1).astype(v_rjch.dtype)
    return jnp.einsum("rjgc,rjch->rjgh", weights, v_rjch).reshape(rows, heads, head_dim)
