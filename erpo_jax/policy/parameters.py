"""Every parameter of the decoder, in one table: path, logical axes, initialiser, and when it is there.

All are float32 (the master weights); the decoder casts to its compute dtype where it uses them. Those below `layers/`
are stacked on a leading axis L. What an axis name means for the mesh stands in sharding.py, its length in ModelSpec.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp

from erpo_jax.policy.spec import ModelSpec

DTYPE = jnp.float32
Kind = Literal["matrix", "norm", "bias"]


@dataclass(frozen=True)
class Parameter:
    """One parameter. `path` is where it stands in nnx.State; matrices start as normal(0, initializer_range)."""

    path: tuple[str, ...]
    axes: tuple[str, ...]
    kind: Kind
    present: Callable[[ModelSpec], bool] = lambda spec: True

    @property
    def name(self) -> str:
        return "/".join(self.path)

    @property
    def stacked(self) -> bool:
        return self.axes[0] == "layers"

    def shape(self, spec: ModelSpec) -> tuple[int, ...]:
        return tuple(spec.size(axis) for axis in self.axes)

    def initial(self, spec: ModelSpec, key: jax.Array) -> jax.Array:
        shape = self.shape(spec)
        if self.kind == "matrix":
            return jax.random.normal(key, shape, DTYPE) * jnp.asarray(spec.initializer_range, DTYPE)
        return jnp.ones(shape, DTYPE) if self.kind == "norm" else jnp.zeros(shape, DTYPE)


def _row(path: str, axes: str, kind: Kind, present: Callable[[ModelSpec], bool] = lambda spec: True) -> Parameter:
    return Parameter(tuple(path.split("/")), tuple(axes.split()), kind, present)


# "features" is the model axis of vectors, which stay whole on every device; "model" is the one that fsdp splits.
TABLE = (
    _row("embed_vd", "vocabulary model", "matrix"),
    _row("layers/attention_norm_d", "layers features", "norm"),
    _row("layers/q_dnh", "layers model heads head_dim", "matrix"),
    _row("layers/k_djh", "layers model kv_heads head_dim", "matrix"),
    _row("layers/v_djh", "layers model kv_heads head_dim", "matrix"),
    _row("layers/o_nhd", "layers heads head_dim model", "matrix"),
    _row("layers/q_bias_nh", "layers heads head_dim", "bias", lambda spec: spec.qkv_bias),
    _row("layers/k_bias_jh", "layers kv_heads head_dim", "bias", lambda spec: spec.qkv_bias),
    _row("layers/v_bias_jh", "layers kv_heads head_dim", "bias", lambda spec: spec.qkv_bias),
    _row("layers/o_bias_d", "layers features", "bias", lambda spec: spec.output_bias),
    _row("layers/q_norm_h", "layers head_dim", "norm", lambda spec: spec.qk_norm),
    _row("layers/k_norm_h", "layers head_dim", "norm", lambda spec: spec.qk_norm),
    _row("layers/feed_forward_norm_d", "layers features", "norm"),
    _row("layers/gate_df", "layers model feed_forward", "matrix"),
    _row("layers/up_df", "layers model feed_forward", "matrix"),
    _row("layers/down_fd", "layers feed_forward model", "matrix"),
    _row("layers/gate_bias_f", "layers feed_forward", "bias", lambda spec: spec.mlp_bias),
    _row("layers/up_bias_f", "layers feed_forward", "bias", lambda spec: spec.mlp_bias),
    _row("layers/down_bias_d", "layers features", "bias", lambda spec: spec.mlp_bias),
    _row("final_norm_d", "features", "norm"),
    _row("unembed_vd", "vocabulary model", "matrix", lambda spec: not spec.tied),
)


def parameters(spec: ModelSpec) -> dict[tuple[str, ...], Parameter]:
    """The parameters that this model has, by path."""
    return {row.path: row for row in TABLE if row.present(spec)}
