"""What runs on the devices: a fixed number of lanes, each answering one prompt, and the compiled programs over them.

A lane is one row of the cache. A prompt is prefilled once, right-padded to its bucket, and copied into the lanes of all
its samples; then `decode` runs steps in one compiled loop until enough lanes have ended, and the host fills those
again. A token's slot in the cache is its position, so that what a lane computes does not depend on when it was filled.
A lane starts by reading the prompt's last token again: one step more, and no second place where tokens are sampled.
Left out: paged caches and prefix sharing between lanes; the cache is dense, [lanes, capacity].
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import Mesh, NamedSharding, Sharding

from erpo_jax.policy import Decoder, DecodeWeights, KVCache, ModelSpec, partition, row_sharding
from erpo_jax.rollout.sampling import greedy, row_keys, sample

CHUNK = 64  # most steps between two looks of the host

Out = TypeVar("Out")
Carry = tuple[jax.Array, "Lanes", jax.Array, jax.Array, jax.Array]


class Lanes(NamedTuple):
    """`tokens_r` is the token a lane reads next, `positions_r` its position, `counts_r` how many it has sampled."""

    cache: KVCache
    tokens_r: jax.Array
    positions_r: jax.Array
    counts_r: jax.Array
    live_r: jax.Array
    keys_r2: jax.Array


class Filling(NamedTuple):
    """New work for some lanes, from the host: the row of the prefilled cache (-1 leaves a lane as it is), its prompt's
    last token and that token's position, and the words of its random key."""

    source_r: Any
    tokens_r: Any
    positions_r: Any
    words_r3: Any


class Chunk(NamedTuple):
    """What some steps gave: the first `emitted_r[r]` entries of column r are lane r's new tokens and log-probs."""

    tokens_cr: jax.Array
    logprobs_cr: jax.Array
    emitted_r: jax.Array
    live_r: jax.Array


@dataclass
class Programs:
    """The compiled programs of one policy's shape: each is compiled once per shape, counted and timed."""

    graphdef: nnx.GraphDef
    spec: ModelSpec
    mesh: Mesh
    compute_dtype: Any
    end_ids: tuple[int, ...]
    compile_s: float = 0.0
    _built: dict[Hashable, Any] = field(default_factory=dict)

    @property
    def compilations(self) -> int:
        return len(self._built)

    def shapes(self) -> list[Any]:
        """The name and sizes of each compiled program, in the order of compilation."""
        return list(self._built)

    def temporary_bytes(self, shape: Hashable) -> int:
        """Device memory that a compiled program needs besides its arguments and results."""
        return int(self._built[shape].memory_analysis().temp_size_in_bytes)

    def weights(self, params: nnx.State) -> DecodeWeights:
        """The parameters as decoding reads them, made once per call of the engine."""
        return self._call(("weights",), lambda p: self._decoder(p).decode_weights(), (params,))

    def prefill(self, params: nnx.State, tokens_qs: Any, segments_qs: Any) -> KVCache:
        """A cache of S slots for Q prompts, right-padded to S; segment 1 is the prompt and 0 the padding."""

        def run(params: nnx.State, tokens_qs: jax.Array, segments_qs: jax.Array) -> KVCache:
            slots = tokens_qs.shape[1]
            positions_qs = jnp.broadcast_to(jnp.arange(slots, dtype=jnp.int32)[None], tokens_qs.shape)
            return self._decoder(params).prefill(tokens_qs, positions_qs, segments_qs, slots)[1]

        args = (params, tokens_qs, segments_qs)
        return self._call(("prefill", *tokens_qs.shape), run, args, out=self._cache_sharding(), rows=(1, 2))

    def empty(self, lanes: int, capacity: int) -> Lanes:
        """Lanes without work."""

        def run() -> Lanes:
            shape = (lanes, self.spec.kv_heads, capacity, self.spec.head_dim)
            keys, values = (
                tuple(jnp.zeros(shape, self.compute_dtype) for _ in range(self.spec.layers)) for _ in range(2)
            )
            none_r = jnp.zeros((lanes,), jnp.int32)
            return Lanes(
                KVCache(keys, values, jnp.zeros((lanes, capacity), jnp.int32)),
                none_r,
                none_r,
                none_r,
                jnp.zeros((lanes,), bool),
                jnp.zeros((lanes, 2), jnp.uint32),
            )

        return self._call(("empty", lanes, capacity), run, (), out=self._lanes_sharding())

    def fill(self, lanes: Lanes, prefilled: KVCache, filling: Filling) -> Lanes:
        """The lanes with new work where `filling` says so. `lanes` is donated."""
        sizes = (*lanes.cache.segments_rc.shape, *prefilled.segments_rc.shape)
        return self._call(
            ("fill", *sizes), _fill, (lanes, prefilled, filling), out=self._lanes_sharding(), rows=(2,), donate=(0,)
        )

    def take(self, lanes: Lanes, rows_r: Any) -> Lanes:
        """These lanes alone, in this order."""

        def run(lanes: Lanes, rows_r: jax.Array) -> Lanes:
            taken: Lanes = jax.tree.map(lambda leaf: jnp.take(leaf, rows_r, axis=0, mode="clip"), lanes)
            return taken

        sizes = (*lanes.cache.segments_rc.shape, len(rows_r))
        return self._call(("take", *sizes), run, (lanes, rows_r), out=self._lanes_sharding())

    def decode(
        self,
        params: nnx.State,
        weights: DecodeWeights,
        lanes: Lanes,
        temperature: Any,
        limit: Any,
        stop_at: Any,
        *,
        greedily: bool,
    ) -> tuple[Lanes, Chunk]:
        """Steps until no more than `stop_at` lanes live, at most CHUNK. A lane ends at any end id, or with `limit`
        tokens.

        `lanes` is donated. `temperature` is not read when `greedily`. Of `params` only the structure is used.
        """
        run = functools.partial(_decode, self.graphdef, self.end_ids, greedily)
        args = (params, weights, lanes, temperature, limit, stop_at)
        out = (self._lanes_sharding(), Chunk(*[self._whole()] * 4))
        return self._call(("decode", *lanes.cache.segments_rc.shape, greedily), run, args, out=out, donate=(2,))

    def _decoder(self, params: nnx.State) -> Decoder:
        decoder: Decoder = nnx.merge(self.graphdef, params)
        return decoder

    def _whole(self) -> Any:
        return NamedSharding(self.mesh, partition(()))

    def _cache_sharding(self) -> Any:
        entry = NamedSharding(self.mesh, partition(("rows", "kv_heads", "tokens", "head_dim")))
        each: Any = (entry,) * self.spec.layers
        segments: Any = row_sharding(self.mesh, 2)
        return KVCache(each, each, segments)

    def _lanes_sharding(self) -> Any:
        row: Any = row_sharding(self.mesh, 1)
        keys: Any = row_sharding(self.mesh, 2)
        return Lanes(self._cache_sharding(), row, row, row, row, keys)

    def _call(
        self,
        name: tuple[Hashable, ...],
        run: Callable[..., Out],
        args: tuple[Any, ...],
        *,
        out: Any = None,
        rows: Sequence[int] = (),
        donate: Sequence[int] = (),
    ) -> Out:
        """Run the program of this name, compiled at first use. `rows` are the arguments that come from the host with
        their rows on the first axis; other host arguments are scalars. Device arguments keep the layout they have."""
        if name not in self._built:
            started = time.perf_counter()
            shardings = tuple(self._sharding_of(arg, i in rows) for i, arg in enumerate(args))
            jitted = jax.jit(run, in_shardings=shardings, out_shardings=out, donate_argnums=tuple(donate))
            self._built[name] = jitted.lower(*args).compile()
            self.compile_s += time.perf_counter() - started
        result: Out = self._built[name](*args)
        return result

    def _sharding_of(self, arg: Any, rows: bool) -> Any:
        def of(leaf: Any) -> Sharding:
            if isinstance(leaf, jax.Array):
                return leaf.sharding
            if rows:
                return row_sharding(self.mesh, leaf.ndim)
            return NamedSharding(self.mesh, partition(()))

        return jax.tree.map(of, arg)


def _fill(lanes: Lanes, prefilled: KVCache, filling: Filling) -> Lanes:
    capacity = lanes.cache.segments_rc.shape[1]
    slots = min(prefilled.segments_rc.shape[1], capacity)  # beyond the capacity there is padding alone
    chosen_r = filling.source_r >= 0
    source_r = jnp.maximum(filling.source_r, 0)

    def replace(old: jax.Array, new: jax.Array) -> jax.Array:
        mask = jnp.expand_dims(chosen_r, range(1, old.ndim))
        return jnp.where(mask, new, old)

    def layer(old_rjch: jax.Array, new_qjsh: jax.Array) -> jax.Array:
        new_rjsh = jnp.take(new_qjsh[:, :, :slots], source_r, axis=0, mode="clip")
        return old_rjch.at[:, :, :slots].set(replace(old_rjch[:, :, :slots], new_rjsh))

    segments_rs = jnp.take(prefilled.segments_rc[:, :slots], source_r, axis=0, mode="clip")
    cache = KVCache(
        tuple(map(layer, lanes.cache.keys, prefilled.keys)),
        tuple(map(layer, lanes.cache.values, prefilled.values)),
        replace(lanes.cache.segments_rc, jnp.pad(segments_rs, ((0, 0), (0, capacity - slots)))),
    )
    return Lanes(
        cache,
        replace(lanes.tokens_r, filling.tokens_r),
        replace(lanes.positions_r, filling.positions_r),
        replace(lanes.counts_r, jnp.zeros_like(lanes.counts_r)),
        lanes.live_r | chosen_r,
        replace(lanes.keys_r2, row_keys(filling.words_r3)),
    )


def _decode(
    graphdef: nnx.GraphDef,
    end_ids: tuple[int, ...],
    greedily: bool,
    params: nnx.State,
    weights: DecodeWeights,
    lanes: Lanes,
    temperature: jax.Array,
    limit: jax.Array,
    stop_at: jax.Array,
) -> tuple[Lanes, Chunk]:
    decoder: Decoder = nnx.merge(graphdef, params)
    rows = lanes.tokens_r.shape[0]
    ends_e = jnp.asarray(end_ids, jnp.int32)

    def going(carry: Carry) -> jax.Array:
        step, lanes, *_ = carry
        return (step < CHUNK) & (jnp.sum(lanes.live_r, dtype=jnp.int32) > stop_at)

    def one(carry: Carry) -> Carry:
        step, lanes, tokens_cr, logprobs_cr, emitted_r = carry
        hidden_rd, cache = decoder.decode(lanes.tokens_r, lanes.positions_r, lanes.cache, lanes.positions_r, weights)
        logits_rv = decoder.logits(hidden_rd, weights.unembed_vd)
        with jax.named_scope("sample"):
            if greedily:
                chosen_r, logprobs_r = greedy(logits_rv)
            else:
                chosen_r, logprobs_r = sample(logits_rv, temperature, lanes.keys_r2, lanes.counts_r)
        # a lane that has ended reads its last token again and writes the same slot: no later lane or step sees it
        went_r = lanes.live_r.astype(jnp.int32)
        counts_r = lanes.counts_r + went_r
        ended_r = jnp.any(chosen_r[:, None] == ends_e[None], axis=-1) | (counts_r >= limit)
        after = Lanes(
            cache,
            jnp.where(lanes.live_r, chosen_r, lanes.tokens_r),
            lanes.positions_r + went_r,
            counts_r,
            lanes.live_r & ~ended_r,
            lanes.keys_r2,
        )
        place = (step, jnp.zeros((), jnp.int32))
        tokens_cr = jax.lax.dynamic_update_slice(tokens_cr, chosen_r[None], place)
        logprobs_cr = jax.lax.dynamic_update_slice(logprobs_cr, logprobs_r[None], place)
        return step + 1, after, tokens_cr, logprobs_cr, emitted_r + went_r

    none_r = jnp.zeros((rows,), jnp.int32)
    tokens_cr, logprobs_cr = jnp.zeros((CHUNK, rows), jnp.int32), jnp.zeros((CHUNK, rows), jnp.float32)
    carry = (jnp.zeros((), jnp.int32), lanes, tokens_cr, logprobs_cr, none_r)
    _, lanes, tokens_cr, logprobs_cr, emitted_r = jax.lax.while_loop(going, one, carry)
    return lanes, Chunk(tokens_cr, logprobs_cr, emitted_r, lanes.live_r)
