"""The decoder: one code path for Qwen3, Qwen2 and Llama, as a Flax NNX module.

Parameters are float32 and stand in parameters.py; products run in the compute dtype, norms, rotations, softmax and
logits in float32. Layers are stacked on a leading axis and scanned, each rematerialised in the backward pass if asked.
Left out: dropout, and any notion of a loss (see erpo_jax.update).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import Mesh

from erpo_jax.policy.attention import attend_cache, attend_rows, choose, rotary_tables, rotate, visible
from erpo_jax.policy.parameters import Parameter, parameters
from erpo_jax.policy.sharding import constrain, gather
from erpo_jax.policy.spec import ModelSpec

Weights = Mapping[str, jax.Array]
Rope = tuple[jax.Array, jax.Array]
Kept = TypeVar("Kept")


class KVCache(NamedTuple):
    """Keys and values of each layer, [R, J, C, H] in the compute dtype, and the segment id of each slot, int32 [R, C].

    Layers are apart, so that one token's entries are written in place inside a compiled loop. A slot of segment 0
    (padding, or not yet written) is never seen.
    """

    keys: tuple[jax.Array, ...]
    values: tuple[jax.Array, ...]
    segments_rc: jax.Array


class DecodeWeights(NamedTuple):
    """The parameters as decoding reads them: a dict per layer, cast once instead of once a token."""

    layers: tuple[Weights, ...]
    embed_vd: jax.Array
    final_norm_d: jax.Array
    untied_vd: jax.Array | None

    @property
    def unembed_vd(self) -> jax.Array:
        """The output matrix, for Decoder.logits."""
        return self.embed_vd if self.untied_vd is None else self.untied_vd


class Decoder(nnx.Module):
    """Token ids to hidden states to logits.

    `mesh` fixes the layout of activations and of parameters in use; None leaves both to the compiler. `attention`:
    auto (cudnn on a GPU in bfloat16, else xla), xla or cudnn.
    """

    def __init__(
        self,
        spec: ModelSpec,
        *,
        rngs: nnx.Rngs,
        compute_dtype: Any = jnp.float32,
        remat: bool = True,
        attention: str = "auto",
        mesh: Mesh | None = None,
    ) -> None:
        self.spec = spec
        self.mesh = mesh
        self.compute_dtype = jnp.dtype(compute_dtype)
        self.remat = remat
        platform = jax.default_backend() if mesh is None else mesh.devices.flat[0].platform
        self.on_cpu = platform == "cpu"
        self.attention = choose(attention, self.compute_dtype, platform)
        layers: dict[str, nnx.Param] = {}
        for path, row in parameters(spec).items():
            value = nnx.Param(row.initial(spec, rngs.params()))
            if row.stacked:
                layers[path[-1]] = value
            else:
                setattr(self, path[-1], value)
        self.layers = nnx.Dict(layers)

    def __call__(
        self,
        tokens_rs: jax.Array,
        positions_rs: jax.Array,
        segments_rs: jax.Array,
        branches_rs: jax.Array | None = None,
    ) -> jax.Array:
        """Hidden states [R, S, D] after the final norm, compute dtype, of int32 [R, S] tokens.

        A token sees itself and earlier ones of its row with its own segment id. Segment 0 is padding: what comes out
        there means nothing. With `branches_rs`, several continuations of one beginning share it: of its segment a token
        sees only its own branch and branch -1, the common beginning. R must be a multiple of the mesh's data * fsdp
        (ShardingError).
        """
        hidden_rsd, _ = self._rows(tokens_rs, positions_rs, segments_rs, branches_rs, keep=lambda k, v: None)
        return hidden_rsd

    def logits(self, hidden_xd: jax.Array, unembed_vd: jax.Array | None = None) -> jax.Array:
        """Float32 logits [..., V] of hidden states [..., D].

        A loop over chunks passes `unembed_vd = decoder.unembedding()`, so that the matrix is cast and gathered once.
        """
        with jax.named_scope("unembed"):
            unembed_vd = self.unembedding() if unembed_vd is None else unembed_vd
            return jnp.einsum(
                "...d,vd->...v", hidden_xd.astype(unembed_vd.dtype), unembed_vd, preferred_element_type=jnp.float32
            )

    def unembedding(self) -> jax.Array:
        """The output matrix [V, D] in the compute dtype, gathered over fsdp; of a tied model the embedding."""
        return self._use("embed_vd" if self.spec.tied else "unembed_vd")

    def prefill(
        self, tokens_rs: jax.Array, positions_rs: jax.Array, segments_rs: jax.Array, capacity: int
    ) -> tuple[jax.Array, KVCache]:
        """As __call__ on rows of one sequence each (padding, segment 0, at either end), and a cache of `capacity` slots
        of which the first S are filled."""
        slots = tokens_rs.shape[1]
        if slots > capacity:
            raise ValueError(f"a cache of {capacity} slots cannot hold a prompt of {slots} tokens")

        def keep(k_rsjh: jax.Array, v_rsjh: jax.Array) -> tuple[jax.Array, jax.Array]:
            return self._cached(k_rsjh, capacity), self._cached(v_rsjh, capacity)

        hidden_rsd, (k_lrjch, v_lrjch) = self._rows(tokens_rs, positions_rs, segments_rs, None, keep=keep)
        segments_rc = jnp.pad(segments_rs.astype(jnp.int32), ((0, 0), (0, capacity - slots)))
        layers = range(self.spec.layers)
        cache = KVCache(tuple(k_lrjch[i] for i in layers), tuple(v_lrjch[i] for i in layers), segments_rc)
        return hidden_rsd, cache

    def decode(
        self,
        tokens_r: jax.Array,
        positions_r: jax.Array,
        cache: KVCache,
        slot: jax.Array,
        weights: DecodeWeights | None = None,
    ) -> tuple[jax.Array, KVCache]:
        """One more token per row: hidden [R, D] after the final norm, and the cache with this token at `slot`.

        `slot` is one int32 scalar for all rows, or each row's own, int32 [R]; `positions_r` are each row's own. A loop
        passes `weights = decoder.decode_weights()`, made once outside it.
        """
        weights = self.decode_weights() if weights is None else weights
        slots_r = jnp.broadcast_to(slot, tokens_r.shape)
        here_rc = jnp.arange(cache.segments_rc.shape[1], dtype=slot.dtype)[None] == slots_r[:, None]
        segments_rc = jnp.where(here_rc, jnp.ones((), jnp.int32), cache.segments_rc)
        visible_rc = segments_rc != 0
        rope = rotary_tables(self.spec, positions_r[:, None])
        with jax.named_scope("embed"):
            hidden = self._rows_of(weights.embed_vd, tokens_r[:, None])
        keys, values = [], []
        for layer, k_rjch, v_rjch in zip(weights.layers, cache.keys, cache.values, strict=True):

            def attend(
                q: jax.Array, k: jax.Array, v: jax.Array, k_rjch: jax.Array = k_rjch, v_rjch: jax.Array = v_rjch
            ) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
                k_rjch, v_rjch = _write(k_rjch, k, slot), _write(v_rjch, v, slot)
                return attend_cache(q[:, 0], k_rjch, v_rjch, visible_rc)[:, None], (k_rjch, v_rjch)

            hidden, (k_rjch, v_rjch) = self._layer(layer, hidden, rope, attend)
            keys.append(k_rjch)
            values.append(v_rjch)
        hidden = _rms_norm(hidden, weights.final_norm_d, self.spec.norm_eps)
        return hidden[:, 0], KVCache(tuple(keys), tuple(values), segments_rc)

    def decode_weights(self) -> DecodeWeights:
        """The parameters cast and unstacked for decode(): one more copy of the policy, in the compute dtype (a float32
        copy of the rounded values on a CPU, which has no fast bfloat16 product)."""
        table = parameters(self.spec)
        stacked = {
            name: self._cast(table["layers", name], leaf[...], decoding=True) for name, leaf in self.layers.items()
        }
        layers = tuple(
            {name: self._gather(table["layers", name], leaf[i]) for name, leaf in stacked.items()}
            for i in range(self.spec.layers)
        )
        embed_vd = self._use("embed_vd", decoding=True)
        untied_vd = None if self.spec.tied else self._use("unembed_vd", decoding=True)
        return DecodeWeights(layers, embed_vd, self._use("final_norm_d", decoding=True), untied_vd)

    def _rows(
        self,
        tokens_rs: jax.Array,
        positions_rs: jax.Array,
        segments_rs: jax.Array,
        branches_rs: jax.Array | None,
        keep: Callable[[jax.Array, jax.Array], Kept],
    ) -> tuple[jax.Array, Kept]:
        table = parameters(self.spec)
        rope = rotary_tables(self.spec, positions_rs)
        visible_rqk = visible(segments_rs, branches_rs)
        with jax.named_scope("embed"):
            hidden_rsd = self._rows_of(self._use("embed_vd"), tokens_rs)

        def attend(q: jax.Array, k: jax.Array, v: jax.Array) -> tuple[jax.Array, Kept]:
            return attend_rows(q, k, v, visible_rqk, self.attention), keep(k, v)

        def body(hidden_rsd: jax.Array, stacked: Weights) -> tuple[jax.Array, Kept]:
            layer = {
                name: self._gather(table["layers", name], self._cast(table["layers", name], value))
                for name, value in stacked.items()
            }
            return self._layer(layer, hidden_rsd, rope, attend)

        step = jax.checkpoint(body, prevent_cse=False) if self.remat else body
        hidden_rsd, kept = jax.lax.scan(step, hidden_rsd, {name: leaf[...] for name, leaf in self.layers.items()})
        return _rms_norm(hidden_rsd, self._use("final_norm_d"), self.spec.norm_eps), kept

    def _layer(
        self,
        layer: Weights,
        hidden_rsd: jax.Array,
        rope: Rope,
        attend: Callable[[jax.Array, jax.Array, jax.Array], tuple[jax.Array, Kept]],
    ) -> tuple[jax.Array, Kept]:
        eps = self.spec.norm_eps
        with jax.named_scope("attention"):
            x_rsd = _rms_norm(hidden_rsd, layer["attention_norm_d"], eps)
            q_rsnh = self._product("rsd,dnh->rsnh", x_rsd, layer, "q_dnh", "q_bias_nh")
            k_rsjh = self._product("rsd,djh->rsjh", x_rsd, layer, "k_djh", "k_bias_jh")
            v_rsjh = self._product("rsd,djh->rsjh", x_rsd, layer, "v_djh", "v_bias_jh")
            if self.spec.qk_norm:
                q_rsnh = _rms_norm(q_rsnh, layer["q_norm_h"], eps)
                k_rsjh = _rms_norm(k_rsjh, layer["k_norm_h"], eps)
            q_rsnh = constrain(rotate(q_rsnh, rope), self.mesh, ("rows", "tokens", "heads", "head_dim"))
            k_rsjh = constrain(rotate(k_rsjh, rope), self.mesh, ("rows", "tokens", "kv_heads", "head_dim"))
            context_rsnh, kept = attend(q_rsnh, k_rsjh, v_rsjh)
            out_rsd = self._product("rsnh,nhd->rsd", context_rsnh, layer, "o_nhd", "o_bias_d")
            hidden_rsd = self._hidden(hidden_rsd + out_rsd)
        with jax.named_scope("feed_forward"):
            x_rsd = _rms_norm(hidden_rsd, layer["feed_forward_norm_d"], eps)
            gate_rsf = self._product("rsd,df->rsf", x_rsd, layer, "gate_df", "gate_bias_f")
            up_rsf = self._product("rsd,df->rsf", x_rsd, layer, "up_df", "up_bias_f")
            out_rsd = self._product("rsf,fd->rsd", jax.nn.silu(gate_rsf) * up_rsf, layer, "down_fd", "down_bias_d")
            return self._hidden(hidden_rsd + out_rsd), kept

    def _product(self, equation: str, x: jax.Array, layer: Weights, matrix: str, bias: str) -> jax.Array:
        weight = layer[matrix]
        out = jnp.einsum(equation, x.astype(weight.dtype), weight).astype(self.compute_dtype)
        if bias in layer:
            offset = layer[bias].astype(self.compute_dtype)
            out = out + jnp.expand_dims(offset, range(out.ndim - offset.ndim))
        return out

    def _rows_of(self, embed_vd: jax.Array, tokens_rs: jax.Array) -> jax.Array:
        return self._hidden(jnp.take(embed_vd, tokens_rs, axis=0).astype(self.compute_dtype))

    def _hidden(self, hidden_rsd: jax.Array) -> jax.Array:
        return constrain(hidden_rsd, self.mesh, ("rows", "tokens", "features"))

    def _cached(self, k_rsjh: jax.Array, capacity: int) -> jax.Array:
        k_rjch = jnp.pad(k_rsjh.swapaxes(1, 2), ((0, 0), (0, 0), (0, capacity - k_rsjh.shape[1]), (0, 0)))
        return constrain(k_rjch, self.mesh, ("rows", "kv_heads", "tokens", "head_dim"))

    def _use(self, name: str, decoding: bool = False) -> jax.Array:
        row = parameters(self.spec)[name,]
        return self._gather(row, self._cast(row, getattr(self, name)[...], decoding))

    def _cast(self, row: Parameter, value: jax.Array, decoding: bool = False) -> jax.Array:
        if row.kind == "norm" or self.compute_dtype == value.dtype:
            return value
        if decoding and self.on_cpu:
            return jax.lax.reduce_precision(value, exponent_bits=8, mantissa_bits=7)  # bfloat16's
        return value.astype(self.compute_dtype)

    def _gather(self, row: Parameter, value: jax.Array) -> jax.Array:
        axes = row.axes[1:] if row.stacked else row.axes
        # cast first, gather then: half the bytes cross the links in bfloat16
        return gather(value, self.mesh, axes)


def _rms_norm(x: jax.Array, weight: jax.Array, eps: float) -> jax.Array:
    """x / sqrt(mean(x^2) + eps) * weight over the last axis, in float32, back in the dtype of x."""
    wide = x.astype(jnp.float32)
    scale = jax.lax.rsqrt(jnp.mean(jnp.square(wide), axis=-1, keepdims=True) + jnp.float32(eps))
    return (wide * scale * jnp.expand_dims(weight, range(x.ndim - 1))).astype(x.dtype)


def _write(cache_rjch: jax.Array, new_rsjh: jax.Array, slot: jax.Array) -> jax.Array:
    zero = jnp.zeros((), slot.dtype)
    if slot.ndim == 0:
        return jax.lax.dynamic_update_slice(cache_rjch, new_rsjh.swapaxes(1, 2), (zero, zero, slot, zero))

    def one(cache_jch: jax.Array, new_sjh: jax.Array, slot: jax.Array) -> jax.Array:
        return jax.lax.dynamic_update_slice(cache_jch, new_sjh.swapaxes(0, 1), (zero, slot, zero))

    # batched over rows it is one scatter, in place and split over the mesh as the rows are
    return jax.vmap(one)(cache_rjch, new_rsjh, slot)
