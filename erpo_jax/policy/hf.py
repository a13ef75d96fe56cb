"""The weight map: which Hugging Face tensor is which parameter of ours, as a table of patterns read in both directions.

A matrix of ours has its input axes first and its heads apart; Hugging Face stores [out, in] with heads and head_dim
merged. A pattern's axes say how the stored tensor is built from ours: one group of our axis names per stored axis.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from erpo_jax.policy.parameters import Parameter, parameters
from erpo_jax.policy.spec import ModelSpec


@dataclass(frozen=True)
class Pattern:
    """`name` with {layer} in it, the path of our parameter, and the stored axes, each a group of ours."""

    name: str
    path: tuple[str, ...]
    stored: tuple[tuple[str, ...], ...]


def _row(name: str, path: str, stored: str) -> Pattern:
    return Pattern(name, tuple(path.split("/")), tuple(tuple(group.split()) for group in stored.split(",")))


_LAYER = "model.layers.{layer}."
PATTERNS = (
    _row("model.embed_tokens.weight", "embed_vd", "vocabulary, model"),
    _row(_LAYER + "input_layernorm.weight", "layers/attention_norm_d", "features"),
    _row(_LAYER + "self_attn.q_proj.weight", "layers/q_dnh", "heads head_dim, model"),
    _row(_LAYER + "self_attn.k_proj.weight", "layers/k_djh", "kv_heads head_dim, model"),
    _row(_LAYER + "self_attn.v_proj.weight", "layers/v_djh", "kv_heads head_dim, model"),
    _row(_LAYER + "self_attn.o_proj.weight", "layers/o_nhd", "model, heads head_dim"),
    _row(_LAYER + "self_attn.q_proj.bias", "layers/q_bias_nh", "heads head_dim"),
    _row(_LAYER + "self_attn.k_proj.bias", "layers/k_bias_jh", "kv_heads head_dim"),
    _row(_LAYER + "self_attn.v_proj.bias", "layers/v_bias_jh", "kv_heads head_dim"),
    _row(_LAYER + "self_attn.o_proj.bias", "layers/o_bias_d", "features"),
    _row(_LAYER + "self_attn.q_norm.weight", "layers/q_norm_h", "head_dim"),
    _row(_LAYER + "self_attn.k_norm.weight", "layers/k_norm_h", "head_dim"),
    _row(_LAYER + "post_attention_layernorm.weight", "layers/feed_forward_norm_d", "features"),
    _row(_LAYER + "mlp.gate_proj.weight", "layers/gate_df", "feed_forward, model"),
    _row(_LAYER + "mlp.up_proj.weight", "layers/up_df", "feed_forward, model"),
    _row(_LAYER + "mlp.down_proj.weight", "layers/down_fd", "model, feed_forward"),
    _row(_LAYER + "mlp.gate_proj.bias", "layers/gate_bias_f", "feed_forward"),
    _row(_LAYER + "mlp.up_proj.bias", "layers/up_bias_f", "feed_forward"),
    _row(_LAYER + "mlp.down_proj.bias", "layers/down_bias_d", "features"),
    _row("model.norm.weight", "final_norm_d", "features"),
    _row("lm_head.weight", "unembed_vd", "vocabulary, model"),
)

# A tied checkpoint may hold the head a second time; it is checked against the embedding and written back from it.
HEAD, EMBEDDING = "lm_head.weight", "model.embed_tokens.weight"


@dataclass(frozen=True)
class Link:
    """One stored tensor: its name, our parameter, and the layer (None: the parameter is not stacked)."""

    name: str
    parameter: Parameter
    layer: int | None
    stored: tuple[tuple[str, ...], ...]

    @property
    def axes(self) -> tuple[str, ...]:
        """Our axes of this one tensor, without the stack."""
        return self.parameter.axes if self.layer is None else self.parameter.axes[1:]

    def shape(self, spec: ModelSpec) -> tuple[int, ...]:
        """The shape the file must have."""
        return tuple(math.prod(spec.size(axis) for axis in group) for group in self.stored)

    def stored_slices(self, ours: Sequence[slice], spec: ModelSpec) -> tuple[slice, ...]:
        """Which part of the file holds this part of our tensor. Only a group's first axis may be cut."""
        cut = dict(zip(self.axes, ours, strict=True))
        found = []
        for first, *rest in self.stored:
            start, stop, _ = cut[first].indices(spec.size(first))
            inner = math.prod(spec.size(axis) for axis in rest)
            if any(cut[axis].indices(spec.size(axis))[:2] != (0, spec.size(axis)) for axis in rest):
                raise ValueError(f"{self.name}: only the first axis of {(first, *rest)} can be split over devices")
            found.append(slice(start * inner, stop * inner))
        return tuple(found)

    def to_ours(self, part: np.ndarray, spec: ModelSpec) -> np.ndarray:
        """A part read by stored_slices, in our axes."""
        apart: list[int] = []
        for length, (_, *rest) in zip(part.shape, self.stored, strict=True):
            inner = [spec.size(axis) for axis in rest]
            apart += [length // math.prod(inner), *inner]
        order = [axis for group in self.stored for axis in group]
        return part.reshape(apart).transpose([order.index(axis) for axis in self.axes])

    def to_stored(self, ours: Any) -> Any:
        """Our whole tensor, a numpy or JAX array, in the file's axes."""
        order = [axis for group in self.stored for axis in group]
        whole = ours.transpose([self.axes.index(axis) for axis in order])
        sizes = dict(zip(self.axes, ours.shape, strict=True))
        return whole.reshape([math.prod(sizes[axis] for axis in group) for group in self.stored])


def links(spec: ModelSpec) -> Iterator[Link]:
    """Every tensor that a checkpoint of this model must hold."""
    table = parameters(spec)
    for pattern in PATTERNS:
        parameter = table.get(pattern.path)
        if parameter is None:
            continue
        if parameter.stacked:
            for layer in range(spec.layers):
                yield Link(pattern.name.format(layer=layer), parameter, layer, pattern.stored)
        else:
            yield Link(pattern.name, parameter, None, pattern.stored)
